"""Owns a connection's bytes before anything parses them: bounds, time, strict framing, one request at a time."""

import asyncio
import time
from asyncio import TimerHandle
from email.utils import formatdate
from enum import Enum, auto
from random import getrandbits
from typing import Any
from urllib.parse import unquote

import httptools
import orjson
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.surfaces.http.asgi import problem
from holdfast.surfaces.http.protocol.chunks import Chunks
from holdfast.surfaces.http.protocol.connections import Connections
from holdfast.surfaces.http.protocol.cycle import Cycle
from holdfast.surfaces.http.protocol.heads import (
    HeadReader,
    MalformedRequest,
    body_bytes,
    check_method,
    without_upgrade,
)
from holdfast.surfaces.http.telemetry.metrics import Metrics

LEAST_BODY_BYTES_PER_SECOND = 500
LINGER_SECONDS = 2.0
LINGER_BYTES = 256 * 1024
"""After a refusal that much is still read, and thrown away: closing on unread bytes would take the answer with it."""
UNREAD_SECONDS = 60.0
"""How long an answer may wait for a client that does not read it."""


class TooSlow(HoldfastError):
    """The request did not come in time."""

    code = "request_timeout"
    status = 408


class Front:
    """What the connections of one server share."""

    def __init__(self, connections: Connections, *, head_seconds: float, body_seconds: float, metrics: Metrics) -> None:
        self.connections = connections
        self.head_seconds = head_seconds
        self.body_seconds = body_seconds
        self._refused = metrics.refusals()
        metrics.gauge("http_connections", "Open connections").set_function(lambda: len(connections))

    def protocol(self) -> type[asyncio.Protocol]:
        """The class that uvicorn makes one of for each connection."""

        class Bound(FrontProtocol):
            front = self

        return Bound

    def count(self, code: str) -> None:
        """One more was refused."""
        self._refused.labels(code).inc()


class _Stage(Enum):
    HEAD = auto()
    BODY = auto()
    ANSWERING = auto()
    """The request is complete and its answer is not: what comes now waits."""
    REFUSED = auto()


# Looked up several times for each request, which is slower through the class.
_HEAD, _BODY, _ANSWERING, _REFUSED = _Stage


class _Flow(FlowControl):
    """Reading stays paused while bytes of the next request are held, whoever asks for more of this one."""

    holding = False

    def resume_reading(self) -> None:
        if not self.holding:
            super().resume_reading()


class FrontProtocol(HttpToolsProtocol):
    """uvicorn's protocol behind strict framing: its parser sees whole heads, known lengths, chunks of our writing."""

    front: Front
    flow: _Flow

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._stage = _HEAD
        self._reader = HeadReader()
        self._minor = b"1"
        self._problem: HoldfastError | None = None
        self._left = 0
        self._chunks: Chunks | None = None
        self._received = self._received_before = 0
        self._held = b""
        self._held_at = 0
        self._discarded = 0
        self._timer: TimerHandle | None = None
        self._timer_for: _Stage | None = None
        self._write_timer: TimerHandle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport)
        if not self.front.connections.enter(self, self.client[0] if self.client else ""):
            self._stage = _REFUSED
            error = Unavailable("Too many connections are open; close some, or try again.", code="too_many_connections")
            self.front.count(error.code)
            transport.write(refusal(error))
            transport.close()
            return
        # A client that says nothing is as idle as one that has said everything.
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self.front.connections.leave(self)
        self._stage = _REFUSED
        self._held = b""
        self._stop_timer()
        self._unset_keepalive_if_required()
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().connection_lost(exc)

    def hang_up(self) -> None:
        """Close a connection that waits for a request; what the client never read is not waited for."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        self.hang_up()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # Bytes

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._stage is _ANSWERING:
            self._hold(self._held[self._held_at :] + data, 0)
        elif self._stage is _REFUSED:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES:
                self.transport.abort()
        else:
            self._advance(data, 0)

    def _advance(self, data: bytes, at: int) -> None:
        """Go on with the request that is being received; stop where it is complete."""
        try:
            while at < len(data):
                if self._stage is _HEAD:
                    head = self._reader.read(data, at)
                    if head is None:
                        break
                    raw, self._minor, at = head
                    self._begin(raw)
                elif self._stage is _BODY:
                    at = self._feed_body(data, at)
                else:
                    self._hold(data, at)
                    return
        except HoldfastError as error:
            self._refuse(error)
        except httptools.HttpParserError:
            # Its own words would repeat the request's.
            self._refuse(MalformedRequest("The request is not well-formed HTTP/1.1."))
        else:
            if self.flow.holding:
                self._release()
            if self._stage is not _ANSWERING or self._timer is not None:
                self._watch()

    def _begin(self, raw: bytes) -> None:
        self.front.connections.busy(self)
        check_method(raw)
        try:
            self.parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            # It would take the body for another protocol's bytes, so it starts again without the offer.
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(without_upgrade(raw))
        if self._problem is not None:
            raise self._problem
        if self._chunks is None and not self._left:
            self._received_whole()
        else:
            self._stage = _BODY
            self._received = self._received_before = 0

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        try:
            length = body_bytes(self._minor, self.url, self.headers)
        except HoldfastError as error:
            # Raised here it would pass through the parser, which knows only its own errors.
            self._problem = error
            return
        self._left = length or 0
        self._chunks = Chunks() if length is None else None
        self._answer()

    def _answer(self) -> None:
        """Begin to answer, as uvicorn does where nothing is upgraded and one request comes at a time."""
        parsed = httptools.parse_url(self.url)
        path = parsed.path.decode("ascii")
        scope = self.scope
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["http_version"] = version = self.parser.get_http_version()
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = parsed.path
        scope["query_string"] = parsed.query or b""
        self.cycle = Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def on_message_complete(self) -> None:
        if self._problem is None and not self.parser.should_upgrade():
            super().on_message_complete()

    def _feed_body(self, data: bytes, at: int) -> int:
        began = at
        if self._chunks is None:
            end = min(len(data), at + self._left)
            self.parser.feed_data(data if at == 0 and end == len(data) else data[at:end])
            self._left -= end - at
            at, done = end, not self._left
        else:
            piece, at = self._chunks.read(data, at)
            done = self._chunks.done
            written = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            self.parser.feed_data(written + b"0\r\n\r\n" if done else written)
        self._received += at - began
        if done:
            self._received_whole()
        return at

    def _received_whole(self) -> None:
        """The request is complete; where it was answered before its end, the next may come."""
        self._stage = _HEAD if self.cycle.response_complete else _ANSWERING

    def _hold(self, data: bytes, at: int) -> None:
        """Keep what follows the request until it is answered, and read no more: one request at a time."""
        self._stop_timer()
        self._held, self._held_at = data, at
        self.flow.holding = True
        self.flow.pause_reading()

    def _release(self) -> None:
        self._held, self._held_at = b"", 0
        self.flow.holding = False
        self.flow.resume_reading()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or self._stage is _REFUSED:
            return
        if self._stage is _BODY:
            self._unset_keepalive_if_required()
            if self.expect_100_continue and not self._received:
                # The client may now send the body or leave it out, and we could not tell which.
                self.transport.close()
            else:
                # The rest of the body may still come, but not for ever.
                self._set_timer(_ANSWERING, self.front.body_seconds, self.transport.close)
            return
        self._stage = _HEAD
        if self._held:
            self._unset_keepalive_if_required()
            self._advance(self._held, self._held_at)
        else:
            self.front.connections.idle(self)

    # Time

    def _watch(self) -> None:
        """See to it that what is awaited has an end."""
        if self._stage is _HEAD:
            if self._reader.begun:
                if self._timer_for is not _HEAD:
                    self.front.connections.busy(self)
                    self._set_timer(_HEAD, self.front.head_seconds, self._head_too_slow)
            else:
                self._stop_timer()
                self._await_request()
        elif self._stage is _BODY:
            if self._timer_for not in (_BODY, _ANSWERING):
                self._set_timer(_BODY, self.front.body_seconds, self._look_at_body)
        else:
            self._stop_timer()

    def _await_request(self) -> None:
        self.front.connections.idle(self)
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _head_too_slow(self) -> None:
        self._refuse(TooSlow(f"The request's head must be complete within {self.front.head_seconds:g} seconds."))

    def _look_at_body(self) -> None:
        """A body must go on coming, unless it is we who do not read it."""
        least = LEAST_BODY_BYTES_PER_SECOND * self.front.body_seconds
        if self._received - self._received_before < least and not self.flow.read_paused:
            self._refuse(TooSlow(f"The request's body must come with {LEAST_BODY_BYTES_PER_SECOND} bytes a second."))
            return
        self._received_before = self._received
        self._set_timer(_BODY, self.front.body_seconds, self._look_at_body)

    def _set_timer(self, stage: _Stage, seconds: float, then: Any) -> None:
        self._stop_timer()
        self._timer_for = stage
        self._timer = self.loop.call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._timer_for = None

    # Refusals

    def _refuse(self, error: HoldfastError) -> None:
        """Answer, if no answer has begun, and end the connection; nothing more of it is understood."""
        self.front.count(error.code)
        self._stage = _REFUSED
        self._held = b""
        self._unset_keepalive_if_required()
        begun = False
        if self.cycle is not None and not self.cycle.response_complete:
            begun = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if begun or self.transport.is_closing():
            self.transport.abort()
            return
        self.transport.write(refusal(error))
        self.transport.write_eof()
        self._set_timer(_REFUSED, LINGER_SECONDS, self.transport.abort)
        self._release()


def refusal(error: HoldfastError) -> bytes:
    """A whole answer that ends its connection, in the shape of every error."""
    id = f"{getrandbits(64):016x}"
    body = orjson.dumps(problem(error, id))
    return b"".join(
        (
            STATUS_LINE[error.status],
            b"date: " + formatdate(time.time(), usegmt=True).encode() + b"\r\n",
            b"content-type: application/json\r\n",
            b"content-length: " + str(len(body)).encode() + b"\r\n",
            b"x-request-id: " + id.encode() + b"\r\n",
            b"x-content-type-options: nosniff\r\n",
            b"connection: close\r\n\r\n",
            body,
        )
    )
