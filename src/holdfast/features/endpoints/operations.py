"""Owns `/api/projects/{project_id}/endpoints`: where a project's chat goes."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.model import Answer, Model, Sorted, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import SCOPES, Principal
from holdfast.engines.llm.remote.upstream import Kind
from holdfast.features.endpoints.model import MAX_MODEL, MAX_UPSTREAMS, Endpoint, EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity.service import Identity
from holdfast.features.secrets.service import shown_name

api = Operations("endpoints")

_BASE = "/api/projects/{project_id}/endpoints"
_ONE = "/api/projects/{project_id}/endpoints/{endpoint}"
_READ = Access("project", SCOPES)
_MANAGE = Access("project", "management", role="admin")


class UpstreamBody(Answer):
    base_url: str = Field(min_length=1, max_length=2000, description="Such as https://api.openai.com/v1")
    model: str = Field(min_length=1, max_length=MAX_MODEL, description="The model's name there")
    kind: Kind = Field(default="openai", description="The wire that it speaks: Chat Completions or Messages")
    key_secret: str | None = Field(
        default=None, max_length=64, description="The secret that holds its API key; naming one takes an admin"
    )
    key_workspace_id: str | None = Field(
        default=None,
        max_length=64,
        description="The workspace of that secret (the first one that has it where absent)",
    )
    priority: int = Field(default=0, ge=0, le=1000, description="Lower is asked first")
    timeout_seconds: float = Field(default=120.0, gt=0, le=3600, description="Longest wait for an answer to begin")
    price_in: float = Field(default=0.0, ge=0, le=1e6, description="Price of a million input tokens")
    price_out: float = Field(default=0.0, ge=0, le=1e6, description="Price of a million output tokens")


class EndpointAnswer(Answer):
    name: str
    project_id: str
    path: str = Field(description="What follows the server's address in a client's base URL")
    embedded: bool = Field(
        validation_alias="is_embedded", description="Whether no upstream is connected and the embedded model answers"
    )
    upstreams: list[UpstreamBody]
    disabled_tools: Sorted
    created_at: Time | None
    updated_at: Time | None


class EndpointBody(Model):
    upstreams: list[UpstreamBody] = Field(default=[], max_length=MAX_UPSTREAMS)
    disabled_tools: list[str] = Field(default=[], max_length=20, description="Research tools not offered here")


class NewEndpointBody(EndpointBody):
    name: str = Field(min_length=1, max_length=63)


def _shown(endpoint: Endpoint, principal: Principal) -> EndpointAnswer:
    return EndpointAnswer.of(
        endpoint,
        upstreams=[
            UpstreamBody.of(each, key_secret=shown_name(principal, each.key_secret)) for each in endpoint.upstreams
        ],
        # The `default` that nobody made has no times.
        created_at=endpoint.created_at or None,
        updated_at=endpoint.updated_at or None,
    )


def _upstreams(body: EndpointBody) -> list[EndpointUpstream]:
    return [each.into(EndpointUpstream) for each in body.upstreams]


@api.get(_BASE, _READ, "Endpoints of a project, `default` first")
async def page(endpoints: Endpoints, identity: Identity, principal: Principal, project_id: str) -> Page[EndpointAnswer]:
    project_id = await identity.project_id(principal, project_id)
    return Page([_shown(each, principal) for each in await endpoints.list(principal, project_id)])


@api.post(_BASE, _MANAGE, "Make an endpoint", status=201)
async def create(
    endpoints: Endpoints, identity: Identity, principal: Principal, project_id: str, body: NewEndpointBody
) -> EndpointAnswer:
    project_id = await identity.project_id(principal, project_id)
    return _shown(
        await endpoints.create(principal, project_id, body.name, _upstreams(body), frozenset(body.disabled_tools)),
        principal,
    )


@api.get(_ONE, _READ, "One endpoint")
async def get(
    endpoints: Endpoints, identity: Identity, principal: Principal, project_id: str, endpoint: str
) -> EndpointAnswer:
    project_id = await identity.project_id(principal, project_id)
    return _shown(await endpoints.get(principal, project_id, endpoint), principal)


@api.put(_ONE, _MANAGE, "Make an endpoint or change it")
async def put(
    endpoints: Endpoints,
    identity: Identity,
    principal: Principal,
    project_id: str,
    endpoint: str,
    body: EndpointBody,
) -> EndpointAnswer:
    project_id = await identity.project_id(principal, project_id)
    tools = frozenset(body.disabled_tools)
    return _shown(await endpoints.put(principal, project_id, endpoint, _upstreams(body), tools), principal)


@api.delete(_ONE, _MANAGE, "Remove an endpoint; `default` goes back to the embedded model")
async def delete(
    endpoints: Endpoints, identity: Identity, principal: Principal, project_id: str, endpoint: str
) -> None:
    await endpoints.remove(principal, await identity.project_id(principal, project_id), endpoint)
