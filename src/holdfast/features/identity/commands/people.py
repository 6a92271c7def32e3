"""Owns `holdfast users` and `holdfast organizations`: the operator's, who has the files of all of them."""

import sys
from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, Commands, Given, Named, Option, Session
from holdfast.core.principal import Role
from holdfast.core.settings import Settings
from holdfast.features.identity.operations.invitations import InvitationAnswer
from holdfast.features.identity.operations.keys import KeyAnswer
from holdfast.features.identity.operations.organizations import OrganizationAnswer
from holdfast.features.identity.operations.users import UserAnswer
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.service import Identity, local_principal
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.storage.running import known_url

organizations = Commands("organizations", help="Organizations on this server: teams that share nothing.")
users = Commands("users", help="People of the organization.")


class NewOrganization(Named):
    """What `organizations create` is given."""

    owner: Annotated[str, Option(metavar="ADDRESS")] = Field(
        description="Who owns it; gets an account if there is none."
    )


@organizations.command(
    "create",
    help="Make an organization and print a link that signs its owner in, once, within the hour.",
    begins_store=True,
)
async def create_organization(
    session: Session, identity: Identity, sign_in: SignIn, settings: Settings, given: NewOrganization
) -> None:
    made = await identity.create_organization(session.principal, given.its_name, owner=given.owner)
    there = local_principal(made.id)
    (user,) = (await identity.users(there, limit=1)).items
    link = await sign_in.new_link(there, user.id)
    shown = OrganizationAnswer.of(made).model_dump()
    session.out.record({**shown, "owner_id": user.id, **_reached(settings, f"/sign-in?link={link.secret}")})


@organizations.command("list", help="List organizations.")
async def list_organizations(session: Session, identity: Identity) -> None:
    found = await identity.every_organization(session.principal)
    session.out.table(map(OrganizationAnswer.of, found), ["id", "name", "created_at"])


class Member(Given):
    """A member who is named, by id or address."""

    user_id: Annotated[str, Argument(metavar="USER")]


async def _member(session: Session, identity: Identity, given: Member) -> str:
    """The id of a member; as it was given where nobody has that address, to be refused by it."""
    found = await identity.member_by_email(session.principal, given.user_id) if "@" in given.user_id else None
    return given.user_id if found is None else found.id


@users.command("list", help="List members.")
async def list_users(session: Session, identity: Identity) -> None:
    found = await identity.users(session.principal, limit=200)
    session.out.table(map(UserAnswer.of, found.items), ["id", "email", "name", "role", "created_at"])


class NewMember(Given):
    """What `create` is given."""

    email: str
    name: str
    role: Role = "member"
    password_stdin: bool = Field(False, description="Read a password from standard input.")


@users.command(
    "create",
    help="Add a member at once, as the operator of this machine may; `invite` lets them agree first.",
    begins_store=True,
)
async def create(session: Session, identity: Identity, given: NewMember) -> None:
    password = sys.stdin.readline().rstrip("\n") if given.password_stdin else None
    made = await identity.create_user(
        session.principal, email=given.email, name=given.name, role=given.role, password=password
    )
    session.out.record(UserAnswer.of(made))


class NewInvitation(Given):
    """What `invite` is given."""

    email: str
    name: str = Field("", description="What to call them until they say so themselves.")
    role: Role = "member"


@users.command(
    "invite", help="Invite somebody and print the link to hand over; they join when they accept.", begins_store=True
)
async def invite(session: Session, invitations: Invitations, settings: Settings, given: NewInvitation) -> None:
    made = await invitations.invite(session.principal, email=given.email, name=given.name, role=given.role)
    shown = InvitationAnswer.of(made.invitation).model_dump()
    session.out.record({**shown, **_reached(settings, f"/join?invitation={made.secret}")})


@users.command("invitations", help="List open invitations.")
async def open_invitations(session: Session, invitations: Invitations) -> None:
    found = await invitations.list(session.principal, limit=200)
    session.out.table(map(InvitationAnswer.of, found.items), ["id", "email", "role", "invited_by", "expires_at"])


class Invited(Given):
    """What `withdraw` is given."""

    invitation_id: Annotated[str, Argument()]


@users.command("withdraw", help="Withdraw an invitation.")
async def withdraw(session: Session, invitations: Invitations, given: Invited) -> None:
    await invitations.withdraw(session.principal, given.invitation_id)
    session.out.record({"invitation_id": given.invitation_id, "withdrawn": True})


class NewRole(Member):
    """What `role` is given."""

    role: Annotated[Role, Argument()]


@users.command("role", help="Change a member's role.")
async def set_role(session: Session, identity: Identity, given: NewRole) -> None:
    user_id = await _member(session, identity, given)
    session.out.record(UserAnswer.of(await identity.set_role(session.principal, user_id, given.role)))


@users.command("password", help="Set a member's password, read from standard input.")
async def set_password(session: Session, identity: Identity, given: Member) -> None:
    user_id = await _member(session, identity, given)
    await identity.set_password(session.principal, user_id, sys.stdin.readline().rstrip("\n"))
    session.out.record({"user_id": user_id, "password": "set"})


@users.command("link", help="Print a one-time link that signs a member in within the hour.")
async def link(session: Session, identity: Identity, sign_in: SignIn, settings: Settings, given: Member) -> None:
    user_id = await _member(session, identity, given)
    made = await sign_in.new_link(session.principal, user_id)
    session.out.record({"user_id": user_id, **_reached(settings, f"/sign-in?link={made.secret}")})


@users.command("remove", help="End a membership and its sessions.")
async def remove(session: Session, identity: Identity, given: Member) -> None:
    user_id = await _member(session, identity, given)
    left = await identity.remove_user(session.principal, user_id)
    lines = [f"Removed {given.user_id}."]
    if left:
        lines.append("Keys that they made still work; stop those that are theirs with `holdfast keys revoke KEY`:")
        lines += [f"  {key.id}  {key.name}  {', '.join(sorted(key.scopes))}" for key in left]
    made = [KeyAnswer.of(key).model_dump() for key in left]
    session.out.record({"user_id": user_id, "removed": True, "keys": made}, lines)


def _reached(settings: Settings, path: str) -> dict[str, str]:
    return {"url": known_url(settings) + path, "path": path}
