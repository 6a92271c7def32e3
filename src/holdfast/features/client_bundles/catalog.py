"""Owns the clients that are documented with the product: one renderer each, in the exact shape that each reads."""

from typing import Any

from holdfast.features.client_bundles.model import Client, ClientConnection, McpEndpoint, RouterFile, RulesFile

PROJECT = "your project's root"


def _opencode_rules(name: str) -> str:
    # Not in .opencode: for a folder of that name opencode installs packages into it.
    return f".{name}/rules.md"


def typed_servers(connection: ClientConnection) -> dict[str, Any]:
    """`mcpServers` with a transport, as Claude Code has it."""
    return {"mcpServers": {connection.name: {"type": "http", "url": connection.url, "headers": connection.headers}}}


def _cursor(connection: ClientConnection) -> dict[str, Any]:
    return {"mcpServers": {connection.name: {"url": connection.url, "headers": connection.headers}}}


def _opencode(connection: ClientConnection) -> dict[str, Any]:
    server = {
        "type": "remote",
        "url": connection.url,
        "enabled": True,
        # Without this opencode first looks for an OAuth server, and does not use the headers.
        "oauth": False,
        "timeout": connection.timeout(30) * 1000,
        "headers": connection.headers,
    }
    return {"mcp": {connection.name: server}, "instructions": [_opencode_rules(connection.name)]}


def _vscode(connection: ClientConnection) -> dict[str, Any]:
    return {"servers": {connection.name: {"type": "http", "url": connection.url, "headers": connection.headers}}}


def _codex(connection: ClientConnection) -> dict[str, Any]:
    server: dict[str, Any] = {
        "url": connection.url,
        "enabled": True,
        "startup_timeout_sec": 30,
        "tool_timeout_sec": connection.timeout(60),
    }
    headers = connection.headers
    if connection.in_environment:
        del headers["Authorization"]
        server["bearer_token_env_var"] = connection.surface.variable
    return {"mcp_servers": {connection.name: {**server, "http_headers": headers}}}


def _codex_stale(connection: ClientConnection) -> list[tuple[str, ...]]:
    other = ("http_headers", "Authorization") if connection.in_environment else ("bearer_token_env_var",)
    return [("mcp_servers", connection.name, *other)]


def _claude_router(url: str, key: str | None) -> dict[str, Any]:
    token = {} if key is None else {"ANTHROPIC_AUTH_TOKEN": key}
    return {"env": {"ANTHROPIC_BASE_URL": url, **token}}


def documented(surface: McpEndpoint) -> tuple[Client, ...]:
    """The documented six, as they connect to one surface."""
    name, variable = surface.name, surface.variable
    return (
        Client(
            id="claude-code",
            title="Claude Code",
            path=".mcp.json",
            place=PROJECT,
            format="json",
            settings=typed_servers,
            variable=f"${{{variable}}}",
            rules=RulesFile(".claude/CLAUDE.md"),
            # The one beside it, settings.json, is the team's and committed.
            router=RouterFile(".claude/settings.local.json", _claude_router, "ANTHROPIC_AUTH_TOKEN"),
            after=f"Start `claude` there and agree to use the server `{name}`."
            + surface.only_with_prompts(
                " Prompts are `/mcp__xerotier__brief` and so on; resources are `@xerotier://memory/<slug>`."
            ),
        ),
        Client(
            id="cursor",
            title="Cursor",
            path=".cursor/mcp.json",
            place=PROJECT,
            format="json",
            settings=_cursor,
            variable=f"${{env:{variable}}}",
            rules=RulesFile(
                f".cursor/rules/{name}.mdc",
                f"---\ndescription: {surface.rules_about}\nalwaysApply: true\n---\n\n",
            ),
            after=f"Enable `{name}` under Settings → MCP. For every project of yours, use `~/.cursor/mcp.json` "
            "instead.",
        ),
        Client(
            id="opencode",
            title="opencode",
            path="opencode.json",
            place=PROJECT,
            format="json",
            settings=_opencode,
            variable=f"{{env:{variable}}}",
            rules=RulesFile(_opencode_rules(name)),
            after="Start `opencode` there." + surface.only_with_prompts(" Prompts are `/xerotier:brief` and so on."),
        ),
        Client(
            id="vscode",
            title="VS Code",
            path=".vscode/mcp.json",
            place=PROJECT,
            format="json",
            settings=_vscode,
            variable=f"${{env:{variable}}}",
            rules=RulesFile(".github/copilot-instructions.md"),
            after="You need the GitHub Copilot Chat extension: its agent mode is what speaks MCP. Start the server "
            "from the command palette (MCP: List Servers).",
        ),
        Client(
            id="claude-desktop",
            title="Claude Desktop",
            path="claude_desktop_config.json",
            place="the folder of Claude Desktop's settings: `~/Library/Application Support/Claude` on macOS, "
            "`%APPDATA%\\Claude` on Windows, `~/.config/Claude` on Linux",
            format="json",
            settings=typed_servers,
            variable=None,
            rules=None,
            is_project_scoped=False,
            after="Restart Claude Desktop. Versions that only start local servers need the server added under Settings "
            "→ Connectors instead. It has no place for rules: it goes by the tools' descriptions.",
        ),
        Client(
            id="codex",
            title="OpenAI Codex",
            path=".codex/config.toml",
            place=PROJECT,
            format="toml",
            settings=_codex,
            stale=_codex_stale,
            variable=variable,
            rules=None,
            rules_setting="developer_instructions",
            opening=f"# {surface.title} MCP server configuration for OpenAI Codex.\n",
            after="Codex reads a project's settings only where you trust the project: it asks at the first start. To "
            f"use the server everywhere, merge the table `[mcp_servers.{name}]` into `~/.codex/config.toml`.",
        ),
    )
