"""Owns `holdfast users`."""

import sys
from typing import Any

import click

from holdfast.core.clock import iso
from holdfast.core.principal import ROLES, Role
from holdfast.features.identity.model import User
from holdfast.surfaces.cli.frame import Session, command
from holdfast.surfaces.cli.server import known_url

group = click.Group("users", help="People of the organization.")

_user_id = click.argument("user_id")


@command(group, "list", help="List members.")
async def list_users(session: Session) -> None:
    found = await session.services.identity.users(session.principal, limit=200)
    session.out.table([_row(user) for user in found.items], ["user_id", "email", "name", "role", "created_at"])


@command(
    group,
    "create",
    click.option("--email", required=True),
    click.option("--name", required=True),
    click.option("--role", type=click.Choice(ROLES), default="member"),
    click.option("--password-stdin", is_flag=True, help="Read a password from standard input."),
    help="Add a member at once, as the operator of this machine may; `invite` lets them agree first.",
)
async def create(session: Session, email: str, name: str, role: Role, password_stdin: bool) -> None:
    password = sys.stdin.readline().rstrip("\n") if password_stdin else None
    made = await session.services.identity.create_user(
        session.principal, email=email, name=name, role=role, password=password
    )
    session.out.record(_row(made))


@command(
    group,
    "invite",
    click.option("--email", required=True),
    click.option("--name", default="", help="What to call them until they say so themselves."),
    click.option("--role", type=click.Choice(ROLES), default="member"),
    help="Invite somebody and print the link to hand over; they join when they accept.",
)
async def invite(session: Session, email: str, name: str, role: Role) -> None:
    made = await session.services.invitations.invite(session.principal, email=email, name=name, role=role)
    path = f"/join?invitation={made.secret}"
    shown = {"invitation_id": made.invitation.id, "email": made.invitation.email, "role": role}
    session.out.record({**shown, "url": known_url().rstrip("/") + path, "path": path})


@command(group, "invitations", help="List open invitations.")
async def invitations(session: Session) -> None:
    found = await session.services.invitations.list(session.principal, limit=200)
    rows = [
        {
            "invitation_id": each.id,
            "email": each.email,
            "role": each.role,
            "invited_by": each.created_by,
            "expires_at": iso(each.expires_at),
        }
        for each in found.items
    ]
    session.out.table(rows, ["invitation_id", "email", "role", "invited_by", "expires_at"])


@command(group, "withdraw", click.argument("invitation_id"), help="Withdraw an invitation.")
async def withdraw(session: Session, invitation_id: str) -> None:
    await session.services.invitations.withdraw(session.principal, invitation_id)
    session.out.record({"invitation_id": invitation_id, "withdrawn": True})


@command(group, "role", _user_id, click.argument("role", type=click.Choice(ROLES)), help="Change a member's role.")
async def set_role(session: Session, user_id: str, role: Role) -> None:
    session.out.record(_row(await session.services.identity.set_role(session.principal, user_id, role)))


@command(group, "password", _user_id, help="Set a member's password, read from standard input.")
async def set_password(session: Session, user_id: str) -> None:
    password = sys.stdin.readline().rstrip("\n")
    await session.services.identity.set_password(session.principal, user_id, password)
    session.out.record({"user_id": user_id, "password": "set"})


@command(group, "link", _user_id, help="Print a one-time link that signs a member in within the hour.")
async def link(session: Session, user_id: str) -> None:
    made = await session.services.sign_in.new_link(session.principal, user_id)
    path = f"/sign-in?link={made.secret}"
    session.out.record({"user_id": user_id, "url": known_url().rstrip("/") + path, "path": path})


@command(group, "remove", _user_id, help="End a membership and its sessions.")
async def remove(session: Session, user_id: str) -> None:
    left = await session.services.identity.remove_user(session.principal, user_id)
    lines = [f"Removed {user_id}."]
    if left:
        lines.append("Keys that they made still work; stop those that are theirs with `holdfast keys revoke KEY`:")
        lines += [f"  {key.id}  {key.name}  {', '.join(sorted(key.scopes))}" for key in left]
    made = [{"key_id": key.id, "name": key.name, "prefix": key.prefix} for key in left]
    session.out.record({"user_id": user_id, "removed": True, "keys": made}, lines)


def _row(user: User) -> dict[str, Any]:
    return {
        "user_id": user.id,
        "email": user.email,
        "name": user.name,
        "role": user.role,
        "created_at": iso(user.created_at),
    }
