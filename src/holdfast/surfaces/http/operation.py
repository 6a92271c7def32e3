"""Owns `/healthz` and `/readyz`: whether the process lives, and whether it can serve."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.surfaces.http.asgi import send_json

READY_SECONDS = 5.0


async def health(scope: Scope, receive: Receive, send: Send) -> None:
    """Alive: this very answer."""
    await send_json(send, 200, {"status": "ok"})


class Readiness:
    """Ready: every check passes in time."""

    def __init__(self, checks: dict[str, Callable[[], Awaitable[object]]]) -> None:
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        results = {}
        for name, check in self._checks.items():
            try:
                await asyncio.wait_for(check(), READY_SECONDS)
                results[name] = "ok"
            except TimeoutError:
                results[name] = "no answer in time"
            except HoldfastError as error:
                results[name] = error.message
        ready = all(result == "ok" for result in results.values())
        await send_json(send, 200 if ready else 503, {"status": "ready" if ready else "not ready", "checks": results})
