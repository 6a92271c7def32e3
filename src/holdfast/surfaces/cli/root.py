"""Owns the command `holdfast` and the list of its commands, each loaded only when it is called."""

from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from holdfast import __version__

# Name → (where it is declared, help). Importing them all would make every command slow to start. Several features can
# give commands to one group.
_COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "up": (("holdfast.surfaces.cli.server:up",), "Start the server."),
    "status": (("holdfast.surfaces.cli.status:status",), "Show what this server has and whether it runs."),
    "doctor": (("holdfast.surfaces.cli.doctor:doctor",), "Check this machine and the data, and say what to do."),
    "settings": (("holdfast.surfaces.cli.settings:settings",), "Print every setting."),
    "keys": (("holdfast.features.identity.commands.keys:keys",), "API keys."),
    "projects": (("holdfast.features.identity.commands.projects:projects",), "Projects."),
    "workspaces": (("holdfast.features.workspaces.commands:workspaces",), "Workspaces."),
    "secrets": (("holdfast.features.secrets.commands:secrets",), "Secrets: API keys and the like, never shown again."),
    "endpoints": (("holdfast.features.endpoints.commands:endpoints",), "Which model answers chat, and where."),
    "organizations": (("holdfast.features.identity.commands.people:organizations",), "Organizations on this server."),
    "users": (("holdfast.features.identity.commands.people:users",), "People of the organization."),
    "audit": (("holdfast.features.audit.commands:audit",), "The audit log."),
    "usage": (("holdfast.features.usage.commands:usage",), "What was used, by key, project, person and week."),
    "backup": (("holdfast.surfaces.cli.backup:backup",), "Write everything to one file, while serving."),
    "restore": (("holdfast.surfaces.cli.backup:restore",), "Bring a backup into an empty data directory."),
    "memory": (("holdfast.features.memory.commands:memory",), "Memories."),
    "search": (("holdfast.features.memory.commands:search",), "Search everything in a workspace."),
    "repos": (
        (
            "holdfast.features.repositories.commands.repos:repos",
            "holdfast.features.synthesis.commands:repos",
            "holdfast.features.ask.commands:repos",
        ),
        "Repositories: their history, remembered and asked.",
    ),
    "docs": (("holdfast.features.documents.commands:docs",), "Documents."),
    "artifacts": (("holdfast.features.artifacts.commands:artifacts",), "Artifacts."),
    "chats": (("holdfast.features.chat.commands:chats",), "Conversations over the OpenAI-compatible endpoint."),
    "decisions": (("holdfast.features.intelligence.commands.decisions:decisions",), "Decisions."),
    "milestones": (("holdfast.features.intelligence.commands.milestones:milestones",), "Milestones."),
    "graph": (("holdfast.features.intelligence.commands.graph:graph",), "Relations between what is known."),
    "brief": (("holdfast.features.intelligence.commands.brief:brief",), "Where the project stands."),
    "analyze": (("holdfast.features.intelligence.commands.brief:analyze",), "A written synthesis of what is known."),
    "timeline": (("holdfast.features.intelligence.commands.milestones:timeline",), "Milestones in order."),
    "import": (
        ("holdfast.features.interchange.commands:import_",),
        "Import Markdown, mem0, basic-memory or server-memory files.",
    ),
    "export": (("holdfast.features.interchange.commands:export",), "Export a workspace to Markdown."),
    "mcp": (
        (
            "holdfast.features.client_bundles.commands:mcp",
            "holdfast.features.clients.commands:mcp",
            "holdfast.surfaces.cli.mcp:mcp",
        ),
        "Connect coding agents.",
    ),
    "completion": (
        ("holdfast.surfaces.cli.completion:completion",),
        "Print the script that completes commands in your shell.",
    ),
}


class LazyCommands(click.Group):
    """A group whose commands live in modules that are imported on use."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        found = [_declared(where) for where in _COMMANDS[name][0]]
        if isinstance(found[0], click.Command):
            return found[0]
        # Imported here: `holdfast --help` and `--version` need no command, and so nothing that declares one.
        from holdfast.surfaces.cli.declared import as_click

        return as_click(found)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in _COMMANDS.items()])

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        # click would import every command to ask for its help.
        names = [
            CompletionItem(name, help=help) for name, (_, help) in _COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, context, incomplete)]


def _declared(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)


@click.command(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def cli() -> None:
    """One durable memory and one set of governed tools for every AI agent on your team."""
