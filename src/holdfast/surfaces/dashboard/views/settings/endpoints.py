"""Owns `/settings/endpoints`: where a project's chats go, and connecting upstreams."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import quote

from holdfast.core.access import Access
from holdfast.core.errors import Conflict, FieldError, Forbidden, HoldfastError, Invalid, NotFound
from holdfast.core.principal import SCOPES
from holdfast.engines.llm.remote.upstream import Kind
from holdfast.features.endpoints.model import EMBEDDED_MODEL, Endpoint, EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity.model import Project
from holdfast.features.identity.service import Identity
from holdfast.features.secrets.service import shown_name
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors

_PATH = "/settings/endpoints"
_ONE = _PATH + "/{project_id}/{name}"
_READ = Access("project", SCOPES)
_MANAGE = Access("project", "management", role="admin")
_KINDS: tuple[Kind, ...] = get_args(Kind)
_FIELDS = ("name", "kind", "base_url", "model", "key_secret", "price_in", "price_out")
_MOST = 200
pages = Pages(NavRow("Endpoints", _PATH, "endpoint", "settings", 30, _READ))


@dataclass(frozen=True, slots=True)
class ShownEndpoint:
    """An endpoint with its address for clients, and its upstreams with the names of secrets that the reader may see."""

    endpoint: Endpoint
    address: str
    upstreams: Sequence[tuple[EndpointUpstream, str | None]]


@pages.get(_PATH, _READ)
async def endpoints_page(view: PageView, identity: Identity, endpoints: Endpoints) -> Reply:
    return await _shown(view, identity, endpoints)


@pages.post(_PATH, _MANAGE)
async def connect_upstream(view: PageView, identity: Identity, endpoints: Endpoints) -> Reply:
    """One more upstream for an endpoint, which is made where there is none of the name."""
    project_id = view.given("project_id")
    try:
        await endpoints.add_upstream(view.principal, project_id, view.given("name"), _upstream(view))
    except (Conflict, Forbidden, Invalid) as error:
        return await _shown(view, identity, endpoints, error)
    return view.go(_url(project_id), "Connected. The next chat goes there.")


@pages.post(_ONE + "/upstreams/{number}/remove", _MANAGE)
async def remove_upstream(view: PageView, endpoints: Endpoints) -> Reply:
    project_id, name, number = view.path["project_id"], view.path["name"], view.path["number"]
    found = await endpoints.get(view.principal, project_id, name)
    at = int(number) if number.isdecimal() and len(number) < 4 else len(found.upstreams)
    if at >= len(found.upstreams) or found.upstreams[at].base_url != view.given("base_url"):
        raise NotFound("upstream", number[:20])
    left = [each for place, each in enumerate(found.upstreams) if place != at]
    await endpoints.put(view.principal, project_id, name, left, found.disabled_tools)
    return view.go(_url(project_id), "Removed.")


@pages.post(_ONE + "/remove", _MANAGE)
async def remove_endpoint(view: PageView, endpoints: Endpoints) -> Reply:
    await endpoints.remove(view.principal, view.path["project_id"], view.path["name"])
    return view.go(_url(view.path["project_id"]), "Removed.")


async def _shown(view: PageView, identity: Identity, endpoints: Endpoints, error: HoldfastError | None = None) -> Reply:
    projects = (await identity.projects(view.principal, limit=_MOST)).items
    chosen = _chosen(projects, view.given("project_id") or view.query.get("project", ""))
    found = await endpoints.list(view.principal, chosen.id) if chosen else []
    errors: Mapping[str, str] | None = None
    if error is not None:
        # The service names a field by its place among all upstreams; the form has one.
        errors = {name.rpartition(".")[2]: told for name, told in field_errors(error).items()}
    context: dict[str, Any] = {
        "projects": projects,
        "project": chosen,
        "endpoints": [_of(view, each) for each in found],
        "embedded_model": EMBEDDED_MODEL,
        "may_change": view.may(_MANAGE),
        "kinds": _KINDS,
        "given": {name: view.given(name) for name in _FIELDS},
        "errors": errors,
    }
    return view.page("settings/endpoints.html", "Endpoints", status=error.status if error else 200, **context)


def _of(view: PageView, endpoint: Endpoint) -> ShownEndpoint:
    upstreams = [(each, shown_name(view.principal, each.key_secret)) for each in endpoint.upstreams]
    return ShownEndpoint(endpoint, view.public_url + endpoint.path, upstreams)


def _chosen(projects: Sequence[Project], wanted: str) -> Project | None:
    return next((each for each in projects if each.id == wanted), projects[0] if projects else None)


def _upstream(view: PageView) -> EndpointUpstream:
    kind = view.given("kind")
    return EndpointUpstream(
        base_url=view.given("base_url"),
        model=view.given("model"),
        kind=next((each for each in _KINDS if each == kind), "openai"),
        key_secret=view.given("key_secret") or None,
        price_in=_price(view, "price_in"),
        price_out=_price(view, "price_out"),
    )


def _price(view: PageView, name: str) -> float:
    try:
        price = float(view.given(name) or 0)
    except ValueError:
        price = -1.0
    if not 0 <= price <= 1e6:
        problem = "write a number such as 2.50, or leave it empty"
        raise Invalid("The price cannot be read.", fields=[FieldError(name, problem)])
    return price


def _url(project_id: str) -> str:
    return f"{_PATH}?project={quote(project_id, safe='')}"
