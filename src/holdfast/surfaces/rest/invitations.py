"""Owns `/api/invitations` and `/api/me/invitations`: those that an organization sent, and those to oneself."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.clock import iso
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.core.principal import SCOPES, Role
from holdfast.features.identity.model import Invitation, Invited
from holdfast.features.identity.people.invitations import Invitations

_MANAGE = Access("organization", "management", role="admin", people_only=True)
_OWN = Access("self", "management", people_only=True)


class InvitationView(Model):
    id: str
    email: str
    name: str
    role: Role
    invited_by: str
    created_at: str
    expires_at: str


class InvitedView(InvitationView):
    url: str = Field(description="Hand this link to the person: it is shown this once, and needed to accept")


class OwnInvitationView(Model):
    id: str
    organization_id: str
    organization: str
    role: Role
    created_at: str
    expires_at: str


class Acceptance(Model):
    token: str = Field(max_length=200, description="What follows `invitation=` in the link that was handed over")
    current_password: str | None = Field(
        default=None, max_length=1000, description="The account's password, if it has one"
    )


def operations(invitations: Invitations) -> list[Operation]:
    """Everything served here; invitations are made with `POST /api/users`."""

    async def list_sent(call: Call) -> Page[InvitationView]:
        found = await invitations.list(call.principal, limit=call.query.limit, cursor=call.query.cursor)
        return found.map(_view)

    async def withdraw(call: Call) -> None:
        await invitations.withdraw(call.principal, call.path["invitation_id"])

    async def list_own(call: Call) -> Page[OwnInvitationView]:
        return Page([_own_view(each) for each in await invitations.own(call.principal)])

    async def accept(call: Call) -> OwnInvitationView:
        body: Acceptance = call.body
        joined = await invitations.accept(
            call.principal, body.token, password=body.current_password, cookie=call.session()
        )
        return _own_view(joined)

    async def decline(call: Call) -> None:
        await invitations.decline(call.principal, call.path["invitation_id"])

    sent, own = "/api/invitations", "/api/me/invitations"
    return [
        Operation(
            method="GET",
            path=sent,
            handler=list_sent,
            tag="users",
            access=_MANAGE,
            query=PageQuery,
            answer=InvitationView,
            paged=True,
            summary="Open invitations of the organization",
        ),
        Operation(
            method="DELETE",
            path=sent + "/{invitation_id}",
            handler=withdraw,
            tag="users",
            access=_MANAGE,
            status=204,
            summary="Withdraw an invitation",
        ),
        Operation(
            method="GET",
            path=own,
            handler=list_own,
            tag="identity",
            access=Access("self", SCOPES, people_only=True),
            answer=OwnInvitationView,
            paged=True,
            summary="What the signed-in person is invited to",
        ),
        Operation(
            method="POST",
            path=own + "/accept",
            handler=accept,
            tag="identity",
            access=_OWN,
            body=Acceptance,
            answer=OwnInvitationView,
            summary="Join the organization of an invitation's link; every other session of the account ends",
        ),
        Operation(
            method="POST",
            path=own + "/{invitation_id}/decline",
            handler=decline,
            tag="identity",
            access=_OWN,
            status=204,
            summary="Decline an invitation",
        ),
    ]


def invited_view(invited: Invited, public_url: str) -> InvitedView:
    """A new invitation with its link."""
    return InvitedView(**_view(invited.invitation).model_dump(), url=f"{public_url}/join?invitation={invited.secret}")


def _view(value: Invitation) -> InvitationView:
    return InvitationView(
        id=value.id,
        email=value.email,
        name=value.name,
        role=value.role,
        invited_by=value.created_by,
        created_at=iso(value.created_at),
        expires_at=iso(value.expires_at),
    )


def _own_view(value: Invitation) -> OwnInvitationView:
    return OwnInvitationView(
        id=value.id,
        organization_id=value.organization_id,
        organization=value.organization_name,
        role=value.role,
        created_at=iso(value.created_at),
        expires_at=iso(value.expires_at),
    )
