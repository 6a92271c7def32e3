"""Owns asking an ASGI application without a network between: thousands of requests in seconds."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.types import ASGIApp, Message


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; of a stream of events only its beginning."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body; where it is a stream of events, the last message in it."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line for line in self.text.splitlines() if line.startswith("data: {")]
            return json.loads(lines[-1].removeprefix("data: "))
        return json.loads(self.body)


async def ask(
    app: ASGIApp,
    method: str,
    path: str,
    headers: Mapping[str, str],
    *,
    params: Mapping[str, str] = {},
    body: bytes = b"",
    follow: bool = True,
) -> Answer:
    """One request; `follow=False` hangs up on a stream once it has begun."""
    hang_up = asyncio.Event()
    asked = False
    status, found, parts = 0, {}, []

    async def receive() -> Message:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}
        await hang_up.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, found
        if message["type"] == "http.response.start":
            status = message["status"]
            found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            parts.append(message.get("body", b""))
            if not follow or not message.get("more_body", False):
                hang_up.set()

    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": urlencode(params).encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-length", str(len(body)).encode()), *raw],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    async with asyncio.timeout(60):
        await app(scope, receive, send)
    return Answer(status, found, b"".join(parts))
