"""Owns `/api/users`, one's own name and password, and the way in for those who have none."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.model import Answer, Model, PageQuery, Time
from holdfast.core.operations import Call, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal, Role
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.operations.invitations import InvitedAnswer
from holdfast.features.identity.operations.keys import KeyAnswer
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn

_BASE = "/api/users"
_ONE = _BASE + "/{user_id}"
_READ = Access("organization", ("read", "management"))
_CHANGE = Access("organization", "management", role="admin", people_only=True)
_OWN = Access("self", "management", people_only=True)

api = Operations("users")


class UserAnswer(Answer):
    id: str
    email: str
    name: str
    role: Role
    has_password: bool
    created_at: Time


class UserBody(Model):
    email: str = Field(max_length=254)
    name: str = Field(default="", max_length=120, description="What to call them until they say so themselves")
    role: Role = "member"


class UserChangeBody(Model):
    role: Role


class PasswordBody(Model):
    password: str = Field(max_length=1000)
    current_password: str | None = Field(
        default=None, max_length=1000, description="The password until now, for an account that has one"
    )


class OwnNameBody(Model):
    name: str = Field(min_length=1, max_length=120)


class RemovalQuery(Model):
    revoke_keys: bool = Field(default=False, description="Also revoke the keys that they made")


class RemovedAnswer(Answer):
    user_id: str
    keys: list[KeyAnswer] = Field(
        description="Keys that they made, directly or by a key of theirs, and that still work"
    )


class LinkAnswer(Answer):
    user_id: str
    url: str = Field(description="The link itself, shown this once: it signs in whoever opens it, once")
    expires_at: Time


@api.get(_BASE, _READ, "Members of the organization")
async def page(identity: Identity, principal: Principal, query: PageQuery) -> Page[UserAnswer]:
    return (await identity.users(principal, limit=query.limit, cursor=query.cursor)).map(UserAnswer.of)


@api.post(_BASE, _CHANGE, "Invite somebody to be a member; they join when they accept", status=201, shows_secret=True)
async def invite(invitations: Invitations, principal: Principal, body: UserBody, call: Call) -> InvitedAnswer:
    made = await invitations.invite(principal, email=body.email, name=body.name, role=body.role)
    return InvitedAnswer.of(made.invitation, url=f"{call.public_url}/join?invitation={made.secret}")


@api.get(_ONE, _READ, "One member")
async def get(identity: Identity, principal: Principal, user_id: str) -> UserAnswer:
    return UserAnswer.of(await identity.user(principal, user_id))


@api.patch(_ONE, _CHANGE, "Change a member's role")
async def update(identity: Identity, principal: Principal, user_id: str, body: UserChangeBody) -> UserAnswer:
    return UserAnswer.of(await identity.set_role(principal, user_id, body.role))


@api.patch("/api/me", _OWN, "Change one's own name", tag="identity")
async def rename(identity: Identity, principal: Principal, body: OwnNameBody) -> UserAnswer:
    return UserAnswer.of(await identity.rename_user(principal, body.name))


@api.put(_ONE + "/password", _OWN, "Set one's own password; every other session ends")
async def set_password(identity: Identity, principal: Principal, user_id: str, body: PasswordBody, call: Call) -> None:
    await identity.set_password(principal, user_id, body.password, current=body.current_password, cookie=call.session())


@api.post(
    _ONE + "/sign-in-link",
    _CHANGE,
    "A link that signs a member of this organization alone in, once, within the hour",
    status=201,
    shows_secret=True,
)
async def link(sign_in: SignIn, principal: Principal, user_id: str, call: Call) -> LinkAnswer:
    made = await sign_in.new_link(principal, user_id)
    return LinkAnswer.of(made, url=f"{call.public_url}/sign-in?link={made.secret}")


@api.delete(_ONE, _CHANGE, "End a membership with its sessions, links and invitations")
async def remove(
    identity: Identity, keys: Keys, principal: Principal, user_id: str, query: RemovalQuery
) -> RemovedAnswer:
    made = await identity.remove_user(principal, user_id)
    if query.revoke_keys:
        made = [await keys.revoke(principal, key.id) for key in made]
    return RemovedAnswer(user_id=user_id, keys=[KeyAnswer.of(key) for key in made])
