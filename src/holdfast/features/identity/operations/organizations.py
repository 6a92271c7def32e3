"""Owns `/api/me`, `/api/organizations` and `/api/projects`."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.model import Answer, Model, PageQuery, Sorted, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.identity.service import Identity

_ORGANIZATIONS = "/api/organizations"
_ORGANIZATION = _ORGANIZATIONS + "/{organization_id}"
_PROJECTS = "/api/projects"
_PROJECT = _PROJECTS + "/{project_id}"
# What a credential belongs to is about the credential: its organization's name is no secret to a project's key.
_OWN = Access("self", SCOPES)
_MANAGE = Access("organization", "management", role="admin")

api = Operations("organizations")


class MeAnswer(Answer):
    """Who the caller is to this server."""

    actor: str
    name: str
    proof: str
    is_person: bool
    role: str
    scopes: Sorted
    tier: str
    organization_id: str
    project_id: str | None
    workspace_ids: Sorted | None


class OrganizationAnswer(Answer):
    id: str
    name: str
    created_at: Time


class ProjectAnswer(Answer):
    id: str
    organization_id: str
    slug: str
    name: str
    created_at: Time


class NameBody(Model):
    """A new or another name."""

    name: str = Field(min_length=1, max_length=120)


@api.get("/api/me", _OWN, "Who this credential belongs to", tag="identity")
async def me(principal: Principal) -> MeAnswer:
    return MeAnswer.of(principal)


@api.get(_ORGANIZATIONS, _OWN, "The caller's organization")
async def organizations(identity: Identity, principal: Principal, query: PageQuery) -> Page[OrganizationAnswer]:
    return Page([OrganizationAnswer.of(await identity.organization(principal, principal.organization_id))])


@api.post(
    _ORGANIZATIONS,
    Access("organization", "management", people_only=True),
    "Make another organization (people only)",
    status=201,
)
async def create_organization(identity: Identity, principal: Principal, body: NameBody) -> OrganizationAnswer:
    return OrganizationAnswer.of(await identity.create_organization(principal, body.name))


@api.get(_ORGANIZATION, _OWN, "One organization")
async def get_organization(identity: Identity, principal: Principal, organization_id: str) -> OrganizationAnswer:
    return OrganizationAnswer.of(await identity.organization(principal, organization_id))


@api.patch(_ORGANIZATION, _MANAGE, "Rename the organization")
async def rename_organization(
    identity: Identity, principal: Principal, organization_id: str, body: NameBody
) -> OrganizationAnswer:
    return OrganizationAnswer.of(await identity.rename_organization(principal, organization_id, body.name))


@api.get(_PROJECTS, Access("project", SCOPES), "Projects", tag="projects")
async def projects(identity: Identity, principal: Principal, query: PageQuery) -> Page[ProjectAnswer]:
    return (await identity.projects(principal, limit=query.limit, cursor=query.cursor)).map(ProjectAnswer.of)


@api.post(_PROJECTS, _MANAGE, "Make a project", status=201, tag="projects")
async def create_project(identity: Identity, principal: Principal, body: NameBody) -> ProjectAnswer:
    return ProjectAnswer.of(await identity.create_project(principal, body.name))


@api.get(_PROJECT, Access("project", SCOPES), "One project", tag="projects")
async def get_project(identity: Identity, principal: Principal, project_id: str) -> ProjectAnswer:
    return ProjectAnswer.of(await identity.project(principal, await identity.project_id(principal, project_id)))


@api.patch(_PROJECT, Access("project", "management", role="admin"), "Rename a project", tag="projects")
async def rename_project(identity: Identity, principal: Principal, project_id: str, body: NameBody) -> ProjectAnswer:
    project_id = await identity.project_id(principal, project_id)
    return ProjectAnswer.of(await identity.rename_project(principal, project_id, body.name))


@api.delete(_PROJECT, _MANAGE, "Delete a project with everything in it", tag="projects")
async def delete_project(identity: Identity, principal: Principal, project_id: str) -> None:
    await identity.delete_project(principal, await identity.project_id(principal, project_id))
