"""Owns taking into the index what was said in chats before there was one."""

import asyncio
import contextlib
from collections.abc import Callable

from holdfast.storage.database import Database, Tx

PAUSE_SECONDS = 0.01


class ChatWordsFilling:
    """Works through what a migration left, and is done for good."""

    def __init__(self, database: Database, fill: Callable[[Tx], int]) -> None:
        self._database = database
        self._fill = fill
        self._stopping = asyncio.Event()

    async def fill(self) -> int:
        """Take some of what is missing into the index; how many."""
        return await self._database.write(self._fill)

    async def run(self) -> None:
        """Fill until nothing is missing, then wait for `stop`."""
        while not self._stopping.is_set() and await self.fill():
            with contextlib.suppress(TimeoutError):
                # Other writers go first.
                await asyncio.wait_for(self._stopping.wait(), PAUSE_SECONDS)
        await self._stopping.wait()

    async def stop(self) -> None:
        """End `run`."""
        self._stopping.set()
