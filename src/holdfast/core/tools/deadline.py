"""Owns the time that a call may take: past it the call is over, whether or not the tool gives up."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.core.errors import Unavailable

_T = TypeVar("_T")

_log = logging.getLogger(__name__)
# Calls that ignore their cancellation are let go, but not forgotten: the event loop keeps only weak references.
_abandoned: set["asyncio.Task[Any]"] = set()


class TookTooLong(Unavailable):
    """The tool did not finish in time."""

    code = "timeout"

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"{name} did not finish within {seconds:g} seconds.")


async def within(work: Coroutine[Any, Any, _T], name: str, seconds: float | None) -> _T:
    """What the work gives; TookTooLong past its time. Whoever is cancelled while waiting cancels it."""
    if seconds is None:
        return await work
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        _abandon(task)
        raise
    if not done:
        _abandon(task)
        raise TookTooLong(name, seconds)
    return task.result()


def _abandon(task: "asyncio.Task[Any]") -> None:
    # Not awaited: a tool that is slow to give up must not hold the answer.
    task.cancel()
    _abandoned.add(task)
    task.add_done_callback(_ended)


def _ended(task: "asyncio.Task[Any]") -> None:
    _abandoned.discard(task)
    if not task.cancelled() and task.exception() is not None:
        _log.debug("A cancelled tool failed afterwards.", exc_info=task.exception())
