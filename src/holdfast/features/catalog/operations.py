"""Owns the REST operations of the catalog: servers, probes, tools and what decides about each."""

from typing import Any

from pydantic import Field, RootModel

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.model import Model, Text
from holdfast.core.operations import Call, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.catalog.answers import (
    LoginAnswer,
    LogsAnswer,
    ProbeAnswer,
    ServerAnswer,
    SnippetAnswer,
    ToolAnswer,
    ToolsAnswer,
)
from holdfast.features.catalog.manifest import MAX_ALLOW, manifest_of
from holdfast.features.catalog.model import NewEntry, Policy, Shape, ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.logins import RemoteLogins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.catalog.snippets.importing import SnippetImport

api = Operations("catalog")

_BASE = "/api/workspaces/{workspace_id}/mcp-servers"
_ONE = _BASE + "/{server}"
_TOOL = _ONE + "/tools/{tool}"
LOOK = READ_EXEC
MANAGE = Access("workspace", "management", role="admin", tier="exec")
ACCEPT = Access("workspace", "management", role="admin", tier="exec", people_only=True)


class NetworkBody(Model):
    allow: list[Text] = Field(default=[], max_length=MAX_ALLOW, description="`host:port`s that it may reach; else none")


class ServerChangeBody(Model):
    shape: Shape | None = Field(default=None, description="Where absent, by what is given: image, command or url")
    image: Text | None = Field(default=None, description="OCI reference, or the path of an OCI layout or archive")
    command: Text | None = Field(default=None, description="What to run; `npx` and `uvx` packages are installed first")
    args: list[Text] = Field(default=[], max_length=64)
    url: Text | None = Field(default=None, description="Of a remote server")
    headers: dict[str, Text] = Field(default={}, description="Sent to a remote server: values or `${SECRET}`")
    manifest: dict[str, Any] | None = Field(
        default=None,
        description="`{env: {NAME: {kind, label?, required?, regex?, enum?}}, tool_scopes: {tool: scope}}`",
    )
    env: dict[str, Text] = Field(default={}, description="What `exec.*` runs it with: values or `${SECRET}`")
    network: NetworkBody = NetworkBody()
    enabled: bool = True

    def entry(self, name: str) -> NewEntry:
        """What an admin says of the server of this name."""
        return NewEntry(
            name=name,
            shape=self.shape or ("remote" if self.url else "image" if self.image else "command"),
            image=self.image,
            command=self.command,
            args=tuple(self.args),
            url=self.url,
            headers=self.headers,
            manifest=manifest_of(self.manifest),
            env=self.env,
            allow=tuple(self.network.allow),
            enabled=self.enabled,
        )


class ServerBody(ServerChangeBody):
    name: Text = Field(max_length=200)


class SnippetBody(RootModel[dict[str, Any]]):
    """`{mcpServers: {…}}`, VS Code's `{servers: {…}}`, or a registry's server.json."""


class ToolPolicyBody(Model):
    policy: Policy | None = Field(default=None, description="null goes back to the default rule")
    destructive: bool | None = Field(default=None, description="null goes back to what the server claims")
    idempotent: bool | None = Field(default=None, description="Whether running it twice does no harm")
    scope: Text | None = Field(default=None, max_length=64, description="null goes back to the manifest's")


class AcceptBody(Model):
    digest: Text | None = Field(
        default=None, max_length=200, description="`waiting_digest` of what the person saw; 409 where it changed since"
    )


@api.get(_BASE, LOOK, "MCP servers of a workspace")
async def page(catalog: ServerCatalog, principal: Principal, workspace_id: str) -> Page[ServerAnswer]:
    return Page([ServerAnswer.shown(each, principal) for each in await catalog.list(principal, workspace_id)])


@api.post(_BASE, MANAGE, "Register an MCP server", status=201)
async def register(catalog: ServerCatalog, principal: Principal, workspace_id: str, body: ServerBody) -> ServerAnswer:
    return ServerAnswer.shown(await catalog.register(principal, workspace_id, body.entry(body.name)), principal)


@api.post(
    _BASE + "/import", MANAGE, "Register the servers of a pasted snippet; its credentials become secrets", status=201
)
async def import_snippet(
    snippets: SnippetImport, principal: Principal, workspace_id: str, body: SnippetBody
) -> SnippetAnswer:
    return SnippetAnswer.shown(await snippets.run(principal, workspace_id, body.root), principal)


@api.get(_ONE, LOOK, "One MCP server")
async def get(catalog: ServerCatalog, principal: Principal, workspace_id: str, server: str) -> ServerAnswer:
    return ServerAnswer.shown(await catalog.get(principal, workspace_id, server), principal)


@api.put(_ONE, MANAGE, "Say anew what an MCP server is")
async def put(
    catalog: ServerCatalog, principal: Principal, workspace_id: str, server: str, body: ServerChangeBody
) -> ServerAnswer:
    return ServerAnswer.shown(await catalog.change(principal, workspace_id, server, body.entry(server)), principal)


@api.delete(_ONE, MANAGE, "Remove an MCP server and its tools")
async def delete(catalog: ServerCatalog, principal: Principal, workspace_id: str, server: str) -> None:
    await catalog.remove(principal, workspace_id, server)


@api.post(_ONE + "/probe", MANAGE, "Start an MCP server, list its tools and pin them")
async def probe(pins: ToolPins, principal: Principal, workspace_id: str, server: str, call: Call) -> ProbeAnswer:
    # A cold start may take as long as the server likes, within its own limits.
    call.unhurried()
    return ProbeAnswer.shown(await pins.probe(principal, workspace_id, server))


@api.get(_ONE + "/tools", LOOK, "The pinned tools of an MCP server")
async def tools(pins: ToolPins, principal: Principal, workspace_id: str, server: str) -> ToolsAnswer:
    return ToolsAnswer(tools=[ToolAnswer.shown(each) for each in await pins.of(principal, workspace_id, server)])


@api.put(_TOOL, MANAGE, "Set how calls of a tool are decided, and what it does")
async def set_tool(
    pins: ToolPins, principal: Principal, workspace_id: str, server: str, tool: str, body: ToolPolicyBody
) -> ToolAnswer:
    cleared = frozenset(
        name
        for name in ("policy", "destructive", "scope")
        if name in body.model_fields_set and getattr(body, name) is None
    )
    change = ToolChange(body.policy, body.destructive, body.idempotent, body.scope, cleared)
    return ToolAnswer.shown(await pins.set(principal, workspace_id, server, tool, change))


@api.post(_TOOL + "/accept", ACCEPT, "Take a changed or new tool out of quarantine")
async def accept(
    pins: ToolPins, principal: Principal, workspace_id: str, server: str, tool: str, body: AcceptBody
) -> ToolAnswer:
    return ToolAnswer.shown(await pins.accept(principal, workspace_id, server, tool, seen=body.digest))


@api.get(_ONE + "/logins", LOOK, "Who is signed in at a remote MCP server; all for an admin, else the own login")
async def logins(logins: RemoteLogins, principal: Principal, workspace_id: str, server: str) -> Page[LoginAnswer]:
    people = await logins.people(principal, workspace_id, server)
    return Page([LoginAnswer.shown(each, logins.link(each.standing.server_id)) for each in people])


@api.delete(_ONE + "/state", MANAGE, "Stop an MCP server and delete what it kept in its own directory")
async def reset(catalog: ServerCatalog, principal: Principal, workspace_id: str, server: str) -> None:
    await catalog.reset(principal, workspace_id, server)


@api.get(_ONE + "/logs", MANAGE, "The last of what an MCP server wrote to stderr")
async def logs(catalog: ServerCatalog, principal: Principal, workspace_id: str, server: str) -> LogsAnswer:
    return LogsAnswer(logs=await catalog.logs(principal, workspace_id, server))
