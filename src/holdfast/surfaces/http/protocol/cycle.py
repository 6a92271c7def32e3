"""Owns one request and its answer on a connection: an answer's head leaves together with the first of its body."""

import asyncio
import re
from collections.abc import Iterable

from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

# A header of ours that held these would write another header, or another answer.
_NOT_IN_NAMES = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\"]')
_NOT_IN_VALUES = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BODILESS = (204, 304)


class Cycle(RequestResponseCycle):
    """uvicorn's, except for how it sends.

    The head waits for the first of the body, which mostly follows at once: one system call and one packet where there
    would be two. The head of a stream, whose first event may take long, waits no longer than this turn of the loop.
    """

    _head: bytes = b""

    async def send(self, message: Message) -> None:  # type: ignore[override]
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if not self.response_started:
            if message["type"] != "http.response.start":
                raise RuntimeError(f"an answer begins with its head, not with {message['type']}")
            self.response_started = True
            self.waiting_for_100_continue = False
            self._begin(message["status"], message.get("headers", ()))
        elif self.response_complete or message["type"] != "http.response.body":
            raise RuntimeError(f"{message['type']} does not follow in this answer")
        else:
            self._go_on(message.get("body", b""), last=not message.get("more_body", False))

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        lines = [STATUS_LINE[status]]
        closing = False
        for name, value in (*self.default_headers, *headers):
            if _NOT_IN_NAMES.search(name) or _NOT_IN_VALUES.search(value):
                raise RuntimeError("a header of an answer has characters that no header has")
            name = name.lower()
            if name == b"content-length" and self.chunked_encoding is None:
                self.expected_content_length = int(value)
                self.chunked_encoding = False
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                self.expected_content_length = 0
                self.chunked_encoding = True
            elif name == b"connection" and b"close" in value.lower():
                self.keep_alive = False
                closing = True
            lines += (name, b": ", value, b"\r\n")
        if not self.keep_alive and not closing:
            lines.append(b"connection: close\r\n")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in _BODILESS:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)
        if self.chunked_encoding:
            asyncio.get_running_loop().call_soon(self._send_head)

    def _send_head(self) -> None:
        if self._head and not self.disconnected:
            self.transport.write(self._head)
        self._head = b""

    def _go_on(self, body: bytes, *, last: bool) -> None:
        if self.scope["method"] == "HEAD":
            self.expected_content_length, body = 0, b""
        elif not self.chunked_encoding:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0:
                raise RuntimeError("an answer is longer than it said")
        elif body:
            body = b"%x\r\n%b\r\n" % (len(body), body)
        if last and self.chunked_encoding and self.scope["method"] != "HEAD":
            body += b"0\r\n\r\n"
        if self._head:
            body, self._head = self._head + body, b""
        if body:
            self.transport.write(body)
        if not last:
            return
        if self.expected_content_length:
            raise RuntimeError("an answer is shorter than it said")
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
