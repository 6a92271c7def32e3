"""Owns `/api/projects/{project_id}/endpoints`: where a project's chat goes."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.clock import iso
from holdfast.core.model import Model
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.endpoints.model import MAX_MODEL, MAX_UPSTREAMS, Endpoint, EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.secrets.service import shown_name

_READ = Access("project", SCOPES)
_MANAGE = Access("project", "management", role="admin")


class UpstreamFields(Model):
    base_url: str = Field(min_length=1, max_length=2000, description="Such as https://api.openai.com/v1")
    model: str = Field(min_length=1, max_length=MAX_MODEL, description="The model's name there")
    key_secret: str | None = Field(
        default=None, max_length=64, description="The secret that holds its API key; naming one takes an admin"
    )
    key_workspace_id: str | None = Field(
        default=None, max_length=64, description="The workspace of that secret (the first one that has it where absent)"
    )
    priority: int = Field(default=0, ge=0, le=1000, description="Lower is asked first")
    timeout_seconds: float = Field(default=120.0, gt=0, le=3600, description="Longest wait for an answer to begin")
    price_in: float = Field(default=0.0, ge=0, le=1e6, description="Price of a million input tokens")
    price_out: float = Field(default=0.0, ge=0, le=1e6, description="Price of a million output tokens")


class EndpointView(Model):
    name: str
    project_id: str
    path: str = Field(description="What follows the server's address in a client's base URL")
    embedded: bool = Field(description="Whether no upstream is connected and the embedded model answers")
    upstreams: list[UpstreamFields]
    disabled_tools: list[str]
    created_at: str | None
    updated_at: str | None


class EndpointBody(Model):
    upstreams: list[UpstreamFields] = Field(default=[], max_length=MAX_UPSTREAMS)
    disabled_tools: list[str] = Field(default=[], max_length=20, description="Research tools not offered here")


class NewEndpointBody(EndpointBody):
    name: str = Field(min_length=1, max_length=63)


def operations(endpoints: Endpoints) -> list[Operation]:
    """Everything served here."""

    async def list_endpoints(call: Call) -> Page[EndpointView]:
        found = await endpoints.list(call.principal, call.path["project_id"])
        return Page([view(each, call.principal) for each in found])

    async def create(call: Call) -> EndpointView:
        body: NewEndpointBody = call.body
        made = await endpoints.create(
            call.principal, call.path["project_id"], body.name, _upstreams(body), frozenset(body.disabled_tools)
        )
        return view(made, call.principal)

    async def get(call: Call) -> EndpointView:
        found = await endpoints.get(call.principal, call.path["project_id"], call.path["endpoint"])
        return view(found, call.principal)

    async def put(call: Call) -> EndpointView:
        body: EndpointBody = call.body
        kept = await endpoints.put(
            call.principal,
            call.path["project_id"],
            call.path["endpoint"],
            _upstreams(body),
            frozenset(body.disabled_tools),
        )
        return view(kept, call.principal)

    async def delete(call: Call) -> None:
        await endpoints.remove(call.principal, call.path["project_id"], call.path["endpoint"])

    every, one = "/api/projects/{project_id}/endpoints", "/api/projects/{project_id}/endpoints/{endpoint}"
    return [
        Operation(
            method="GET",
            path=every,
            handler=list_endpoints,
            tag="endpoints",
            access=_READ,
            answer=EndpointView,
            paged=True,
            summary="Endpoints of a project, `default` first",
        ),
        Operation(
            method="POST",
            path=every,
            handler=create,
            tag="endpoints",
            access=_MANAGE,
            body=NewEndpointBody,
            answer=EndpointView,
            status=201,
            summary="Make an endpoint",
        ),
        Operation(
            method="GET",
            path=one,
            handler=get,
            tag="endpoints",
            access=_READ,
            answer=EndpointView,
            summary="One endpoint",
        ),
        Operation(
            method="PUT",
            path=one,
            handler=put,
            tag="endpoints",
            access=_MANAGE,
            body=EndpointBody,
            answer=EndpointView,
            summary="Make an endpoint or change it",
        ),
        Operation(
            method="DELETE",
            path=one,
            handler=delete,
            tag="endpoints",
            access=_MANAGE,
            status=204,
            summary="Remove an endpoint; `default` goes back to the embedded model",
        ),
    ]


def view(endpoint: Endpoint, principal: Principal) -> EndpointView:
    """An endpoint as the API shows it to somebody."""
    return EndpointView(
        name=endpoint.name,
        project_id=endpoint.project_id,
        path=endpoint.path,
        embedded=endpoint.is_embedded,
        upstreams=[_fields(each, principal) for each in endpoint.upstreams],
        disabled_tools=sorted(endpoint.disabled_tools),
        created_at=iso(endpoint.created_at) if endpoint.created_at else None,
        updated_at=iso(endpoint.updated_at) if endpoint.updated_at else None,
    )


def _fields(upstream: EndpointUpstream, principal: Principal) -> UpstreamFields:
    return UpstreamFields(
        base_url=upstream.base_url,
        model=upstream.model,
        key_secret=shown_name(principal, upstream.key_secret),
        key_workspace_id=upstream.key_workspace_id,
        priority=upstream.priority,
        timeout_seconds=upstream.timeout_seconds,
        price_in=upstream.price_in,
        price_out=upstream.price_out,
    )


def _upstreams(body: EndpointBody) -> list[EndpointUpstream]:
    return [EndpointUpstream(**each.model_dump()) for each in body.upstreams]
