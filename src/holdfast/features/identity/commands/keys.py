"""Owns `holdfast keys`."""

from typing import Annotated, Any, Literal, cast

from pydantic import Field

from holdfast.core.commands import Argument, Commands, Deadline, Given, Named, Option, Session
from holdfast.core.errors import Invalid
from holdfast.core.principal import SCOPES, Scope, Tier
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.model import ApiKey, MintedKey, NewKey
from holdfast.features.identity.operations.keys import KeyAnswer
from holdfast.features.identity.service import Identity

keys = Commands("keys", help="API keys: make, list, rotate and revoke them.")


class Wanted(Named):
    """The key that `create` and `rotate` make. Its name says what it is for; rotation goes by it."""

    tier: Tier = Field("all", description="How much of the tool catalog it sees.")
    scopes: str = Field("inference", description=f"Comma-separated, from {', '.join(SCOPES)}.")
    workspaces: Annotated[list[str], Option("--workspace", metavar="WS")] = Field(
        [], description="Confine it to workspaces (repeatable)."
    )
    allow_destructive: bool = Field(False, description="Let it use destructive tools.")
    find_tools: bool = Field(False, description="Show find_tool and call_tool instead of every tool.")
    kind: Literal["project", "organization"] = "project"
    project: Annotated[str | None, Option(metavar="P")] = Field(
        None, description="The project (the first one where absent)."
    )
    expires: Deadline = Field(None, description="When it stops working, such as 2027-01-31 or 90d.")

    async def key(self, session: Session, identity: Identity) -> NewKey:
        """The same for the service."""
        workspaces = [await session.workspace(named) for named in self.workspaces]
        project_id = await first_project(session, identity, self.project) if self.kind == "project" else self.project
        # The service says which scopes there are.
        scopes = cast(frozenset[Scope], frozenset(filter(None, map(str.strip, self.scopes.split(",")))))
        return NewKey(
            name=self.its_name,
            kind=self.kind,
            project_id=project_id,
            scopes=scopes,
            tier=self.tier,
            workspace_ids=frozenset(workspaces) if workspaces else None,
            allow_destructive=self.allow_destructive,
            catalog_search=self.find_tools,
            expires_at=self.expires,
        )


@keys.command("create", help="Make a key and print it, this once.", begins_store=True)
async def create(session: Session, keyring: Keys, identity: Identity, given: Wanted) -> None:
    _show_minted(session, await keyring.create(session.principal, await given.key(session, identity)))


@keys.command(
    "rotate", help="Make a fresh key and revoke every active key of the same name, in one step.", begins_store=True
)
async def rotate(session: Session, keyring: Keys, identity: Identity, given: Wanted) -> None:
    _show_minted(session, await keyring.rotate(session.principal, await given.key(session, identity)))


@keys.command("list", help="List keys, revoked ones included; secrets are kept nowhere.")
async def list_keys(session: Session, keyring: Keys) -> None:
    rows = []
    cursor = None
    while True:
        page = await keyring.list(session.principal, limit=200, cursor=cursor)
        rows += [_row(key) for key in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    columns = ["key_id", "name", "prefix", "scopes", "tier", "last_used_at", "expires_at", "revoked_at"]
    session.out.table(rows, columns)


class OneKey(Given):
    """What `revoke` is given."""

    key_id: Annotated[str, Argument()]


@keys.command("revoke", help="Stop a key at once.")
async def revoke(session: Session, keyring: Keys, given: OneKey) -> None:
    session.out.record(_row(await keyring.revoke(session.principal, given.key_id)))


async def first_project(session: Session, identity: Identity, named: str | None) -> str:
    """The project that was named, or the first one."""
    if named is not None:
        return await identity.project_id(session.principal, named)
    projects = await identity.projects(session.principal, limit=1)
    if not projects.items:
        raise Invalid("There is no project; make one with `holdfast projects create --name NAME`.")
    return projects.items[0].id


def _show_minted(session: Session, minted: MintedKey) -> None:
    lines = [f"{minted.secret}", "Keep it now: it is shown this once."]
    session.out.record({"key": minted.secret, **_row(minted.key)}, lines)


def _row(key: ApiKey) -> dict[str, Any]:
    # CONTRACT.md pins the name of the id here.
    return {"key_id": key.id, **KeyAnswer.of(key).model_dump()}
