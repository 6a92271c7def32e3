"""Owns remembering what was read from a store for as long as nobody commits anything, in whatever process."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from holdfast.storage.database import Database, Tx

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST_REMEMBERED = 10_000


class Remembered(Generic[K, V]):
    """Rows by key. Where the store cannot say cheaply whether it changed, nothing is remembered.

    So a revoked key or a removed workspace is gone within the bound of `Database.changes`, here and everywhere.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[K, V] = {}
        self._changes: int | None = None

    async def get(self, key: K, read: Callable[[Tx], V]) -> V:
        """What `read` finds for the key; what it raises is not remembered."""
        changes = self._database.changes()
        if changes is None:
            return await self._database.glance(read)
        if changes != self._changes or len(self._known) >= MOST_REMEMBERED:
            self._known, self._changes = {}, changes
        known = self._known
        if key not in known:
            # Into what was current before the read: a commit meanwhile has put another in its place.
            known[key] = await self._database.glance(read)
        return known[key]
