"""Owns where values of secrets are: sealed in the database, as objects of a cluster, or in both."""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError
from holdfast.engines.master_key import KeyRing, MasterKey
from holdfast.engines.runtime.base import KeptAt
from holdfast.features.secrets import store
from holdfast.features.secrets.model import HandedOver, Secret, SecretGone, SecretNotSet
from holdfast.storage.database import Database, Tx, needed

if TYPE_CHECKING:
    from holdfast.engines.runtime.kubernetes.kept import KeptSecrets, KeptValue

_SETTLED_MS = 15 * 60 * 1000
"""After so long nobody is still about to refer to an object that was made for him."""

_log = logging.getLogger(__name__)


class SecretValues:
    """The values, wherever they are.

    An object in a cluster never changes: a value is written to a new one, the row is pointed at it, and the old one is
    deleted. A crash between two of these leaves an object too many, which is known by its record and swept later.
    """

    def __init__(
        self, database: Database, keys: KeyRing, clock: Clock, cluster: "Callable[[], KeptSecrets]", where: str
    ) -> None:
        self._database = database
        self._keys = keys
        self._clock = clock
        self._make = cluster
        self.in_cluster = where != "database"
        self.in_database = where != "kubernetes"
        self._stopping = asyncio.Event()

    @property
    def cluster(self) -> "KeptSecrets":
        """The cluster's."""
        return self._make()

    def keep(self, tx: Tx, old: Secret, new: Secret, value: str, key: MasterKey) -> None:
        """Keep a value in each store that new ones go to. A cluster has it before the row says so."""
        ref = uid = None
        if self.in_cluster:
            about = ("secret", "made", new.workspace_id, new.name, hashlib.sha256(value.encode()).digest())
            ref, uid = needed(tx, about, lambda: self.make(new, value))
        store.put(
            tx,
            replace(new, k8s_secret_ref=ref, k8s_secret_uid=uid),
            key.seal(value, new.bound_to) if self.in_database else None,
        )
        if old.k8s_secret_ref is not None:
            self.abandon(tx, old.k8s_secret_ref)

    async def make(self, secret: Secret, value: str) -> tuple[str, str]:
        """An object with the value: where it is, and its uid. Nobody refers to it yet."""
        ref = self.cluster.place(secret.workspace_id)
        await self._database.write(lambda tx: store.plan_object(tx, ref, self._clock.now()))
        return ref, await self.cluster.put(secret.workspace_id, ref, secret.name, value)

    def give_up(self, tx: Tx, secret: Secret) -> None:
        """The value is being forgotten: a cluster that has it must answer, or nothing is."""
        ref = secret.k8s_secret_ref
        if ref is not None:
            needed(tx, ("secret", "reached", ref), lambda: self.cluster.get(ref, secret.name))
            self.abandon(tx, ref)

    def abandon(self, tx: Tx, ref: str) -> None:
        """Nobody refers to the object any more; sweeping deletes it."""
        store.drop_object(tx, ref, self._clock.now())

    def open(self, tx: Tx, secret: Secret) -> str:
        """The value."""
        return self.opened(tx, secret).value

    def opened(self, tx: Tx, secret: Secret) -> HandedOver:
        """The value. It is read from the cluster where the cluster has it, unless the setting says the database."""
        if secret.k8s_secret_ref is None or (secret.is_sealed and not self.in_cluster):
            return HandedOver(self.unsealed(tx, secret))
        ref = secret.k8s_secret_ref
        kept = needed(tx, ("secret", "kept", ref), lambda: self._kept(ref, secret))
        if kept is not None:
            # One that somebody may change is not referred to: it may be another one when it is looked up.
            return HandedOver(kept.value, KeptAt(ref, secret.name) if kept.is_fixed else None)
        if secret.is_sealed:
            return HandedOver(self.unsealed(tx, secret))
        raise SecretGone(secret.name)

    def unsealed(self, tx: Tx, secret: Secret) -> str:
        """What the database has."""
        sealed = store.sealed(tx, secret.id)
        if sealed is None:
            raise SecretNotSet(secret.name)
        return self._keys.named(sealed.key_id).open(sealed, secret.bound_to)

    def sealed_again(self, tx: Tx, secret: Secret, value: str, current: MasterKey) -> None:
        """Keep the value in the database too; its history stays."""
        other = store.other_key(tx, current.id)
        key = current if other is None else self._keys.named(other)
        store.reseal(tx, secret.id, key.seal(value, secret.bound_to))

    def current_key(self) -> MasterKey:
        """The key to seal under; it may have to be made first."""
        return self._keys.current()

    async def sweep(self) -> int:
        """Delete objects that nobody refers to any more; how many are still there. What fails is tried next time."""
        before = self._clock.now() - _SETTLED_MS
        left = await self._database.read(lambda tx: store.left_objects(tx, before))
        kept = 0
        for ref in left:
            try:
                await self.cluster.delete(ref)
            except HoldfastError as problem:
                _log.warning("The secret object %s is not deleted yet: %s", ref, problem.message)
                kept += 1
            else:
                await self._database.write(lambda tx, ref=ref: store.forget_object(tx, ref))  # type: ignore[misc]
        return kept

    async def run(self) -> None:
        """Sweep, at the start and every quarter of an hour, what crashes left in the cluster; until `stop`."""
        self._stopping.clear()
        while not self._stopping.is_set():
            await self.sweep()
            with suppress(TimeoutError):
                async with asyncio.timeout(_SETTLED_MS / 1000):
                    await self._stopping.wait()

    async def stop(self) -> None:
        """End `run`."""
        self._stopping.set()

    async def _kept(self, ref: str, secret: Secret) -> "KeptValue | None":
        try:
            return await self.cluster.get(ref, secret.name)
        except HoldfastError as problem:
            if not secret.is_sealed:
                raise
            _log.warning("The database's value of a secret is used, for the cluster's: %s", problem.message)
            return None
