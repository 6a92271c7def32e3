"""Owns one kept-alive HTTP/1.1 connection to an upstream: bytes out, an answer in, and the clocks that bound both."""

import asyncio
from collections import deque
from typing import Protocol, cast

import httptools

from holdfast.core.errors import UpstreamFailed

HIGH_WATER_BYTES = 256 * 1024
MAX_HEAD_BYTES = 64 * 1024

Headers = list[tuple[bytes, bytes]]


class UpstreamUnreachable(UpstreamFailed):
    """Nothing of an answer came: the same request may be sent again, here or elsewhere."""

    code = "upstream_unreachable"


class UpstreamTimeout(UpstreamUnreachable):
    """The upstream took longer than its limit."""

    code = "upstream_timeout"
    status = 504


class UpstreamCut(UpstreamFailed):
    """The answer stopped in the middle."""

    code = "upstream_cut"


class ConnectionOwner(Protocol):
    """Who takes a connection back after a whole answer, and forgets it when it closes."""

    def keep(self, wire: "Wire") -> None: ...

    def forget(self, wire: "Wire") -> None: ...


class Wire(asyncio.Protocol):
    """One request at a time. Reading stops while nobody takes what came, so that memory stays flat."""

    def __init__(self, keeper: ConnectionOwner) -> None:
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self.used = 0
        self.idle_since = 0.0
        self.closed = False
        self._busy = False
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._paused = False
        self._problem: UpstreamFailed | None = None
        self._head_bytes = 0
        self._framed = False
        self._reusable = False
        self._events = False
        self._moved = False
        self._deadline = 0.0
        self._limit = 0.0
        self._idle_seconds = 0.0
        self.began = False
        self.head = False
        self.complete = False
        self.status = 0
        self.headers: Headers = []

    # What the pool and the answer ask for.

    def send(self, data: bytes, *, first_byte_seconds: float, idle_seconds: float, total_seconds: float) -> None:
        """Write a whole request and start the clocks."""
        assert self._transport is not None
        self._reset()
        self.used += 1
        self._busy = True
        now = self._loop.time()
        self._limit = now + total_seconds
        self._idle_seconds = idle_seconds
        self._deadline = min(now + first_byte_seconds, self._limit)
        # The clock of the last request may still run: it looks again when it fires too early.
        if self._timer is None or self._fires_at > self._deadline:
            self._arm()
        self._transport.write(data)

    async def wait_head(self) -> None:
        """Until the status and the headers are known."""
        while not self.head:
            if self._problem is not None:
                raise self._problem
            await self._wait()

    async def read(self) -> bytes:
        """What came since the last read, at least a byte; empty at the end of the answer."""
        while not self._queue:
            if self._problem is not None:
                raise self._problem
            if self.complete:
                self.finish()
                return b""
            await self._wait()
        data = self._queue.popleft() if len(self._queue) == 1 else b"".join(self._queue)
        self._queue.clear()
        self._queued = 0
        if self._paused and self._transport is not None:
            self._paused = False
            # The time that the client took is not the upstream's.
            self._deadline = min(self._loop.time() + self._idle_seconds, self._limit)
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        """Hang up at once; the upstream notices that nobody listens any more."""
        if not self.closed:
            self.closed = True
            self._disarm()
            self._keeper.forget(self)
            if self._transport is not None:
                self._transport.abort()

    def finish(self) -> None:
        """Nobody reads this answer any further: keep the connection where all of it came, hang up otherwise."""
        if self.closed:
            return
        if not (self.complete and self._reusable):
            self.close()
            return
        self._busy = False
        self._queue.clear()
        self._keeper.keep(self)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # The clocks: one timer a connection, armed again only when it fires early.

    def _arm(self) -> None:
        self._disarm()
        self._fires_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._check)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if not self._busy:
            return
        now = self._loop.time()
        if self._paused and now < self._limit:
            self._deadline = min(now + self._idle_seconds, self._limit)
        if now < self._deadline:
            self._arm()
            return
        what = "sent nothing more" if self.began else "did not begin to answer"
        self._fail(UpstreamTimeout(f"The upstream {what} within its time limit."))

    def _fail(self, problem: UpstreamFailed) -> None:
        if self._problem is None and not self.complete:
            self._problem = problem
        self.close()
        self._wake()

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not descend from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.complete or not self.used:
            self.close()  # bytes that nobody asked for: what follows on this connection can't be trusted
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserCallbackError):
            self._fail(UpstreamCut("The upstream's answer is not HTTP."))
            return
        except httptools.HttpParserUpgrade:
            self._fail(UpstreamCut("The upstream tried to change the protocol."))
            return
        if not self.head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._fail(UpstreamCut("The upstream's headers are too long."))
            return
        if self._moved:
            self._moved = False
            self._deadline = min(self._loop.time() + self._idle_seconds, self._limit)
        if self._queued > HIGH_WATER_BYTES and not self._paused and not self.complete and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        was_closed, self.closed = self.closed, True
        self._disarm()
        if not was_closed:
            self._keeper.forget(self)
        if not self.complete and self._problem is None:
            if self.head and not self._framed and exc is None:
                self.complete = True  # an answer without a length ends with its connection
            elif self.began:
                self._problem = UpstreamCut("The upstream closed the connection in the middle of its answer.")
            else:
                self._problem = UpstreamUnreachable("The upstream closed the connection before it answered.")
        self._wake()

    # What the parser tells.

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._framed = True
        elif name == b"content-type":
            self._events = value.lower().startswith(b"text/event-stream")
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self.headers = []
            return
        self.status = status
        self.head = True
        if status in (204, 304):
            self._framed = True

    def on_body(self, body: bytes) -> None:
        self.began = True
        # A stream has to finish lines, not only to drip bytes.
        if not self._events or b"\n" in body:
            self._moved = True
        self._queue.append(body)
        self._queued += len(body)

    def on_message_complete(self) -> None:
        if self.head:
            self.complete = True
            self._reusable = self._framed and self._parser.should_keep_alive()
