"""Owns surfaces that take long to load: they are built once the server is ready, or by their first request."""

import asyncio
import importlib
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.types import Receive, Scope, Send

# One at a time: two threads that import packages with circles in them can each wait for the other's half.
_importing = threading.Lock()


def _import(module: str) -> None:
    with _importing:
        importlib.import_module(module)


class StoppableSurface(Protocol):
    """What is served and can be stopped."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...

    async def stop(self) -> None: ...


class Deferred:
    """An ASGI application that another module will provide."""

    def __init__(self, module: str, build: Callable[[], StoppableSurface]) -> None:
        """`module` is what takes the time; it is imported off the event loop before `build` is called on it."""
        self._module = module
        self._build = build
        self._surface: StoppableSurface | None = None
        self._building = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        surface = self._surface or await self.load()
        await surface(scope, receive, send)

    async def load(self) -> StoppableSurface:
        """Build it now, unless it is built already."""
        async with self._building:
            if self._surface is None:
                await asyncio.to_thread(_import, self._module)
                self._surface = self._build()
            return self._surface

    async def stop(self) -> None:
        """Stop it, if it was ever built."""
        if self._surface is not None:
            await self._surface.stop()
