"""Owns running jobs in a command's own process: there may be no server, and with one the work is shared."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from holdfast.engines.jobs.engine import JobEngine
from holdfast.storage.files import private_files

LOOK_SECONDS = 0.2
"""How often a command that waits for a job looks."""


@asynccontextmanager
async def working(jobs: JobEngine) -> AsyncIterator[None]:
    """Run jobs here until the block ends."""
    with private_files():
        task = asyncio.create_task(jobs.run())
        try:
            yield
        finally:
            await jobs.stop()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
