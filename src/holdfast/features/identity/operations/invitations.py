"""Owns `/api/invitations` and `/api/me/invitations`: those that an organization sent, and those to oneself."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.model import Answer, Model, PageQuery, Time
from holdfast.core.operations import Call, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import SCOPES, Principal, Role
from holdfast.features.identity.people.invitations import Invitations

_SENT = "/api/invitations"
_RECEIVED = "/api/me/invitations"
_MANAGE = Access("organization", "management", role="admin", people_only=True)
_OWN = Access("self", "management", people_only=True)

# Invitations are made with `POST /api/users`.
api = Operations("identity")


class InvitationAnswer(Answer):
    id: str
    email: str
    name: str
    role: Role
    invited_by: str = Field(validation_alias="created_by")
    created_at: Time
    expires_at: Time


class InvitedAnswer(InvitationAnswer):
    url: str = Field(description="Hand this link to the person: it is shown this once, and needed to accept")


class OwnInvitationAnswer(Answer):
    id: str
    organization_id: str
    organization: str = Field(validation_alias="organization_name")
    role: Role
    created_at: Time
    expires_at: Time


class AcceptanceBody(Model):
    token: str = Field(max_length=200, description="What follows `invitation=` in the link that was handed over")
    current_password: str | None = Field(
        default=None, max_length=1000, description="The account's password, if it has one"
    )


@api.get(_SENT, _MANAGE, "Open invitations of the organization", tag="users")
async def sent(invitations: Invitations, principal: Principal, query: PageQuery) -> Page[InvitationAnswer]:
    return (await invitations.list(principal, limit=query.limit, cursor=query.cursor)).map(InvitationAnswer.of)


@api.delete(_SENT + "/{invitation_id}", _MANAGE, "Withdraw an invitation", tag="users")
async def withdraw(invitations: Invitations, principal: Principal, invitation_id: str) -> None:
    await invitations.withdraw(principal, invitation_id)


@api.get(_RECEIVED, Access("self", SCOPES, people_only=True), "What the signed-in person is invited to")
async def received(invitations: Invitations, principal: Principal) -> Page[OwnInvitationAnswer]:
    return Page(await invitations.own(principal)).map(OwnInvitationAnswer.of)


@api.post(
    _RECEIVED + "/accept",
    _OWN,
    "Join the organization of an invitation's link; every other session of the account ends",
)
async def accept(
    invitations: Invitations, principal: Principal, body: AcceptanceBody, call: Call
) -> OwnInvitationAnswer:
    return OwnInvitationAnswer.of(
        await invitations.accept(principal, body.token, password=body.current_password, cookie=call.session())
    )


@api.post(_RECEIVED + "/{invitation_id}/decline", _OWN, "Decline an invitation")
async def decline(invitations: Invitations, principal: Principal, invitation_id: str) -> None:
    await invitations.decline(principal, invitation_id)
