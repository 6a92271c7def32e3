"""Owns `holdfast secrets`."""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.core.commands import Argument, Commands, Given, InWorkspace, Option, Session
from holdfast.core.errors import Invalid
from holdfast.core.text.counting import many
from holdfast.features.secrets.moving import SecretStores
from holdfast.features.secrets.operations import SecretAnswer
from holdfast.features.secrets.service import Secrets

secrets = Commands("secrets", help="Secrets: written, used, and never shown again.")


class Named(InWorkspace):
    """A secret that is named."""

    name: Annotated[str, Argument()]


class Set(Named):
    """What `set` is given."""

    value: Annotated[str | None, Option(metavar="VALUE")] = Field(
        None, description="The value; others on this machine may see it: prefer standard input."
    )
    hosts: Annotated[list[str], Option("--host", metavar="HOST")] = Field(
        [],
        description="Where it may go, as often as there are hosts: api.openai.com, or host:port for another port than "
        "443. Without one it stays bound as it is, and a new secret is bound by its first use.",
    )


@secrets.command("set", help="Set or replace a secret; its value is read from standard input.", begins_store=True)
async def set_secret(session: Session, service: Secrets, given: Set) -> None:
    value = given.value if given.value is not None else _value(session, given.name)
    workspace_id = await session.workspace(given.workspace)
    made = await service.set(session.principal, workspace_id, given.name, value, tuple(given.hosts) or None)
    session.out.record(SecretAnswer.of(made))


@secrets.command("list", help="List names; values are shown nowhere.")
async def list_secrets(session: Session, service: Secrets, given: InWorkspace) -> None:
    found = await service.list(session.principal, await session.workspace(given.workspace))
    session.out.table(map(SecretAnswer.of, found), ["name", "is_set", "hosts", "updated_at", "updated_by"])


@secrets.command("delete", help="Clear a secret; again to forget its name.")
async def delete(session: Session, service: Secrets, given: Named) -> None:
    await service.clear(session.principal, await session.workspace(given.workspace), given.name)
    session.out.record({"name": given.name, "cleared": True})


class Rekey(Given):
    """What `rekey` is given."""

    new_key: Annotated[str | None, Option(metavar="FILE", reads="file")] = None


@secrets.command(
    "rekey", help="Seal every secret under a new master key: a fresh one, or the 64 hexadecimal digits in FILE."
)
async def rekey(session: Session, service: Secrets, given: Rekey) -> None:
    count = await service.change_master_key(session.principal, given.new_key)
    lines = [f"{many(count, 'secret')} {'is' if count == 1 else 'are'} sealed under the new master key."]
    if given.new_key is not None:
        lines.append("Put it into WORKSPACE_SECRETS_MASTER_KEY now and start the server again.")
    session.out.record({"secrets": count}, lines)


class Copy(Given):
    """What `copy` is given."""

    to: Annotated[Literal["database", "kubernetes"], Option("--to")] = Field(description="The store to copy into")


@secrets.command("copy", help="Copy every value into the database, or into the cluster; the other store keeps it.")
async def copy(session: Session, stores: SecretStores, given: Copy) -> None:
    count = await stores.copy(session.principal, given.to)
    session.out.record({"copied": count, "to": given.to})


@secrets.command("verify", help="Check that each store of HOLDFAST_SECRETS_STORE has every value; none is shown.")
async def verify(session: Session, stores: SecretStores, given: Given) -> None:
    session.out.record({"verified": await stores.verify(session.principal)})


class Drop(Given):
    """What `drop` is given."""

    from_: Annotated[Literal["database", "kubernetes"], Option("--from")] = Field(description="The store to empty")


@secrets.command("drop", help="Forget the values in the store that is used no more, if the other has all of them.")
async def drop(session: Session, stores: SecretStores, given: Drop) -> None:
    count = await stores.drop(session.principal, given.from_)
    session.out.record({"dropped": count, "from": given.from_})


def _value(session: Session, name: str) -> str:
    value = session.out.ask_unseen(f"Value of {name}").removesuffix("\n").removesuffix("\r")
    if not value:
        raise Invalid(f"Write the value to standard input, such as: `printf %s VALUE | holdfast secrets set {name}`.")
    return value
