"""Owns `/api/users`: the organization's members, and the links that let them sign in."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.clock import iso
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.core.principal import Role
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.model import User
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.surfaces.rest.invitations import InvitedView, invited_view
from holdfast.surfaces.rest.keys import KeyView, view

_READ = Access("organization", ("read", "management"))
_CHANGE = Access("organization", "management", role="admin", people_only=True)
_OWN = Access("self", "management", people_only=True)


class UserView(Model):
    id: str
    email: str
    name: str
    role: Role
    has_password: bool
    created_at: str


class NewUser(Model):
    email: str = Field(max_length=254)
    name: str = Field(default="", max_length=120, description="What to call them until they say so themselves")
    role: Role = "member"


class ChangedUser(Model):
    role: Role


class NewPassword(Model):
    password: str = Field(max_length=1000)
    current_password: str | None = Field(
        default=None, max_length=1000, description="The password until now, for an account that has one"
    )


class OwnName(Model):
    name: str = Field(min_length=1, max_length=120)


class RemovalQuery(Model):
    revoke_keys: bool = Field(default=False, description="Also revoke the keys that they made")


class RemovedView(Model):
    user_id: str
    keys: list[KeyView] = Field(description="Keys that they made, directly or by a key of theirs, and that still work")


class LinkView(Model):
    user_id: str
    url: str = Field(description="The link itself, shown this once: it signs in whoever opens it, once")
    expires_at: str


def operations(
    identity: Identity, invitations: Invitations, sign_in: SignIn, keys: Keys, public_url: str
) -> list[Operation]:
    """Everything served here; links lead to `public_url`."""

    async def list_users(call: Call) -> Page[UserView]:
        found = await identity.users(call.principal, limit=call.query.limit, cursor=call.query.cursor)
        return found.map(_view)

    async def invite(call: Call) -> InvitedView:
        new: NewUser = call.body
        made = await invitations.invite(call.principal, email=new.email, name=new.name, role=new.role)
        return invited_view(made, public_url)

    async def get(call: Call) -> UserView:
        return _view(await identity.user(call.principal, call.path["user_id"]))

    async def update(call: Call) -> UserView:
        return _view(await identity.set_role(call.principal, call.path["user_id"], call.body.role))

    async def rename(call: Call) -> UserView:
        return _view(await identity.rename_user(call.principal, call.body.name))

    async def set_password(call: Call) -> None:
        body: NewPassword = call.body
        await identity.set_password(
            call.principal,
            call.path["user_id"],
            body.password,
            current=body.current_password,
            cookie=call.session(),
        )

    async def link(call: Call) -> LinkView:
        made = await sign_in.new_link(call.principal, call.path["user_id"])
        url = f"{public_url}/sign-in?link={made.secret}"
        return LinkView(user_id=made.user_id, url=url, expires_at=iso(made.expires_at))

    async def remove(call: Call) -> RemovedView:
        user_id = call.path["user_id"]
        made = await identity.remove_user(call.principal, user_id)
        if call.query.revoke_keys:
            made = [await keys.revoke(call.principal, key.id) for key in made]
        return RemovedView(user_id=user_id, keys=[view(key) for key in made])

    every, one = "/api/users", "/api/users/{user_id}"
    return [
        Operation(
            method="GET",
            path=every,
            handler=list_users,
            tag="users",
            access=_READ,
            query=PageQuery,
            answer=UserView,
            paged=True,
            summary="Members of the organization",
        ),
        Operation(
            method="POST",
            path=every,
            handler=invite,
            tag="users",
            access=_CHANGE,
            body=NewUser,
            answer=InvitedView,
            status=201,
            shows_secret=True,
            summary="Invite somebody to be a member; they join when they accept",
        ),
        Operation(
            method="GET",
            path=one,
            handler=get,
            tag="users",
            access=_READ,
            answer=UserView,
            summary="One member",
        ),
        Operation(
            method="PATCH",
            path=one,
            handler=update,
            tag="users",
            access=_CHANGE,
            body=ChangedUser,
            answer=UserView,
            summary="Change a member's role",
        ),
        Operation(
            method="PATCH",
            path="/api/me",
            handler=rename,
            tag="identity",
            access=_OWN,
            body=OwnName,
            answer=UserView,
            summary="Change one's own name",
        ),
        Operation(
            method="PUT",
            path=one + "/password",
            handler=set_password,
            tag="users",
            access=_OWN,
            body=NewPassword,
            status=204,
            summary="Set one's own password; every other session ends",
        ),
        Operation(
            method="POST",
            path=one + "/sign-in-link",
            handler=link,
            tag="users",
            access=_CHANGE,
            answer=LinkView,
            status=201,
            shows_secret=True,
            summary="A link that signs a member of this organization alone in, once, within the hour",
        ),
        Operation(
            method="DELETE",
            path=one,
            handler=remove,
            tag="users",
            access=_CHANGE,
            query=RemovalQuery,
            answer=RemovedView,
            summary="End a membership with its sessions, links and invitations",
        ),
    ]


def _view(value: User) -> UserView:
    return UserView(
        id=value.id,
        email=value.email,
        name=value.name,
        role=value.role,
        has_password=value.has_password,
        created_at=iso(value.created_at),
    )
