"""Owns `holdfast completion`."""

import click
from click.shell_completion import get_completion_class


@click.command(
    "completion", help="Print the script that completes commands; put its output into your shell's start-up file."
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "holdfast", "_HOLDFAST_COMPLETE").source())
