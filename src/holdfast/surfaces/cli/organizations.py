"""Owns `holdfast organizations`: the operator's, who has the files of all of them."""

import click

from holdfast.core.clock import iso
from holdfast.features.identity.service import local_principal
from holdfast.surfaces.cli.frame import Session, command
from holdfast.surfaces.cli.server import known_url

group = click.Group("organizations", help="Organizations on this server: teams that share nothing.")


@command(
    group,
    "create",
    click.option("--name", required=True),
    click.option("--owner", metavar="ADDRESS", required=True, help="Who owns it; gets an account if there is none."),
    help="Make an organization and print a link that signs its owner in, once, within the hour.",
)
async def create(session: Session, name: str, owner: str) -> None:
    made = await session.services.identity.create_organization(session.principal, name, owner=owner)
    there = local_principal(made.id)
    (user,) = (await session.services.identity.users(there, limit=1)).items
    link = await session.services.sign_in.new_link(there, user.id)
    path = f"/sign-in?link={link.secret}"
    shown = {"organization_id": made.id, "name": made.name, "owner_id": user.id}
    session.out.record({**shown, "url": known_url().rstrip("/") + path, "path": path})


@command(group, "list", help="List organizations.")
async def list_organizations(session: Session) -> None:
    found = await session.services.identity.every_organization(session.principal)
    rows = [{"organization_id": each.id, "name": each.name, "created_at": iso(each.created_at)} for each in found]
    session.out.table(rows, ["organization_id", "name", "created_at"])
