"""Owns `/api/users`: the organization's members."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.clock import iso
from holdfast.core.paging import Page
from holdfast.core.principal import Role
from holdfast.features.identity.model import User
from holdfast.features.identity.service import Identity
from holdfast.surfaces.rest.api import Call, Model, Operation, PageQuery

_READ = Access("organization", ("read", "management"))
_CHANGE = Access("organization", "management", role="admin", people_only=True)
_OWN_PASSWORD = Access("organization", "management", people_only=True)


class UserView(Model):
    id: str
    email: str
    name: str
    role: Role
    has_password: bool
    created_at: str


class NewUser(Model):
    email: str = Field(max_length=254)
    name: str = Field(min_length=1, max_length=120)
    role: Role = "member"
    password: str | None = Field(default=None, max_length=1000)


class ChangedUser(Model):
    role: Role | None = None
    name: str | None = Field(default=None, min_length=1, max_length=120)


class NewPassword(Model):
    password: str = Field(max_length=1000)


def operations(identity: Identity) -> list[Operation]:
    """Everything served here."""

    async def list_users(call: Call) -> Page[UserView]:
        found = await identity.users(call.principal, limit=call.query.limit, cursor=call.query.cursor)
        return found.map(_view)

    async def create(call: Call) -> UserView:
        new: NewUser = call.body
        made = await identity.create_user(
            call.principal, email=new.email, name=new.name, role=new.role, password=new.password
        )
        return _view(made)

    async def get(call: Call) -> UserView:
        return _view(await identity.user(call.principal, call.path["user_id"]))

    async def update(call: Call) -> UserView:
        id = call.path["user_id"]
        return _view(await identity.update_user(call.principal, id, role=call.body.role, name=call.body.name))

    async def set_password(call: Call) -> None:
        await identity.set_password(call.principal, call.path["user_id"], call.body.password)

    async def remove(call: Call) -> None:
        await identity.remove_user(call.principal, call.path["user_id"])

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
            handler=create,
            tag="users",
            access=_CHANGE,
            body=NewUser,
            answer=UserView,
            status=201,
            summary="Add a member",
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
            summary="Change a member's role or name",
        ),
        Operation(
            method="PUT",
            path=one + "/password",
            handler=set_password,
            tag="users",
            access=_OWN_PASSWORD,
            body=NewPassword,
            status=204,
            summary="Set a member's password",
        ),
        Operation(
            method="DELETE",
            path=one,
            handler=remove,
            tag="users",
            access=_CHANGE,
            status=204,
            summary="End a membership",
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
