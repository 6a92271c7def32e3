"""Owns `holdfast endpoints`."""

from dataclasses import asdict
from typing import Any

import click

from holdfast.core.errors import Invalid
from holdfast.features.endpoints.model import TOOLS, Endpoint, EndpointUpstream
from holdfast.surfaces.cli.frame import Session, command

group = click.Group("endpoints", help="Endpoints: which model answers chat, and where.")

_name = click.argument("name")
_project = click.option("--project", metavar="P", help="The project (the first one where absent).")


@command(
    group,
    "add",
    _name,
    click.option("--base-url", required=True, metavar="URL", help="Such as http://127.0.0.1:11434/v1."),
    click.option("--model", required=True, metavar="M", help="The model's name there."),
    click.option("--key-from", metavar="SECRET", help="The secret that holds its API key."),
    click.option("--workspace", metavar="WS", help="The workspace of that secret, if several have one of its name."),
    click.option("--priority", type=click.IntRange(0, 1000), default=0, help="Lower is asked first."),
    click.option("--timeout", type=click.FloatRange(0.1, 3600), default=120.0, help="Seconds until an answer begins."),
    click.option("--price-in", type=click.FloatRange(0, 1e6), default=0.0, help="Price of a million input tokens."),
    click.option("--price-out", type=click.FloatRange(0, 1e6), default=0.0, help="Price of a million output tokens."),
    click.option("--replace", is_flag=True, help="Drop the upstreams that it had."),
    click.option("--without", "without", multiple=True, type=click.Choice(sorted(TOOLS)), help="A tool not offered."),
    _project,
    help="Connect a model: makes the endpoint, or gives it one more upstream to fall back to.",
)
async def add(session: Session, name: str, **asked: Any) -> None:
    project_id = await _project_id(session, asked["project"])
    upstream = EndpointUpstream(
        base_url=asked["base_url"],
        model=asked["model"],
        key_secret=asked["key_from"],
        key_workspace_id=await session.workspace(asked["workspace"]) if asked["workspace"] else None,
        priority=asked["priority"],
        timeout_seconds=asked["timeout"],
        price_in=asked["price_in"],
        price_out=asked["price_out"],
    )
    endpoints = session.services.endpoints
    if asked["replace"] or asked["without"]:
        kept = [] if asked["replace"] else await _upstreams(session, project_id, name)
        tools = frozenset(asked["without"])
        made = await endpoints.put(session.principal, project_id, name, [*kept, upstream], tools)
    else:
        made = await endpoints.add_upstream(session.principal, project_id, name, upstream)
    lines = [f"{made.name} answers at {made.path} with {len(made.upstreams)} upstream(s)."]
    session.out.record(_row(made), lines)


@command(group, "list", _project, help="List endpoints.")
async def list_endpoints(session: Session, project: str | None) -> None:
    found = await session.services.endpoints.list(session.principal, await _project_id(session, project))
    rows = [{**_row(each), "models": [upstream.model for upstream in each.upstreams]} for each in found]
    session.out.table(rows, ["name", "path", "embedded", "models"])


@command(group, "show", _name, _project, help="Show an endpoint.")
async def show(session: Session, name: str, project: str | None) -> None:
    found = await session.services.endpoints.get(session.principal, await _project_id(session, project), name)
    session.out.record(_row(found))


@command(group, "remove", _name, _project, help="Remove an endpoint; `default` goes back to the embedded model.")
async def remove(session: Session, name: str, project: str | None) -> None:
    await session.services.endpoints.remove(session.principal, await _project_id(session, project), name)
    session.out.record({"name": name, "removed": True})


async def _upstreams(session: Session, project_id: str, name: str) -> list[EndpointUpstream]:
    found = await session.services.endpoints.list(session.principal, project_id)
    return [upstream for each in found if each.name == name for upstream in each.upstreams]


async def _project_id(session: Session, named: str | None) -> str:
    if named is not None:
        return named
    projects = await session.services.identity.projects(session.principal, limit=1)
    if not projects.items:
        raise Invalid("There is no project; make one with `holdfast projects create --name NAME`.")
    return projects.items[0].id


def _row(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": endpoint.name,
        "project_id": endpoint.project_id,
        "path": endpoint.path,
        "embedded": endpoint.is_embedded,
        "upstreams": [asdict(upstream) for upstream in endpoint.upstreams],
        "disabled_tools": sorted(endpoint.disabled_tools),
    }
