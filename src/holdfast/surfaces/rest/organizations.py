"""Owns `/api/me`, `/api/organizations` and `/api/projects`."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.clock import iso
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.core.principal import SCOPES
from holdfast.features.identity.model import Organization, Project
from holdfast.features.identity.service import Identity

# What a credential belongs to is about the credential: its organization's name is no secret to a project's key.
_OWN = Access("self", SCOPES)


class MeView(Model):
    """Who the caller is to this server."""

    actor: str
    name: str
    proof: str
    is_person: bool
    role: str
    scopes: list[str]
    tier: str
    organization_id: str
    project_id: str | None
    workspace_ids: list[str] | None


class OrganizationView(Model):
    id: str
    name: str
    created_at: str


class ProjectView(Model):
    id: str
    organization_id: str
    slug: str
    name: str
    created_at: str


class Named(Model):
    """A new or another name."""

    name: str = Field(min_length=1, max_length=120)


def operations(identity: Identity) -> list[Operation]:
    """Everything served here."""

    async def me(call: Call) -> MeView:
        who = call.principal
        allowed = None if who.workspace_ids is None else sorted(who.workspace_ids)
        return MeView(
            actor=who.actor,
            name=who.name,
            proof=who.proof,
            is_person=who.is_person,
            role=who.role,
            scopes=sorted(who.scopes),
            tier=who.tier,
            organization_id=who.organization_id,
            project_id=who.project_id,
            workspace_ids=allowed,
        )

    async def list_organizations(call: Call) -> Page[OrganizationView]:
        own = await identity.organization(call.principal, call.principal.organization_id)
        return Page([_organization(own)])

    async def create_organization(call: Call) -> OrganizationView:
        return _organization(await identity.create_organization(call.principal, call.body.name))

    async def get_organization(call: Call) -> OrganizationView:
        return _organization(await identity.organization(call.principal, call.path["organization_id"]))

    async def rename_organization(call: Call) -> OrganizationView:
        id = call.path["organization_id"]
        return _organization(await identity.rename_organization(call.principal, id, call.body.name))

    async def list_projects(call: Call) -> Page[ProjectView]:
        found = await identity.projects(call.principal, limit=call.query.limit, cursor=call.query.cursor)
        return found.map(_project)

    async def create_project(call: Call) -> ProjectView:
        return _project(await identity.create_project(call.principal, call.body.name))

    async def get_project(call: Call) -> ProjectView:
        return _project(await identity.project(call.principal, call.path["project_id"]))

    async def rename_project(call: Call) -> ProjectView:
        return _project(await identity.rename_project(call.principal, call.path["project_id"], call.body.name))

    async def delete_project(call: Call) -> None:
        await identity.delete_project(call.principal, call.path["project_id"])

    organizations, one = "/api/organizations", "/api/organizations/{organization_id}"
    projects, project = "/api/projects", "/api/projects/{project_id}"
    return [
        Operation(
            method="GET",
            path="/api/me",
            handler=me,
            tag="identity",
            access=_OWN,
            answer=MeView,
            summary="Who this credential belongs to",
        ),
        Operation(
            method="GET",
            path=organizations,
            handler=list_organizations,
            tag="organizations",
            access=_OWN,
            query=PageQuery,
            answer=OrganizationView,
            paged=True,
            summary="The caller's organization",
        ),
        Operation(
            method="POST",
            path=organizations,
            handler=create_organization,
            tag="organizations",
            access=Access("organization", "management", people_only=True),
            body=Named,
            answer=OrganizationView,
            status=201,
            summary="Make another organization (people only)",
        ),
        Operation(
            method="GET",
            path=one,
            handler=get_organization,
            tag="organizations",
            access=_OWN,
            answer=OrganizationView,
            summary="One organization",
        ),
        Operation(
            method="PATCH",
            path=one,
            handler=rename_organization,
            tag="organizations",
            access=Access("organization", "management", role="admin"),
            body=Named,
            answer=OrganizationView,
            summary="Rename the organization",
        ),
        Operation(
            method="GET",
            path=projects,
            handler=list_projects,
            tag="projects",
            access=Access("project", SCOPES),
            query=PageQuery,
            answer=ProjectView,
            paged=True,
            summary="Projects",
        ),
        Operation(
            method="POST",
            path=projects,
            handler=create_project,
            tag="projects",
            access=Access("organization", "management", role="admin"),
            body=Named,
            answer=ProjectView,
            status=201,
            summary="Make a project",
        ),
        Operation(
            method="GET",
            path=project,
            handler=get_project,
            tag="projects",
            access=Access("project", SCOPES),
            answer=ProjectView,
            summary="One project",
        ),
        Operation(
            method="PATCH",
            path=project,
            handler=rename_project,
            tag="projects",
            access=Access("project", "management", role="admin"),
            body=Named,
            answer=ProjectView,
            summary="Rename a project",
        ),
        Operation(
            method="DELETE",
            path=project,
            handler=delete_project,
            tag="projects",
            access=Access("organization", "management", role="admin"),
            status=204,
            summary="Delete a project with everything in it",
        ),
    ]


def _organization(value: Organization) -> OrganizationView:
    return OrganizationView(id=value.id, name=value.name, created_at=iso(value.created_at))


def _project(value: Project) -> ProjectView:
    return ProjectView(
        id=value.id,
        organization_id=value.organization_id,
        slug=value.slug,
        name=value.name,
        created_at=iso(value.created_at),
    )
