"""Owns the rules of secrets: who writes them, that nobody reads them back, and how the master key is changed."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.engines.master_key import KeyRing, MasterKey
from holdfast.features.audit.service import Audit
from holdfast.features.secrets import store
from holdfast.features.secrets.model import Secret, SecretNotFound, SecretNotSet, checked_name, checked_value
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx


class Secrets:
    """The one store of secrets. No public method answers a value; `reveal` is for the features that use them."""

    def __init__(self, database: Database, audit: Audit, workspaces: Workspaces, keys: KeyRing, clock: Clock) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._keys = keys
        self._clock = clock
        self._changes = 0

    @property
    def changes(self) -> int:
        """Grows with each change that this process made."""
        return self._changes

    def _changed(self) -> None:
        self._changes += 1

    async def list(self, principal: Principal, workspace_id: str) -> Sequence[Secret]:
        """Names and history, by name."""
        principal.require_any("management", "read", "inference")

        def work(tx: Tx) -> Sequence[Secret]:
            return store.all_in(tx, self._workspaces.check(tx, principal, workspace_id).id)

        return await self._database.read(work)

    async def set(self, principal: Principal, workspace_id: str, name: str, value: str) -> Secret:
        """Keep a value under a name, in place of an earlier one."""
        current = await asyncio.to_thread(self._keys.current)

        def work(tx: Tx) -> Secret:
            workspace = self._workspaces.administered(tx, principal, workspace_id)
            checked_value(value)
            key = self._key(tx, current)
            now = self._clock.now()
            found = store.find(tx, workspace.id, checked_name(name))
            old = found or Secret(new_id("sec"), workspace.id, name, False, now, now, principal.actor)
            # Whoever remembers a value goes by this moment, so no two values may share one.
            moment = now if found is None else max(now, found.updated_at + 1)
            new = replace(old, is_set=True, updated_at=moment, updated_by=principal.actor)
            store.put(tx, new, key.seal(value, _bound_to(new)))
            self._record(tx, principal, "replaced" if old.is_set else "set", new)
            return new

        return await self._database.write(work)

    async def clear(self, principal: Principal, workspace_id: str, name: str) -> None:
        """Forget the value; forget the name of one that has no value."""

        def work(tx: Tx) -> None:
            workspace = self._workspaces.administered(tx, principal, workspace_id)
            found = store.find(tx, workspace.id, name)
            if found is None:
                raise SecretNotFound(name)
            if found.is_set:
                store.clear(tx, found.id, max(self._clock.now(), found.updated_at + 1), principal.actor)
            else:
                store.delete(tx, found.id)
            self._record(tx, principal, "cleared", found)

        await self._database.write(work)

    def find(self, tx: Tx, workspace_id: str, name: str) -> Secret | None:
        """A secret's metadata, for whoever refers to it by name."""
        return store.find(tx, workspace_id, name)

    def reveal(self, tx: Tx, workspace_id: str, name: str) -> str:
        """The value, for a feature that uses it on the workspace's behalf; never for an answer."""
        found = store.find(tx, workspace_id, name)
        sealed = None if found is None else store.sealed(tx, found.id)
        if found is None or sealed is None:
            raise SecretNotSet(name)
        return self._keys.named(sealed.key_id).open(sealed, _bound_to(found))

    async def change_master_key(self, principal: Principal, new: str | None = None) -> int:
        """Seal every value anew: under the given key, or under a fresh one in the data directory. How many there were.

        Killed at any moment, each value still opens: the new key is on the disk before the first row uses it.
        """
        principal.require("management")
        principal.require_role("owner")
        if new is None and self._keys.is_configured:
            raise Conflict(
                "The master key is in WORKSPACE_SECRETS_MASTER_KEY: write the new one to a file and say "
                "--new-key FILE; then put it into the variable and start again."
            )
        if new is not None:
            key = MasterKey(new)
            return await self._database.write(lambda tx: self._reseal(tx, principal, key, keep=True))
        with self._keys.changing():
            fresh = await asyncio.to_thread(self._keys.prepare)
            count = await self._database.write(lambda tx: self._reseal(tx, principal, fresh, keep=False))
            await asyncio.to_thread(self._keys.adopt)
        return count

    def _reseal(self, tx: Tx, principal: Principal, key: MasterKey, *, keep: bool) -> int:
        # Servers that get the new key by a variable have the old one until they start again.
        self._audit.reseal(tx, key, keep=keep)
        rows = store.every_sealed(tx)
        for secret, sealed in rows:
            value = self._keys.named(sealed.key_id).open(sealed, _bound_to(secret))
            store.reseal(tx, secret.id, key.seal(value, _bound_to(secret)))
        self._audit.record(
            tx,
            principal,
            "secrets.master_key.changed",
            resource="master_key",
            resource_id=key.id,
            detail={"secrets": len(rows)},
        )
        return len(rows)

    def _key(self, tx: Tx, current: MasterKey) -> MasterKey:
        other = store.other_key(tx, current.id)
        # A second key would leave secrets that only one of two servers can open.
        return current if other is None else self._keys.named(other)

    def _record(self, tx: Tx, principal: Principal, action: str, secret: Secret) -> None:
        tx.after_commit(self._changed)
        self._audit.record(
            tx,
            principal,
            f"workspace.secret.{action}",
            resource="secret",
            resource_id=secret.id,
            workspace_id=secret.workspace_id,
            detail={"name": secret.name},
        )


def _bound_to(secret: Secret) -> str:
    # A value copied to another row, workspace or name does not open there.
    return f"{secret.id} {secret.workspace_id} {secret.name}"
