"""Owns `holdfast secrets`."""

import sys
from typing import Any, TextIO

import click

from holdfast.core.clock import iso
from holdfast.core.errors import Invalid
from holdfast.features.secrets.model import Secret
from holdfast.surfaces.cli.frame import Session, command, workspace_option

group = click.Group("secrets", help="Secrets: written, used, and never shown again.")

_name = click.argument("name")


@command(
    group,
    "set",
    _name,
    workspace_option,
    click.option(
        "--value", metavar="VALUE", help="The value; others on this machine may see it: prefer standard input."
    ),
    click.option(
        "--host",
        "hosts",
        metavar="HOST",
        multiple=True,
        help="Where it may go, as often as there are hosts: api.openai.com, or host:port for another port than 443. "
        "Without one it stays bound as it is, and a new secret is bound by its first use.",
    ),
    help="Set or replace a secret; its value is read from standard input.",
)
async def set_secret(
    session: Session, name: str, workspace: str | None, value: str | None, hosts: tuple[str, ...]
) -> None:
    given = value if value is not None else _value(name)
    workspace_id = await session.workspace(workspace)
    made = await session.services.secrets.set(session.principal, workspace_id, name, given, hosts or None)
    session.out.record(_row(made))


@command(group, "list", workspace_option, help="List names; values are shown nowhere.")
async def list_secrets(session: Session, workspace: str | None) -> None:
    found = await session.services.secrets.list(session.principal, await session.workspace(workspace))
    session.out.table([_row(each) for each in found], ["name", "is_set", "hosts", "updated_at", "updated_by"])


@command(group, "delete", _name, workspace_option, help="Clear a secret; again to forget its name.")
async def delete(session: Session, name: str, workspace: str | None) -> None:
    await session.services.secrets.clear(session.principal, await session.workspace(workspace), name)
    session.out.record({"name": name, "cleared": True})


@command(
    group,
    "rekey",
    click.option("--new-key", type=click.File(), metavar="FILE"),
    help="Seal every secret under a new master key: a fresh one, or the 64 hexadecimal digits in FILE.",
)
async def rekey(session: Session, new_key: TextIO | None) -> None:
    new = None if new_key is None else new_key.read()
    count = await session.services.secrets.change_master_key(session.principal, new)
    lines = [f"{count} secrets are sealed under the new master key."]
    if new_key is not None:
        lines.append("Put it into WORKSPACE_SECRETS_MASTER_KEY now and start the server again.")
    session.out.record({"secrets": count}, lines)


def _value(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Value of {name}", hide_input=True))
    value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise Invalid(f"Write the value to standard input, such as: printf %s … | holdfast secrets set {name}")
    return value


def _row(secret: Secret) -> dict[str, Any]:
    return {
        "name": secret.name,
        "workspace_id": secret.workspace_id,
        "is_set": secret.is_set,
        "hosts": list(secret.hosts),
        "created_at": iso(secret.created_at),
        "updated_at": iso(secret.updated_at),
        "updated_by": secret.updated_by,
    }
