"""Owns `holdfast keys`."""

from typing import Any

import click

from holdfast.core.clock import iso_or_none, parse_time
from holdfast.core.errors import Invalid
from holdfast.core.principal import SCOPES, TIERS
from holdfast.features.identity.model import ApiKey, MintedKey, NewKey
from holdfast.surfaces.cli.frame import Session, command

group = click.Group("keys", help="API keys: make, list, rotate and revoke them.")

_CREATE = (
    click.option("--name", required=True, help="What the key is for; rotation goes by it."),
    click.option("--tier", type=click.Choice(TIERS), default="all", help="How much of the tool catalog it sees."),
    click.option("--scopes", default="inference", help=f"Comma-separated, from {', '.join(SCOPES)}."),
    click.option(
        "--workspace", "workspaces", multiple=True, metavar="WS", help="Confine it to workspaces (repeatable)."
    ),
    click.option("--allow-destructive", is_flag=True, help="Let it use destructive tools."),
    click.option("--find-tools", is_flag=True, help="Show find_tool and call_tool instead of every tool."),
    click.option("--kind", type=click.Choice(["project", "organization"]), default="project"),
    click.option("--project", metavar="P", help="The project (the first one where absent)."),
    click.option("--expires", metavar="TIME", help="When it stops working, such as 2027-01-31."),
)


@command(group, "create", *_CREATE, help="Make a key and print it, this once.")
async def create(session: Session, **asked: Any) -> None:
    minted = await session.services.keys.create(session.principal, await _new_key(session, asked))
    _show_minted(session, minted)


@command(group, "rotate", *_CREATE, help="Make a fresh key and revoke every active key of the same name, in one step.")
async def rotate(session: Session, **asked: Any) -> None:
    minted = await session.services.keys.rotate(session.principal, await _new_key(session, asked))
    _show_minted(session, minted)


@command(group, "list", help="List keys, revoked ones included; secrets are kept nowhere.")
async def list_keys(session: Session) -> None:
    rows = []
    cursor = None
    while True:
        page = await session.services.keys.list(session.principal, limit=200, cursor=cursor)
        rows += [_row(key) for key in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    columns = ["key_id", "name", "prefix", "scopes", "tier", "last_used_at", "expires_at", "revoked_at"]
    session.out.table(rows, columns)


@command(group, "revoke", click.argument("key_id"), help="Stop a key at once.")
async def revoke(session: Session, key_id: str) -> None:
    session.out.record(_row(await session.services.keys.revoke(session.principal, key_id)))


async def _new_key(session: Session, asked: dict[str, Any]) -> NewKey:
    scopes = frozenset(scope.strip() for scope in asked["scopes"].split(",") if scope.strip())
    project_id = asked["project"]
    if asked["kind"] == "project" and project_id is None:
        projects = await session.services.identity.projects(session.principal, limit=1)
        if not projects.items:
            raise Invalid("There is no project; make one with `holdfast projects create --name NAME`.")
        project_id = projects.items[0].id
    workspaces = [await session.workspace(named) for named in asked["workspaces"]]
    return NewKey(
        name=asked["name"],
        kind=asked["kind"],
        project_id=project_id,
        scopes=scopes,
        tier=asked["tier"],
        workspace_ids=frozenset(workspaces) if workspaces else None,
        allow_destructive=asked["allow_destructive"],
        catalog_search=asked["find_tools"],
        expires_at=None if asked["expires"] is None else parse_time(asked["expires"], "--expires"),
    )


def _show_minted(session: Session, minted: MintedKey) -> None:
    lines = [f"{minted.secret}", "Keep it now: it is shown this once."]
    session.out.record({"key": minted.secret, **_row(minted.key)}, lines)


def _row(key: ApiKey) -> dict[str, Any]:
    return {
        "key_id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "kind": key.kind,
        "project_id": key.project_id,
        "scopes": sorted(key.scopes),
        "tier": key.tier,
        "workspace_ids": None if key.workspace_ids is None else sorted(key.workspace_ids),
        "allow_destructive": key.allow_destructive,
        "created_at": iso_or_none(key.created_at),
        "expires_at": iso_or_none(key.expires_at),
        "last_used_at": iso_or_none(key.last_used_at),
        "revoked_at": iso_or_none(key.revoked_at),
    }
