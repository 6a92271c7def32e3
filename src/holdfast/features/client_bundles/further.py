"""Owns the clients beyond the documented six, each in the shape that its maker documents."""

from typing import Any

from holdfast.features.client_bundles.catalog import PROJECT
from holdfast.features.client_bundles.model import SERVER, VARIABLE, Client, Connection, RulesFile
from holdfast.features.client_bundles.values import Exactly


def _gemini(connection: Connection) -> dict[str, Any]:
    return {"mcpServers": {SERVER: {"httpUrl": connection.url, "headers": connection.headers, "timeout": 30000}}}


def _goose(connection: Connection) -> dict[str, Any]:
    extension = {
        "enabled": True,
        "type": "streamable_http",
        "name": SERVER,
        "description": "This project's memory",
        "uri": connection.url,
        "headers": connection.headers,
        "env_keys": Exactly([VARIABLE] if connection.in_environment else []),
        "timeout": 300,
    }
    return {"extensions": {SERVER: extension}}


def _copilot(connection: Connection) -> dict[str, Any]:
    server = {"type": "http", "url": connection.url, "headers": connection.headers, "tools": ["*"]}
    return {"mcpServers": {SERVER: server}}


def _continue(connection: Connection) -> dict[str, Any]:
    server = {
        "name": SERVER,
        "type": "streamable-http",
        "url": connection.url,
        "requestOptions": {"headers": connection.headers},
    }
    return {"name": "Xerotier", "version": "0.0.1", "schema": "v1", "mcpServers": [server]}


def _zed(connection: Connection) -> dict[str, Any]:
    return {"context_servers": {SERVER: {"url": connection.url, "headers": connection.headers}}}


def _windsurf(connection: Connection) -> dict[str, Any]:
    return {"mcpServers": {SERVER: {"serverUrl": connection.url, "headers": connection.headers}}}


FURTHER = (
    Client(
        id="gemini-cli",
        title="Gemini CLI",
        path=".gemini/settings.json",
        place=PROJECT,
        format="json",
        settings=_gemini,
        variable=f"${VARIABLE}",
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
        variable=f"${{{VARIABLE}}}",
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
        variable=f"${{{VARIABLE}}}",
        rules=RulesFile(".github/copilot-instructions.md"),
        after="Start `copilot` there, in a git repository that you trust; `/mcp show` lists the server. "
        "For every project of yours, use `~/.copilot/mcp-config.json` instead.",
    ),
    Client(
        id="continue",
        title="Continue",
        path=".continue/mcpServers/xerotier.yaml",
        place=PROJECT,
        format="yaml",
        settings=_continue,
        variable=f"${{{{ secrets.{VARIABLE} }}}}",
        rules=RulesFile(".continue/rules/xerotier.md", "---\nname: Xerotier\nalwaysApply: true\n---\n\n"),
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
        variable=f"${{env:{VARIABLE}}}",
        rules=RulesFile("memories/global_rules.md"),
        is_project_scoped=False,
        after="Refresh the servers in Cascade's MCP panel.",
    ),
)
