"""Owns API keys: minting, checking, changing, rotating and revoking them."""

import asyncio
import builtins
import contextlib
import hashlib
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

from holdfast.core.authority import Authority, authority_of, check_hands_out
from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid, NotFound, Unauthenticated
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import SCOPES, TIERS, Principal, Scope, Tier
from holdfast.engines.events.bus import EventBus
from holdfast.features.audit.service import Audit
from holdfast.features.identity import store
from holdfast.features.identity.keys import store as key_store
from holdfast.features.identity.model import ApiKey, MintedKey, NewKey
from holdfast.features.identity.service import require_management
from holdfast.features.identity.standing import as_it_stands, principal_of
from holdfast.storage.database import Database, Tx
from holdfast.storage.remembered import Remembered

MAX_KEY_LENGTH = 200
MAX_NAME = 120
_SHAPE = re.compile(r"xero_[0-9a-f]{32}_[A-Za-z0-9_-]{43}|ks_live_[0-9a-f]{64}")
_TOUCH_MILLIS = 60_000
FLUSH_SECONDS = 5


def digest(secret: str) -> bytes:
    """What is kept of a key. A key has 256 random bits, so one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).digest()


class WorkspaceIds(Protocol):
    """The ids behind ids and slugs, of those that are workspaces of the organization and, if named, of the project."""

    def __call__(
        self, tx: Tx, organization_id: str, project_id: str | None, names: frozenset[str], /
    ) -> Mapping[str, str]: ...


class Keys:
    """The one key store behind every surface."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        clock: Clock,
        workspace_ids: WorkspaceIds,
        events: EventBus,
    ) -> None:
        self._database = database
        self._audit = audit
        self._clock = clock
        self._workspace_ids = workspace_ids
        self._events = events
        self._used: dict[str, int] = {}
        self._remembered: Remembered[bytes, tuple[ApiKey, Principal]] = Remembered(database)
        self._stopping = False
        self._waking = asyncio.Event()

    async def authenticate(self, secret: str) -> Principal:
        """Who holds this key; Unauthenticated with one text for every way a key can be wrong."""
        if len(secret) > MAX_KEY_LENGTH or _SHAPE.fullmatch(secret) is None:
            raise Unauthenticated
        hashed = digest(secret)
        found, principal = await self._remembered.get(hashed, lambda tx: _known(tx, hashed))
        now = self._clock.now()
        if found.revoked_at is not None or (found.expires_at is not None and found.expires_at <= now):
            raise Unauthenticated
        if now - (found.last_used_at or 0) > _TOUCH_MILLIS:
            if found.last_used_at is None and found.id not in self._used:
                # Somebody may wait to see that the client they connected calls.
                self._waking.set()
            self._used[found.id] = now
        return principal

    async def run(self) -> None:
        """Write down now and then when keys were last used, until `stop`."""
        while not self._stopping:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._waking.wait(), FLUSH_SECONDS)
            self._waking.clear()
            await self.flush_last_used()

    async def stop(self) -> None:
        """End `run` after a last flush."""
        self._stopping = True
        self._waking.set()

    async def flush_last_used(self) -> None:
        """Write down when keys were last used; called now and then, not per request."""
        used, self._used = self._used, {}
        if used:
            await self._database.write(lambda tx: self._touch(tx, used))

    def _touch(self, tx: Tx, used: dict[str, int]) -> None:
        """Note the moments, and tell the workspaces that a key is for when it is used for the first time."""
        unused = key_store.never_used(tx, sorted(used))
        key_store.touch(tx, used)
        for key in unused:
            for workspace_id in sorted(key.workspace_ids or ()):
                self._events.publish(tx, "key.connected", {"key_id": key.id}, workspace_id=workspace_id)

    async def list(
        self, principal: Principal, *, project_id: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[ApiKey]:
        """Keys, revoked ones included, oldest first."""
        require_management(principal)
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""
        project = project_id or principal.project_id

        def work(tx: Tx) -> Page[ApiKey]:
            if project is not None:
                self._check_project(tx, principal, project)
            rows = key_store.page(tx, principal.organization_id, project, after, limit + 1)
            return page_of(rows, limit, lambda key: [key.id])

        return await self._database.read(work)

    async def working(self, principal: Principal, project_id: str, names: Collection[str]) -> "builtins.list[ApiKey]":
        """A project's keys of these names that were not revoked."""
        require_management(principal)

        def work(tx: Tx) -> "builtins.list[ApiKey]":
            self._check_project(tx, principal, project_id)
            return key_store.working(tx, principal.organization_id, project_id, names)

        return await self._database.read(work)

    async def ending(self, principal: Principal, *, since: int, until: int, limit: int) -> "builtins.list[ApiKey]":
        """Keys that end between two moments, the first to end first."""
        require_management(principal)
        project = principal.project_id
        return await self._database.read(
            lambda tx: key_store.ending(tx, principal.organization_id, project, since, until, limit)
        )

    async def get(self, principal: Principal, key_id: str) -> ApiKey:
        """One key."""
        require_management(principal)
        return await self._database.read(lambda tx: self._find(tx, principal, key_id))

    async def create(self, principal: Principal, new: NewKey) -> MintedKey:
        """A fresh key, shown this once."""
        require_management(principal)
        self._check(new)

        def work(tx: Tx) -> MintedKey:
            minted = self.mint(tx, principal, new)
            self._record(tx, principal, "key.create", minted.key)
            return minted

        return await self._database.write(work)

    async def rotate(self, principal: Principal, new: NewKey) -> MintedKey:
        """A fresh key in place of every active one of that name, in one transaction."""
        require_management(principal)
        self._check(new)
        return await self._database.write(lambda tx: self._rotate(tx, principal, new))

    async def rotate_in_place(self, principal: Principal, key_id: str) -> MintedKey:
        """A fresh secret for what this key may do; it and its namesakes stop working."""
        require_management(principal)

        def work(tx: Tx) -> MintedKey:
            store.lock_organization(tx, principal.organization_id)
            old = self._find(tx, principal, key_id)
            if old.revoked_at is not None:
                raise Conflict("The key is revoked; create a new one instead of rotating it.")
            new = NewKey(
                name=old.name,
                kind=old.kind,
                project_id=old.project_id,
                scopes=old.scopes,
                tier=old.tier,
                workspace_ids=old.workspace_ids,
                allow_destructive=old.allow_destructive,
                catalog_search=old.catalog_search,
                expires_at=old.expires_at,
            )
            self._check(new)
            return self._rotate(tx, principal, new)

        return await self._database.write(work)

    async def revoke(self, principal: Principal, key_id: str) -> ApiKey:
        """Stop a key at once; revoking it again changes nothing. One that may do more is not theirs to stop."""
        require_management(principal)

        def work(tx: Tx) -> ApiKey:
            found = self._find(tx, principal, key_id)
            if found.revoked_at is None:
                _check_may_stop(as_it_stands(tx, principal, self._clock.now()), found)
                key_store.revoke(tx, found.id, self._clock.now())
                self._record(tx, principal, "key.revoke", found)
            return self._find(tx, principal, key_id)

        return await self._database.write(work)

    async def update(
        self,
        principal: Principal,
        key_id: str,
        *,
        tier: Tier | None = None,
        scopes: frozenset[Scope] | None = None,
        allow_destructive: bool | None = None,
        catalog_search: bool | None = None,
    ) -> ApiKey:
        """Change what a key may do without changing its secret."""
        require_management(principal)

        def work(tx: Tx) -> ApiKey:
            giver = as_it_stands(tx, principal, self._clock.now())
            found = self._find(tx, giver, key_id)
            # Also as it was: whoever narrows a key that may do more takes something from its bearer.
            check_hands_out(giver, _authority(found), "a key")
            changed = replace(
                found,
                tier=tier or found.tier,
                scopes=scopes or found.scopes,
                allow_destructive=found.allow_destructive if allow_destructive is None else allow_destructive,
                catalog_search=found.catalog_search if catalog_search is None else catalog_search,
            )
            check_hands_out(giver, _authority(changed), "a key")
            key_store.update(tx, changed)
            self._record(tx, principal, "key.update", changed)
            return changed

        return await self._database.write(work)

    def mint(self, tx: Tx, principal: Principal, new: NewKey) -> MintedKey:
        """Insert a key for a request whose fields were checked; here is the one place where keys come from."""
        project_id = (new.project_id or principal.project_id) if new.kind == "project" else None
        if new.kind == "project":
            if project_id is None:
                raise Invalid("A project key needs a project.", fields=[FieldError("project_id", "name the project")])
            self._check_project(tx, principal, project_id)
        if project_id is None:
            secret = f"ks_live_{secrets.token_hex(32)}"
            prefix = secret[:16]
        else:
            secret = f"xero_{project_id.removeprefix('proj_')}_{secrets.token_urlsafe(32)}"
            prefix = secret[:44]
        named = new.workspace_ids
        known = self._workspace_ids(tx, principal.organization_id, project_id, named or frozenset())
        key = ApiKey(
            id=new_id("key"),
            organization_id=principal.organization_id,
            project_id=project_id,
            name=new.name,
            prefix=prefix,
            scopes=new.scopes,
            tier=new.tier,
            workspace_ids=None if named is None else frozenset(known.get(name, name) for name in named),
            allow_destructive=new.allow_destructive,
            catalog_search=new.catalog_search,
            created_by=principal.actor,
            created_at=self._clock.now(),
            expires_at=new.expires_at,
            last_used_at=None,
            revoked_at=None,
        )
        check_hands_out(as_it_stands(tx, principal, self._clock.now()), _authority(key), "a key")
        missing = sorted((named or frozenset()) - known.keys())
        if missing:
            raise NotFound("workspace", missing[0])
        key_store.insert(tx, key, digest(secret))
        return MintedKey(key, secret)

    def forget(self, tx: Tx, organization_id: str, key_id: str) -> None:
        """End a key that the server made for something of its own; nobody looks for it in a list of keys later."""
        key_store.delete(tx, organization_id, key_id)

    def _rotate(self, tx: Tx, principal: Principal, new: NewKey) -> MintedKey:
        # Without the lock two processes would each miss the other's fresh key and leave both active.
        store.lock_organization(tx, principal.organization_id)
        project_id = (new.project_id or principal.project_id) if new.kind == "project" else None
        namesakes = key_store.active_named(tx, principal.organization_id, project_id, new.name)
        # First the fresh one: a key that rotates itself must still work when it asks.
        minted = self.mint(tx, principal, new)
        for old in namesakes:
            _check_may_stop(principal, old)
            key_store.revoke(tx, old.id, self._clock.now())
            self._record(tx, principal, "key.revoke", old)
        self._record(tx, principal, "key.rotate", minted.key)
        return minted

    def _find(self, tx: Tx, principal: Principal, key_id: str) -> ApiKey:
        found = key_store.find(tx, principal.organization_id, key_id)
        if found is None or (principal.project_id is not None and found.project_id != principal.project_id):
            raise NotFound("key", key_id)
        return found

    def _check(self, new: NewKey) -> None:
        problems = []
        if not new.name.strip() or len(new.name) > MAX_NAME:
            problems.append(FieldError("name", f"write 1 to {MAX_NAME} characters"))
        if not new.scopes or not new.scopes <= set(SCOPES):
            problems.append(FieldError("scopes", f"choose from {', '.join(SCOPES)}"))
        if new.tier not in TIERS:
            problems.append(FieldError("tier", f"choose from {', '.join(TIERS)}"))
        if new.expires_at is not None and new.expires_at <= self._clock.now():
            problems.append(FieldError("expires_at", "choose a moment in the future"))
        if new.kind == "organization" and (new.workspace_ids is not None or new.project_id is not None):
            problems.append(FieldError("kind", "an organization key names neither project nor workspaces"))
        if problems:
            raise Invalid("The key cannot be made.", fields=problems)

    def _check_project(self, tx: Tx, principal: Principal, project_id: str) -> None:
        seen = principal.sees_project(project_id)
        if not seen or not store.project_exists(tx, principal.organization_id, project_id):
            raise NotFound("project", project_id)

    def _record(self, tx: Tx, principal: Principal, action: str, key: ApiKey) -> None:
        detail = {"name": key.name, "prefix": key.prefix, "tier": key.tier, "scopes": sorted(key.scopes)}
        self._audit.record(tx, principal, action, resource="key", resource_id=key.id, detail=detail)


def _known(tx: Tx, hashed: bytes) -> tuple[ApiKey, Principal]:
    found = key_store.by_hash(tx, hashed)
    if found is None:
        raise Unauthenticated
    return found, principal_of(found)


def _authority(key: ApiKey) -> Authority:
    return authority_of(principal_of(key))


def _check_may_stop(principal: Principal, key: ApiKey) -> None:
    """Whoever stops a key must hold what it does, whatever their own ends may be: stopping gives nobody more time."""
    wanted = replace(_authority(key), expires_at=principal.expires_at)
    try:
        check_hands_out(principal, wanted, "a key")
    except Forbidden as refused:
        message = (
            f"The key {key.name!r} may do more than you, so it is not yours to stop; ask somebody who holds as much."
        )
        raise Forbidden(message, fields=refused.fields) from None
