"""Owns what runs beside the requests: sealing, flushing, jobs, events, embedding; begun again when it fails."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from holdfast.core.parts import Parts
from holdfast.engines.jobs.engine import JobEngine
from holdfast.server.parts import background as working
from holdfast.storage.lock import Ownership

_log = logging.getLogger(__name__)


@asynccontextmanager
async def background(parts: Parts, owner: Ownership | None = None) -> AsyncIterator[None]:
    """Run what works beside the requests: sealing, flushing, jobs, events, embedding.

    Of several workers on one data directory each does its own, and `owner` what is done once for all of them.
    """
    # Built here, so that a handler that cannot be built ends the start instead of failing beside the requests for ever.
    handled = parts[JobEngine].kinds
    _log.debug("jobs are handled", extra={"kinds": sorted(handled)})
    async with AsyncExitStack() as stack:
        if owner is not None:
            stack.callback(owner.release)
        for name, run, stop, once in working(parts):
            task = asyncio.create_task(_forever(name, run, owner if once else None), name=name)
            stack.push_async_callback(_end, task, stop)
        if owner is not None:
            stack.callback(owner.withdraw)
        yield


async def _forever(name: str, run: Callable[[], Awaitable[None]], owner: Ownership | None) -> None:
    """Background work that fails is logged and begun again: a passing fault must not end it for good."""
    while True:
        try:
            if owner is None or await owner.won():
                await run()
            return
        except Exception:
            _log.exception("background work failed; it starts again", extra={"work": name})
            await asyncio.sleep(1)


async def _end(task: "asyncio.Task[None]", stop: Callable[[], Awaitable[None]]) -> None:
    await stop()
    done, _ = await asyncio.wait({task}, timeout=10)
    if not done:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
