"""Owns the clients beyond the documented six, each in the shape that its maker documents."""

from typing import Any

from holdfast.features.client_bundles.catalog import PROJECT
from holdfast.features.client_bundles.files.values import Exactly
from holdfast.features.client_bundles.model import Client, ClientConnection, McpEndpoint, RulesFile


def _gemini(connection: ClientConnection) -> dict[str, Any]:
    return {
        "mcpServers": {
            connection.name: {
                "httpUrl": connection.url,
                "headers": connection.headers,
                "timeout": connection.timeout(30) * 1000,
            }
        }
    }


def _goose(connection: ClientConnection) -> dict[str, Any]:
    extension = {
        "enabled": True,
        "type": "streamable_http",
        "name": connection.name,
        "description": connection.surface.about,
        "uri": connection.url,
        "headers": connection.headers,
        "env_keys": Exactly([connection.surface.variable] if connection.in_environment else []),
        "timeout": 300,
    }
    return {"extensions": {connection.name: extension}}


def _copilot(connection: ClientConnection) -> dict[str, Any]:
    server = {"type": "http", "url": connection.url, "headers": connection.headers, "tools": ["*"]}
    return {"mcpServers": {connection.name: server}}


def _continue(connection: ClientConnection) -> dict[str, Any]:
    server = {
        "name": connection.name,
        "type": "streamable-http",
        "url": connection.url,
        "requestOptions": {"headers": connection.headers},
    }
    return {"name": connection.surface.title, "version": "0.0.1", "schema": "v1", "mcpServers": [server]}


def _zed(connection: ClientConnection) -> dict[str, Any]:
    return {"context_servers": {connection.name: {"url": connection.url, "headers": connection.headers}}}


def _windsurf(connection: ClientConnection) -> dict[str, Any]:
    return {"mcpServers": {connection.name: {"serverUrl": connection.url, "headers": connection.headers}}}


def further(surface: McpEndpoint) -> tuple[Client, ...]:
    """The others, as they connect to one surface."""
    name, variable = surface.name, surface.variable
    return (
        Client(
            id="gemini-cli",
            title="Gemini CLI",
            path=".gemini/settings.json",
            place=PROJECT,
            format="json",
            settings=_gemini,
            variable=f"${variable}",
            rules=RulesFile("GEMINI.md"),
            after="Start `gemini` there; `/mcp` shows the server.",
        ),
        Client(
            id="goose",
            title="goose",
            path="config.yaml",
            place="the folder of goose's settings: `~/.config/goose` on macOS and Linux, "
            "`%APPDATA%\\Block\\goose\\config` on Windows",
            format="yaml",
            settings=_goose,
            variable=f"${{{variable}}}",
            rules=RulesFile(".goosehints"),
            is_project_scoped=False,
            after="Start `goose session`.",
        ),
        Client(
            id="copilot",
            title="GitHub Copilot CLI",
            path=".github/mcp.json",
            place=PROJECT,
            format="json",
            settings=_copilot,
            variable=f"${{{variable}}}",
            rules=RulesFile(".github/copilot-instructions.md"),
            after="Start `copilot` there, in a git repository that you trust; `/mcp show` lists the server. "
            "For every project of yours, use `~/.copilot/mcp-config.json` instead.",
        ),
        Client(
            id="continue",
            title="Continue",
            path=f".continue/mcpServers/{name}.yaml",
            place=PROJECT,
            format="yaml",
            settings=_continue,
            variable=f"${{{{ secrets.{variable} }}}}",
            rules=RulesFile(f".continue/rules/{name}.md", f"---\nname: {surface.title}\nalwaysApply: true\n---\n\n"),
            after="Use agent mode: only there are MCP tools called.",
        ),
        Client(
            id="zed",
            title="Zed",
            path=".zed/settings.json",
            place=PROJECT,
            format="json",
            settings=_zed,
            variable=None,
            rules=RulesFile(".rules"),
            after="Open the agent panel; the server is listed in its settings.",
        ),
        Client(
            id="windsurf",
            title="Windsurf",
            path="mcp_config.json",
            place="the folder of Windsurf's settings: `~/.codeium/windsurf`",
            format="json",
            settings=_windsurf,
            variable=f"${{env:{variable}}}",
            rules=RulesFile("memories/global_rules.md"),
            is_project_scoped=False,
            after="Refresh the servers in Cascade's MCP panel.",
        ),
    )
