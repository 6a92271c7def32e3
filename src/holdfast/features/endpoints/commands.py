"""Owns `holdfast endpoints`."""

from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, Commands, Given, Option, Session
from holdfast.core.settings import Settings
from holdfast.core.text.counting import many
from holdfast.features.endpoints.model import TOOLS, EndpointUpstream
from holdfast.features.endpoints.operations import EndpointAnswer
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity.commands.keys import first_project
from holdfast.features.identity.service import Identity
from holdfast.storage.running import known_url

endpoints = Commands("endpoints", help="Endpoints: which model answers chat, and where.")

_Price = Annotated[float, Field(ge=0, le=1e6)]


class InProject(Given):
    """What every command of endpoints is given."""

    project: Annotated[str | None, Option(metavar="P")] = Field(
        None, description="The project (the first one where absent)."
    )


class Named(InProject):
    """An endpoint that is named."""

    name: Annotated[str, Argument()]


class Add(Named):
    """What `add` is given."""

    base_url: Annotated[str, Option(metavar="URL")] = Field(description="Such as http://127.0.0.1:11434/v1.")
    model: Annotated[str, Option(metavar="M")] = Field(description="The model's name there.")
    kind: Annotated[str, Option(choices=("openai", "anthropic"))] = Field(
        "openai", description="The wire that it speaks: OpenAI's Chat Completions or Anthropic's Messages."
    )
    key_from: Annotated[str | None, Option(metavar="SECRET")] = Field(
        None, description="The secret that holds its API key."
    )
    workspace: Annotated[str | None, Option(metavar="WS")] = Field(
        None, description="The workspace of that secret, if several have one of its name."
    )
    priority: int = Field(0, ge=0, le=1000, description="Lower is asked first.")
    timeout: float = Field(120.0, ge=0.1, le=3600, description="Seconds until an answer begins.")
    price_in: _Price = Field(0.0, description="Price of a million input tokens.")
    price_out: _Price = Field(0.0, description="Price of a million output tokens.")
    replace: bool = Field(False, description="Drop the upstreams that it had.")
    without: Annotated[list[str], Option(choices=tuple(sorted(TOOLS)))] = Field([], description="A tool not offered.")


@endpoints.command(
    "add", help="Connect a model: makes the endpoint, or gives it one more upstream to fall back to.", begins_store=True
)
async def add(session: Session, service: Endpoints, identity: Identity, given: Add) -> None:
    project_id = await first_project(session, identity, given.project)
    upstream = EndpointUpstream(
        base_url=given.base_url,
        model=given.model,
        kind="anthropic" if given.kind == "anthropic" else "openai",
        key_secret=given.key_from,
        key_workspace_id=await session.workspace(given.workspace) if given.workspace else None,
        priority=given.priority,
        timeout_seconds=given.timeout,
        price_in=given.price_in,
        price_out=given.price_out,
    )
    without = frozenset(given.without) or None
    made = await service.add_upstream(
        session.principal, project_id, given.name, upstream, alone=given.replace, without=without
    )
    lines = [f"{made.name} answers at {made.path} with {many(len(made.upstreams), 'upstream')}."]
    session.out.record(EndpointAnswer.of(made), lines)


@endpoints.command("list", help="List endpoints.")
async def list_endpoints(session: Session, service: Endpoints, identity: Identity, given: InProject) -> None:
    found = await service.list(session.principal, await first_project(session, identity, given.project))
    rows = [
        {**EndpointAnswer.of(each).model_dump(), "models": [upstream.model for upstream in each.upstreams]}
        for each in found
    ]
    session.out.table(rows, ["name", "path", "embedded", "models"])


@endpoints.command("show", help="Show an endpoint, and what to paste for Claude Code.")
async def show(session: Session, service: Endpoints, identity: Identity, settings: Settings, given: Named) -> None:
    project_id = await first_project(session, identity, given.project)
    found = EndpointAnswer.of(await service.get(session.principal, project_id, given.name))
    shown = found.model_dump()
    lines = [f"{name}: {shown[name]}" for name in ("name", "path", "embedded", "disabled_tools")]
    for each in found.upstreams:
        key = f", key from {each.key_secret}" if each.key_secret else ""
        lines.append(f"upstream: {each.model} at {each.base_url} ({each.kind}{key})")
    lines += [
        "for Claude Code:",
        f"  export ANTHROPIC_BASE_URL={known_url(settings)}{found.path.removesuffix('/v1')}",
        "  export ANTHROPIC_AUTH_TOKEN=xero_…  # a key of the project with the scope inference",
    ]
    session.out.record(found, lines)


@endpoints.command("remove", help="Remove an endpoint; `default` goes back to the embedded model.")
async def remove(session: Session, service: Endpoints, identity: Identity, given: Named) -> None:
    project_id = await first_project(session, identity, given.project)
    await service.remove(session.principal, project_id, given.name)
    session.out.record({"name": given.name, "removed": True})
