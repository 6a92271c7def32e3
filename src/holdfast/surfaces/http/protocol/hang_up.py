"""Owns noticing that a client went away while its answer is being made."""

import asyncio
from types import TracebackType

from starlette.types import Receive, Scope

from holdfast.surfaces.http.asgi import ANSWERED, ClientGone

# Most answers come sooner, and watching costs a task.
WATCH_AFTER_SECONDS = 0.05


class while_connected:  # noqa: N801 – read as a phrase: `async with while_connected(scope, receive):`
    """Runs a block until its end or until the client hangs up, which cancels the block and raises ClientGone.

    The request's body must have been read: what comes after it can only be the end of the connection. Once the whole
    answer was sent the block runs on undisturbed: the server then tells of a disconnect whether or not there was one.
    """

    __slots__ = ("_gone", "_receive", "_state", "_task", "_timer", "_watcher")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._state = scope["state"]
        self._receive = receive
        self._gone = False
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, self._start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._gone and isinstance(error, asyncio.CancelledError):
            self._task.uncancel()
            raise ClientGone from None

    def _start(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._state.get(ANSWERED):
            return
        self._gone = True
        self._task.cancel()
