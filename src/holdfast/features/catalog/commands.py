"""Owns `holdfast catalog`: MCP servers that a workspace may run."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, Commands, InWorkspace, Option, Session
from holdfast.core.errors import FieldError, Invalid
from holdfast.features.catalog.answers import (
    LoginAnswer,
    LogsAnswer,
    ProbeAnswer,
    ServerAnswer,
    SnippetAnswer,
    ToolAnswer,
)
from holdfast.features.catalog.manifest import manifest_of
from holdfast.features.catalog.model import POLICIES, NewEntry, Policy, ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.logins import RemoteLogins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.catalog.snippets.importing import SnippetImport
from holdfast.features.client_bundles.files.jsonc import parse

catalog = Commands("catalog", help="MCP servers that agents may use, and who decides about each tool.")

_TOOL_COLUMNS = ["xem_name", "state", "policy", "destructive", "scope", "flags"]


class Named(InWorkspace):
    """A server that is named."""

    name: Annotated[str, Argument()]


class NamedTool(Named):
    """A tool of a server."""

    tool: Annotated[str, Argument()]


class Add(Named):
    """What `add` is given."""

    command: Annotated[str | None, Option(metavar="CMD")] = Field(
        None, description="What to run; packages of npx and uvx are installed and pinned first."
    )
    args: Annotated[list[str], Option("--arg", metavar="A")] = Field([], description="An argument of it; repeat.")
    image: Annotated[str | None, Option(metavar="REF")] = Field(None, description="An OCI image to run instead.")
    url: Annotated[str | None, Option(metavar="URL")] = Field(None, description="A remote server to call instead.")
    headers: Annotated[list[str], Option("--header", metavar="K=V")] = Field(
        [], description="Sent to a remote server: a value, or ${SECRET}; repeat."
    )
    env: Annotated[list[str], Option("--env", metavar="K=V")] = Field(
        [], description="In its environment: a value, or ${SECRET}; repeat."
    )
    manifest: Annotated[str | None, Option(metavar="FILE", reads="file")] = Field(
        None, description="What it expects: env and tool_scopes, as JSON."
    )
    allow: Annotated[list[str], Option("--allow", metavar="HOST:PORT")] = Field(
        [], description="A place that it may reach; repeat. Without one it has no network."
    )
    disabled: bool = Field(False, description="Keep it switched off.")


@catalog.command("add", help="Register an MCP server: a command, an image or a remote URL.")
async def add(session: Session, service: ServerCatalog, given: Add) -> None:
    if sum(each is not None for each in (given.command, given.image, given.url)) != 1:
        raise Invalid("Say what it is with one of --command, --image and --url.")
    new = NewEntry(
        name=given.name,
        shape="remote" if given.url else "image" if given.image else "command",
        image=given.image,
        command=given.command,
        args=tuple(given.args),
        url=given.url,
        headers=_pairs(given.headers, "header"),
        manifest=manifest_of(_json(given.manifest) if given.manifest is not None else None),
        env=_pairs(given.env, "env"),
        allow=tuple(given.allow),
        enabled=not given.disabled,
    )
    made = await service.register(session.principal, await session.workspace(given.workspace), new)
    shown = ServerAnswer.shown(made, session.principal)
    lines = [f"{made.name} is registered.", f"Next: holdfast catalog probe {made.name}"]
    if made.install == "installing":
        lines.insert(1, "Its package is installed by the server while it runs: see `holdfast jobs list`.")
    session.out.record(shown, lines)


class Set(Named):
    """What `set` is given: what is left out stays as it is."""

    env: Annotated[list[str], Option("--env", metavar="K=V")] = Field(
        [], description="A variable of its environment: a value, or ${SECRET}; K= takes it away; repeat."
    )
    headers: Annotated[list[str], Option("--header", metavar="K=V")] = Field(
        [], description="A header of a remote server; K= takes it away; repeat."
    )
    allow: Annotated[list[str], Option("--allow", metavar="HOST:PORT")] = Field(
        [], description="The places that it may reach, instead of those before; repeat."
    )
    manifest: Annotated[str | None, Option(metavar="FILE", reads="file")] = Field(
        None, description="What it expects, as JSON, instead of what was given or guessed."
    )
    enabled: Annotated[bool | None, Option("--enabled/--disabled")] = Field(None, description="Switch it on or off.")


@catalog.command("set", help="Change what an MCP server is given: its environment, headers, places and manifest.")
async def set_server(session: Session, service: ServerCatalog, given: Set) -> None:
    workspace_id = await session.workspace(given.workspace)
    spec = (await service.get(session.principal, workspace_id, given.name)).spec
    new = replace(
        spec,
        env=_merged(spec.env, _pairs(given.env, "env")),
        headers=_merged(spec.headers, _pairs(given.headers, "header")),
        allow=tuple(given.allow) or spec.allow,
        manifest=spec.manifest if given.manifest is None else manifest_of(_json(given.manifest)),
        enabled=spec.enabled if given.enabled is None else given.enabled,
    )
    changed = await service.change(session.principal, workspace_id, given.name, new)
    session.out.record(ServerAnswer.shown(changed, session.principal), [f"{changed.name} is changed."])


@catalog.command("list", help="List MCP servers.")
async def list_servers(session: Session, service: ServerCatalog, given: InWorkspace) -> None:
    found = await service.list(session.principal, await session.workspace(given.workspace))
    rows = [ServerAnswer.shown(each, session.principal) for each in found]
    session.out.table(rows, ["name", "shape", "enabled", "install", "probed_at"])


@catalog.command("show", help="Show an MCP server.")
async def show(session: Session, service: ServerCatalog, given: Named) -> None:
    found = await service.get(session.principal, await session.workspace(given.workspace), given.name)
    session.out.record(ServerAnswer.shown(found, session.principal))


class Import(InWorkspace):
    """What `import` is given."""

    file: Annotated[str, Argument(metavar="FILE", reads="file")]


@catalog.command(
    "import", help="Register the servers of a Claude Desktop, VS Code or registry snippet; credentials become secrets."
)
async def import_file(session: Session, service: SnippetImport, given: Import) -> None:
    workspace_id = await session.workspace(given.workspace)
    made = SnippetAnswer.shown(await service.run(session.principal, workspace_id, _json(given.file)), session.principal)
    lines = [f"{each.name} is registered{'' if each.enabled else ', switched off'}." for each in made.servers]
    remote = {each.name for each in made.servers if each.shape == "remote"}
    for secret in made.secrets:
        said = f"{secret.server}: {secret.variable} – the secret {secret.name}"
        if secret.is_set:
            lines.append(f"{said} holds its value")
            continue
        option = "--header" if secret.server in remote else "--env"
        whole = " (all of the header: Bearer and the token)" if secret.server in remote else ""
        then = f"holdfast catalog set {secret.server} {option} '{secret.variable}=${{{secret.name}}}' --enabled"
        lines.append(f"{said} is missing: holdfast secrets set {secret.name}{whole}, then {then}")
    for value in made.values:
        then = f"holdfast catalog set {value.server} --env {value.variable}=VALUE --enabled"
        lines.append(f"{value.server}: {value.variable} is missing: {then}")
    session.out.record(made, lines)


@catalog.command("probe", help="Start a server, list its tools and pin them.")
async def probe(session: Session, service: ToolPins, given: Named) -> None:
    probed = await service.probe(session.principal, await session.workspace(given.workspace), given.name)
    shown = ProbeAnswer.shown(probed)
    lines = [f"{given.name} answered in {probed.seconds:.2f} s with {len(probed.tools)} tools ({probed.protocol})."]
    lines += [f"{each.xem_name}: {each.state}, {each.policy}" for each in shown.tools]
    session.out.record(shown, lines)


@catalog.command("tools", help="List a server's tools as they are pinned.")
async def tools(session: Session, service: ToolPins, given: Named) -> None:
    found = await service.of(session.principal, await session.workspace(given.workspace), given.name)
    session.out.table([ToolAnswer.shown(each) for each in found], _TOOL_COLUMNS, "Nothing is pinned yet; probe it.")


class SetPolicy(NamedTool):
    """What `policy` is given."""

    policy: Annotated[str | None, Argument(choices=POLICIES)] = Field(None, description="As it is, where left out.")
    destructive: Annotated[bool | None, Option("--destructive/--not-destructive")] = Field(
        None, description="Whether it deletes or cannot be undone."
    )
    idempotent: Annotated[bool | None, Option("--idempotent/--not-idempotent")] = Field(
        None, description="Whether running it twice does no harm."
    )
    scope: Annotated[str | None, Option(metavar="SCOPE")] = Field(None, description="The grant that it asks for.")


@catalog.command("policy", help="Say how calls of a tool are decided: auto, approve or deny.")
async def policy(session: Session, service: ToolPins, given: SetPolicy) -> None:
    wanted: Policy | None = next((each for each in POLICIES if each == given.policy), None)
    change = ToolChange(wanted, given.destructive, given.idempotent, given.scope)
    workspace_id = await session.workspace(given.workspace)
    changed = await service.set(session.principal, workspace_id, given.name, given.tool, change)
    session.out.record(ToolAnswer.shown(changed), [f"{changed.xem_name}: {changed.policy()}"])


class Accept(NamedTool):
    """What `accept` is given."""

    digest: Annotated[str | None, Option(metavar="DIGEST")] = Field(
        None, description="`waiting_digest` of what you read before; what was changed since is not accepted."
    )


@catalog.command("accept", help="Take a changed or new tool out of quarantine; its difference is shown first.")
async def accept(session: Session, service: ToolPins, given: Accept) -> None:
    workspace_id = await session.workspace(given.workspace)
    found = [each for each in await service.of(session.principal, workspace_id, given.name) if each.name == given.tool]
    for each in found:
        change = ToolAnswer.shown(each).change
        if change is not None:
            session.out.note(json.dumps(change, indent=2, ensure_ascii=False))
    # What was shown is what is accepted: a server may have changed it meanwhile.
    seen = given.digest or next((ToolAnswer.shown(each).waiting_digest for each in found), None)
    accepted = await service.accept(session.principal, workspace_id, given.name, given.tool, seen=seen)
    session.out.record(ToolAnswer.shown(accepted), [f"{accepted.xem_name}: {accepted.state}"])


@catalog.command("logins", help="Show who is signed in at a remote server, and who has to sign in again.")
async def logins(session: Session, service: RemoteLogins, given: Named) -> None:
    found = await service.people(session.principal, await session.workspace(given.workspace), given.name)
    rows = [LoginAnswer.shown(each, service.link(each.standing.server_id)) for each in found]
    columns = ["name", "email", "issuer", "connected_at", "expires_at", "renewable", "needs_login"]
    session.out.table(rows, columns, "Nobody is signed in there.")


_NO_LOG = "Nothing here: a started server keeps the log of what it runs; its page shows it, and REST's …/logs."


@catalog.command("logs", help="Show the last of what a server wrote to stderr.")
async def logs(session: Session, service: ServerCatalog, given: Named) -> None:
    text = await service.logs(session.principal, await session.workspace(given.workspace), given.name)
    session.out.record(LogsAnswer(logs=text), [text or _NO_LOG])


@catalog.command("reset", help="Stop a server and delete what it kept in its own directory.")
async def reset(session: Session, service: ServerCatalog, given: Named) -> None:
    await service.reset(session.principal, await session.workspace(given.workspace), given.name)
    session.out.record({"name": given.name, "reset": True})


@catalog.command("remove", help="Remove a server and its tools.")
async def remove(session: Session, service: ServerCatalog, given: Named) -> None:
    await service.remove(session.principal, await session.workspace(given.workspace), given.name)
    session.out.record({"name": given.name, "removed": True})


def _merged(before: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in {**before, **given}.items() if value or name not in given}


def _pairs(given: list[str], field: str) -> dict[str, str]:
    found = {}
    for pair in given:
        name, sign, value = pair.partition("=")
        if not sign:
            raise Invalid(
                "A variable cannot be read.", fields=[FieldError(field, f"write NAME=VALUE, not {name[:40]!r}")]
            )
        found[name] = value
    return found


def _json(text: str) -> dict[str, object]:
    read = parse(text)
    value = None if read is None else read.value
    if not isinstance(value, dict):
        raise Invalid("The file holds no JSON object.")
    return value
