"""Owns taking away what sessions left on the disk, once nobody will go on with them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.core.clock import Clock
from holdfast.engines.jobs import JobRun
from holdfast.features.agents.runs.places import SessionPlace
from holdfast.features.agents.sessions import store
from holdfast.storage.database import Database

TIDY = "session.tidy"
KEPT_MILLIS = 24 * 3_600_000
"""How long a session that has ended can be resumed."""


def tidier(database: Database, clock: Clock, directory: Path) -> Callable[[JobRun], Awaitable[object]]:
    """The handler that removes homes and worktrees of sessions that ended long ago, or are no longer known."""

    async def tidy(job: JobRun) -> object:
        names = await asyncio.to_thread(_names, directory)
        before = clock.now() - KEPT_MILLIS
        gone = await database.read(lambda tx: store.ended_before(tx, before, names))
        for name in gone:
            await asyncio.to_thread(SessionPlace(directory / name).remove)
        return {"removed": len(gone)}

    return tidy


def _names(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir() if each.name.startswith("ses_")] if directory.exists() else []
