"""Owns `/api/keys`: API keys, whose secret is answered once."""

from pydantic import Field

from holdfast.core.access import Access
from holdfast.core.model import Answer, Deadline, Model, PageQuery, Sorted, Time, WorkspaceId
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal, Scope, Tier
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.model import KeyKind, NewKey
from holdfast.features.identity.service import Identity

_BASE = "/api/keys"
_ONE = _BASE + "/{key_id}"
_MANAGE = Access("project", "management", role="admin")

api = Operations("keys")


class KeyAnswer(Answer):
    id: str
    kind: KeyKind
    project_id: str | None
    name: str
    prefix: str
    scopes: Sorted
    tier: Tier
    workspace_ids: Sorted | None
    allow_destructive: bool
    catalog_search: bool
    created_by: str
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None
    revoked_at: Time | None


class MintedKeyAnswer(KeyAnswer):
    key: str = Field(description="The key itself, shown this once")


class KeyBody(Model):
    name: str = Field(min_length=1, max_length=120)
    kind: KeyKind = "project"
    project_id: str | None = None
    scopes: list[Scope] = Field(default=["inference"], min_length=1, max_length=3)
    tier: Tier = "all"
    workspace_ids: list[WorkspaceId] | None = Field(default=None, max_length=1000)
    allow_destructive: bool = False
    catalog_search: bool = Field(default=False, description="Show find_tool and call_tool instead of every tool")
    expires_at: Deadline = Field(default=None, description="ISO 8601, or 90d for so long from now")
    rotate: bool = Field(default=False, description="Revoke every active key of the same name")


class KeyChangeBody(Model):
    tier: Tier | None = None
    scopes: list[Scope] | None = Field(default=None, min_length=1, max_length=3)
    allow_destructive: bool | None = None
    catalog_search: bool | None = None


class KeyQuery(PageQuery):
    project_id: str | None = None


@api.get(_BASE, _MANAGE, "Keys, revoked ones included")
async def page(keys: Keys, identity: Identity, principal: Principal, query: KeyQuery) -> Page[KeyAnswer]:
    project = query.project_id and await identity.project_id(principal, query.project_id)
    found = await keys.list(principal, project_id=project, limit=query.limit, cursor=query.cursor)
    return found.map(KeyAnswer.of)


@api.post(_BASE, _MANAGE, "Make a key; its secret is answered once", status=201, shows_secret=True)
async def create(keys: Keys, identity: Identity, principal: Principal, body: KeyBody) -> MintedKeyAnswer:
    workspaces = None if body.workspace_ids is None else frozenset(body.workspace_ids)
    project = body.project_id and await identity.project_id(principal, body.project_id)
    wanted = body.into(NewKey, scopes=frozenset(body.scopes), workspace_ids=workspaces, project_id=project)
    made = await (keys.rotate if body.rotate else keys.create)(principal, wanted)
    return MintedKeyAnswer.of(made.key, key=made.secret)


@api.get(_ONE, _MANAGE, "One key")
async def get(keys: Keys, principal: Principal, key_id: str) -> KeyAnswer:
    return KeyAnswer.of(await keys.get(principal, key_id))


@api.patch(_ONE, _MANAGE, "Change what a key may do")
async def update(keys: Keys, principal: Principal, key_id: str, body: KeyChangeBody) -> KeyAnswer:
    changed = await keys.update(
        principal,
        key_id,
        tier=body.tier,
        scopes=None if body.scopes is None else frozenset(body.scopes),
        allow_destructive=body.allow_destructive,
        catalog_search=body.catalog_search,
    )
    return KeyAnswer.of(changed)


@api.post(_ONE + "/rotate", _MANAGE, "Replace a key and its namesakes by a fresh one", status=201, shows_secret=True)
async def rotate(keys: Keys, principal: Principal, key_id: str) -> MintedKeyAnswer:
    made = await keys.rotate_in_place(principal, key_id)
    return MintedKeyAnswer.of(made.key, key=made.secret)


@api.delete(_ONE, _MANAGE, "Revoke a key")
async def revoke(keys: Keys, principal: Principal, key_id: str) -> KeyAnswer:
    return KeyAnswer.of(await keys.revoke(principal, key_id))
