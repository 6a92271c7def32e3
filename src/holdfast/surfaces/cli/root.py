"""Owns the command `holdfast` and the list of its commands, each loaded only when it is called."""

from importlib import import_module

import click

from holdfast import __version__

# Name → (module, attribute, help). Importing them all would make every command slow to start.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "up": ("server", "up", "Start the server."),
    "status": ("server", "status", "Show what this server has and whether it runs."),
    "doctor": ("doctor", "doctor", "Check this machine and the data, and say what to do."),
    "settings": ("settings", "settings", "Print every setting."),
    "keys": ("keys", "group", "API keys."),
    "projects": ("projects", "projects", "Projects."),
    "workspaces": ("projects", "workspaces", "Workspaces."),
    "secrets": ("secrets", "group", "Secrets: API keys and the like, never shown again."),
    "endpoints": ("endpoints", "group", "Which model answers chat, and where."),
    "organizations": ("organizations", "group", "Organizations on this server."),
    "users": ("users", "group", "People of the organization."),
    "audit": ("audit", "group", "The audit log."),
    "usage": ("usage", "usage", "What was used, by key, project, person and week."),
    "backup": ("backup", "backup", "Write everything to one file, while serving."),
    "restore": ("backup", "restore", "Bring a backup into an empty data directory."),
    "memory": ("memory", "group", "Memories."),
    "search": ("memory", "search", "Search everything in a workspace."),
    "repos": ("repos", "group", "Repositories: their history, remembered and asked."),
    "docs": ("docs", "group", "Documents."),
    "artifacts": ("artifacts", "group", "Artifacts."),
    "chats": ("chats", "group", "Conversations over the OpenAI-compatible endpoint."),
    "decisions": ("decisions", "group", "Decisions."),
    "milestones": ("milestones", "group", "Milestones."),
    "graph": ("graph", "group", "Relations between what is known."),
    "brief": ("brief", "brief", "Where the project stands."),
    "analyze": ("brief", "analyze", "A written synthesis of what is known."),
    "timeline": ("brief", "timeline", "Milestones in order."),
    "import": ("interchange", "import_", "Import Markdown, mem0, basic-memory or server-memory files."),
    "export": ("interchange", "export", "Export a workspace to Markdown."),
    "mcp": ("mcp", "group", "Connect coding agents."),
    "completion": ("completion", "completion", "Print the script that completes commands in your shell."),
}


class LazyCommands(click.Group):
    """A group whose commands live in modules that are imported on use."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[name]
        found = getattr(import_module(f"holdfast.surfaces.cli.{module}"), attribute)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, _, help) in _COMMANDS.items()])


@click.command(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def cli() -> None:
    """One durable memory and one set of governed tools for every AI agent on your team."""
