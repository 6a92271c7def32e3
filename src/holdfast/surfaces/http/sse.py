"""Owns responses of server-sent events: their headers, pings, and readers that take too long."""

import asyncio
from collections.abc import Mapping

from starlette.types import Send

from holdfast.core.text.sse import PING

HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class ReaderTooSlow(Exception):
    """The connection takes nothing more."""


class EventWriter:
    """A response of events, begun with its first byte; until then a request can still be refused with a status."""

    def __init__(
        self, send: Send, headers: Mapping[str, str] | None = None, *, patience_seconds: float | None = None
    ) -> None:
        """Whoever does not read for `patience_seconds` is given up with ReaderTooSlow; without, nobody is."""
        self._send = send
        self._headers = headers or {}
        self._patience_seconds = patience_seconds
        self.is_started = False
        self.spoke_at = 0.0
        """The loop's time of the last write."""

    async def start(self) -> None:
        """Send the status and the headers, if they were not."""
        if not self.is_started:
            self.is_started = True
            more = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self._headers.items()]
            await self._send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *more]})

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Framed events."""
        await self.start()
        sending = self._send({"type": "http.response.body", "body": data, "more_body": not is_last})
        if self._patience_seconds is None:
            await sending
        else:
            try:
                async with asyncio.timeout(self._patience_seconds):
                    await sending
            except TimeoutError:
                raise ReaderTooSlow from None
        self.spoke_at = asyncio.get_running_loop().time()

    async def ping(self) -> None:
        """A comment that keeps proxies from closing a quiet stream."""
        await self.write(PING)

    async def end(self, data: bytes = b"") -> None:
        """The last bytes."""
        await self.write(data, is_last=True)
