"""Every command says what it does; tests/e2e/test_up.py starts a few of them as processes."""

from collections.abc import Iterator

import click
from click.testing import CliRunner

from holdfast.main import cli


def _paths(group: click.Group, *before: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*before, name)
        if isinstance(command, click.Group):
            yield from _paths(command, *before, name)


def test_every_command_has_help() -> None:
    paths = list(_paths(cli))
    assert {("up",), ("status",), ("keys", "list"), ("audit", "verify"), ("backup",), ("restore",)} <= set(paths)
    for path in paths:
        shown = CliRunner().invoke(cli, [*path, "--help"])
        assert shown.exit_code == 0 and len(shown.stdout.splitlines()) > 3, path
