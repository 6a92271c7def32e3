"""Owns that nothing is left of a deleted chat once deleting it can no longer be undone."""

import asyncio
import contextlib

from holdfast.core.clock import Clock
from holdfast.features.chat.deleted import store
from holdfast.storage.database import Database

KEPT_MILLIS = 60 * 60 * 1000
"""For how long deleting can be undone."""
PURGE_SECONDS = 300.0


class DeletedChats:
    """Removes for good what was deleted more than an hour ago."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._stopping = asyncio.Event()

    async def purge(self) -> int:
        """Remove what can no longer be put back; how many chats."""
        before = self._clock.now() - KEPT_MILLIS
        return await self._database.write(lambda tx: store.purge(tx, before))

    async def run(self) -> None:
        """Purge now and then, until `stop`."""
        while not self._stopping.is_set():
            await self.purge()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), PURGE_SECONDS)

    async def stop(self) -> None:
        """End `run`."""
        self._stopping.set()
