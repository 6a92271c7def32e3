"""A server that publishes signing keys, well or badly: redirected, endless, slow, or not keys at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

Manner = Literal["well", "redirected", "huge", "never", "compressed", "not json", "not keys", "broken"]


@dataclass
class KeyServer:
    """Serves `keys` at `/jwks`, and counts who asks where."""

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list)
    manner: Manner = "well"
    asked: list[str] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path != "/jwks" or self.manner == "well":
            return web.json_response({"keys": self.keys})
        if self.manner == "redirected":
            return web.Response(status=302, headers={"Location": f"{self.url}/elsewhere"})
        if self.manner == "never":
            await self.released.wait()
            return web.Response(status=500)
        if self.manner == "huge":
            stream = web.StreamResponse()
            await stream.prepare(request)
            for _ in range(64):
                await stream.write(b" " * 64 * 1024)
            return stream
        if self.manner == "compressed":
            return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
        return {
            "not json": web.Response(text="<html>"),
            "not keys": web.json_response(["keys"]),
            "broken": web.Response(status=500),
        }[self.manner]


@asynccontextmanager
async def key_server() -> AsyncIterator[KeyServer]:
    """A running server."""
    server = KeyServer()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.released.set()
        await runner.cleanup()
