"""Owns the directories in which MCP servers keep what outlives them: one for each entry, gone with the entry."""

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.engines.runtime.base import Mounted
from holdfast.engines.runtime.trees import remove_tree
from holdfast.features.catalog import store
from holdfast.storage.database import Database

PLACE = "/work"
"""Where a server sees its directory: its home, and where it starts."""
SWEEP_SECONDS = 3600.0
_log = logging.getLogger(__name__)


class ServerStates:
    """The directories below one directory of ours, by the ids of entries."""

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._directory = directory
        self._most_bytes = most_bytes

    def mounted(self, server_id: str) -> Mounted:
        """An entry's directory as its server gets it; made where it was not."""
        place = self._directory / server_id
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Mounted(place, PLACE, writable=True, most_bytes=self._most_bytes)

    async def forget(self, server_id: str) -> None:
        """Delete an entry's directory; nothing of its server may run."""
        await asyncio.to_thread(remove_tree, self._directory / server_id)

    async def keep_only(self, server_ids: Collection[str]) -> None:
        """Delete the directories of entries that are gone: with their workspace, or before somebody was killed."""
        for each in await asyncio.to_thread(self._kept):
            if each not in server_ids:
                await self.forget(each)

    def _kept(self) -> list[str]:
        return [path.name for path in self._directory.iterdir()] if self._directory.is_dir() else []


class StateSweep:
    """Looks for directories without an entry, at the start and every hour."""

    def __init__(self, database: Database, states: ServerStates) -> None:
        self._database = database
        self._states = states
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Sweep until `stop`."""
        while not self._stopping.is_set():
            try:
                await self._states.keep_only({each.id for each in await self._database.read(store.every)})
            except (HoldfastError, OSError) as problem:
                _log.warning("Directories of MCP servers could not be looked through: %s", problem)
            try:
                async with asyncio.timeout(SWEEP_SECONDS):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """End `run`."""
        self._stopping.set()
