"""Owns `/api/keys`: API keys, whose secret is answered once."""

from typing import Any, Literal

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.clock import iso, iso_or_none, parse_time
from holdfast.core.ids import workspace_id_of
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.core.principal import Scope, Tier
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.model import ApiKey, MintedKey, NewKey

_MANAGE = Access("project", "management", role="admin")


class KeyView(Model):
    id: str
    kind: Literal["project", "organization"]
    project_id: str | None
    name: str
    prefix: str
    scopes: list[str]
    tier: Tier
    workspace_ids: list[str] | None
    allow_destructive: bool
    catalog_search: bool
    created_by: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None


class MintedKeyView(KeyView):
    key: str = Field(description="The key itself, shown this once")


class NewKeyBody(Model):
    name: str = Field(min_length=1, max_length=120)
    kind: Literal["project", "organization"] = "project"
    project_id: str | None = None
    scopes: list[Scope] = Field(default=["inference"], min_length=1, max_length=3)
    tier: Tier = "all"
    workspace_ids: list[str] | None = Field(default=None, max_length=1000)
    allow_destructive: bool = False
    catalog_search: bool = Field(default=False, description="Show find_tool and call_tool instead of every tool")
    expires_at: str | None = Field(default=None, description="ISO 8601")
    rotate: bool = Field(default=False, description="Revoke every active key of the same name")


class ChangedKey(Model):
    tier: Tier | None = None
    scopes: list[Scope] | None = Field(default=None, min_length=1, max_length=3)
    allow_destructive: bool | None = None
    catalog_search: bool | None = None


class KeyQuery(PageQuery):
    project_id: str | None = None


def operations(keys: Keys) -> list[Operation]:
    """Everything served here."""

    async def list_keys(call: Call) -> Page[KeyView]:
        query: KeyQuery = call.query
        found = await keys.list(call.principal, project_id=query.project_id, limit=query.limit, cursor=query.cursor)
        return found.map(view)

    async def create(call: Call) -> MintedKeyView:
        body: NewKeyBody = call.body
        wanted = NewKey(
            name=body.name,
            kind=body.kind,
            project_id=body.project_id,
            scopes=frozenset(body.scopes),
            tier=body.tier,
            workspace_ids=_workspaces(body.workspace_ids),
            allow_destructive=body.allow_destructive,
            catalog_search=body.catalog_search,
            expires_at=None if body.expires_at is None else parse_time(body.expires_at, "expires_at"),
        )
        make = keys.rotate if body.rotate else keys.create
        return _minted(await make(call.principal, wanted))

    async def get(call: Call) -> KeyView:
        return view(await keys.get(call.principal, call.path["key_id"]))

    async def update(call: Call) -> KeyView:
        body: ChangedKey = call.body
        changed = await keys.update(
            call.principal,
            call.path["key_id"],
            tier=body.tier,
            scopes=None if body.scopes is None else frozenset(body.scopes),
            allow_destructive=body.allow_destructive,
            catalog_search=body.catalog_search,
        )
        return view(changed)

    async def rotate(call: Call) -> MintedKeyView:
        return _minted(await keys.rotate_in_place(call.principal, call.path["key_id"]))

    async def revoke(call: Call) -> KeyView:
        return view(await keys.revoke(call.principal, call.path["key_id"]))

    every, one = "/api/keys", "/api/keys/{key_id}"
    return [
        Operation(
            method="GET",
            path=every,
            handler=list_keys,
            tag="keys",
            access=_MANAGE,
            query=KeyQuery,
            answer=KeyView,
            paged=True,
            summary="Keys, revoked ones included",
        ),
        Operation(
            method="POST",
            path=every,
            handler=create,
            tag="keys",
            access=_MANAGE,
            body=NewKeyBody,
            answer=MintedKeyView,
            status=201,
            shows_secret=True,
            summary="Make a key; its secret is answered once",
        ),
        Operation(
            method="GET",
            path=one,
            handler=get,
            tag="keys",
            access=_MANAGE,
            answer=KeyView,
            summary="One key",
        ),
        Operation(
            method="PATCH",
            path=one,
            handler=update,
            tag="keys",
            access=_MANAGE,
            body=ChangedKey,
            answer=KeyView,
            summary="Change what a key may do",
        ),
        Operation(
            method="POST",
            path=one + "/rotate",
            handler=rotate,
            tag="keys",
            access=_MANAGE,
            answer=MintedKeyView,
            status=201,
            shows_secret=True,
            summary="Replace a key and its namesakes by a fresh one",
        ),
        Operation(
            method="DELETE",
            path=one,
            handler=revoke,
            tag="keys",
            access=_MANAGE,
            answer=KeyView,
            summary="Revoke a key",
        ),
    ]


def view(key: ApiKey) -> KeyView:
    """A key as the API shows it."""
    return KeyView(**_fields(key))


def _minted(minted: MintedKey) -> MintedKeyView:
    return MintedKeyView(**_fields(minted.key), key=minted.secret)


def _fields(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "kind": key.kind,
        "project_id": key.project_id,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": sorted(key.scopes),
        "tier": key.tier,
        "workspace_ids": None if key.workspace_ids is None else sorted(key.workspace_ids),
        "allow_destructive": key.allow_destructive,
        "catalog_search": key.catalog_search,
        "created_by": key.created_by,
        "created_at": iso(key.created_at),
        "expires_at": iso_or_none(key.expires_at),
        "last_used_at": iso_or_none(key.last_used_at),
        "revoked_at": iso_or_none(key.revoked_at),
    }


def _workspaces(named: list[str] | None) -> frozenset[str] | None:
    """Either spelling of a workspace is taken; the key remembers the ids."""
    return None if named is None else frozenset(workspace_id_of(name) or name for name in named)
