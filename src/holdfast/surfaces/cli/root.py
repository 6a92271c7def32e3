"""Owns the command `holdfast` and the list of its commands, each loaded only when it is called."""

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from holdfast import __version__

Listing = Mapping[str, tuple[tuple[str, ...], str]]
"""Name → (where it is declared, help). Importing them all would make every command slow to start. Several features can
give commands to one group."""

_HERE = "holdfast.surfaces.cli."
_SERVER: Listing = {
    "up": ((_HERE + "server:up",), "Start the server."),
    "status": ((_HERE + "status:status",), "Show what this server has and whether it runs."),
    "doctor": ((_HERE + "doctor:doctor",), "Check this machine and the data, and say what to do."),
    "settings": ((_HERE + "settings:settings",), "Print every setting."),
    "migrate": ((_HERE + "migrate:migrate",), "Bring the store to this version, and begin one where there is none."),
    "backup": ((_HERE + "backup:backup",), "Write everything to one file, while serving."),
    "restore": ((_HERE + "backup:restore",), "Bring a backup into an empty data directory."),
    "completion": ((_HERE + "completion:completion",), "Print the script that completes commands in your shell."),
}
"""What is of the server as a whole; features list the others."""
_TOOLS = _HERE + "mcp:mcp"
"""`holdfast mcp tools` walks the tools of all features, so none of them has it."""


class LazyCommands(click.Group):
    """A group whose commands live in modules that are imported on use."""

    def __init__(self, features: Callable[[], Listing], **attributes: Any) -> None:
        """`features` lists the commands that features bring."""
        super().__init__(**attributes)
        self._features = features

    @cached_property
    def _listed(self) -> Listing:
        brought = dict(self._features())
        at, help = brought["mcp"]
        return {**_SERVER, **brought, "mcp": ((*at, _TOOLS), help)}

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._listed)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._listed:
            return None
        found = [_declared(where) for where in self._listed[name][0]]
        if isinstance(found[0], click.Command):
            return found[0]
        # Imported here: `holdfast --help` and `--version` need no command, and so nothing that declares one.
        from holdfast.surfaces.cli.declared import as_click

        return as_click(found)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in self._listed.items()])

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        # click would import every command to ask for its help.
        names = [
            CompletionItem(name, help=help) for name, (_, help) in self._listed.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, context, incomplete)]


def _declared(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)


def command_line(features: Callable[[], Listing]) -> click.Group:
    """The command `holdfast`."""
    made = LazyCommands(
        features,
        name="holdfast",
        help="One durable memory and one set of governed tools for every AI agent on your team.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    click.version_option(__version__, prog_name="holdfast")(made)
    return made
