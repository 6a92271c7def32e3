"""Owns the other ends of the router's measurement: an upstream that answers at once, and the barest proxy to it."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import uvicorn
import uvloop

from holdfast.engines.llm.remote.connection import UpstreamConnections
from holdfast.engines.llm.remote.upstream import Upstream, UpstreamSpec

CHUNKS = 50
FIRST_CHUNK_AFTER_SECONDS = 0.003
_STAMP = {"id": "chatcmpl-1", "created": 1, "model": "fixed"}
_WHOLE = json.dumps(
    {
        **_STAMP,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 50}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 60},
    }
).encode()
_MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "fixed",
    "content": [{"type": "text", "text": "word " * 50}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 50},
}


def _answer(whole: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(whole) + whole


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _event(value: Any) -> bytes:
    data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
    return b"%x\r\n" % len(data) + data + b"\r\n"


def _chunk(content: str, reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": reason}
    return {**_STAMP, "object": "chat.completion.chunk", "choices": [choice]}


def _message_event(value: dict[str, Any]) -> bytes:
    data = f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()
    return b"%x\r\n" % len(data) + data + b"\r\n"


def _word(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


@dataclass(frozen=True, slots=True)
class Wire:
    """The same answer in the words of one API: whole, and as a stream of fifty pieces."""

    whole: bytes
    begin: bytes
    word: Callable[[str], bytes]
    end: bytes


CHAT = Wire(
    _answer(_WHOLE),
    b"",
    lambda text: _event(_chunk(text)),
    _event(_chunk("", "stop")) + _event(b"[DONE]") + b"0\r\n\r\n",
)
MESSAGES = Wire(
    _answer(json.dumps(_MESSAGE).encode()),
    _message_event({"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None}})
    + _message_event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    lambda text: _message_event(_word(text)),
    _message_event({"type": "content_block_stop", "index": 0})
    + _message_event(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 50},
        }
    )
    + _message_event({"type": "message_stop"})
    + b"0\r\n\r\n",
)


class Stub(asyncio.Protocol):
    """Answers every request alike; a stream that was asked to be stamped says when its first chunk left."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not descend from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        self._wire = MESSAGES if b"/messages " in head[: head.find(b"\r\n")] else CHAT
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r", 1)[0]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        body = self._buffer[end + 4 : end + 4 + length]
        self._buffer = self._buffer[end + 4 + length :]
        if b"stamped" in body:
            self._transport.write(STREAM_HEAD)
            asyncio.get_running_loop().call_later(FIRST_CHUNK_AFTER_SECONDS, self._stamped)
        elif b'"stream":true' in body or b'"stream": true' in body:
            self._transport.write(STREAM_HEAD + self._wire.begin)
            word = self._wire.word("word ")
            for _ in range(CHUNKS - 1):
                self._transport.write(word)
            self._transport.write(self._wire.end)
        else:
            self._transport.write(self._wire.whole)

    def _stamped(self) -> None:
        self._transport.write(self._wire.begin + self._wire.word(f"left={time.perf_counter()};"))
        asyncio.get_running_loop().call_later(FIRST_CHUNK_AFTER_SECONDS, self._transport.write, self._wire.end)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", port)
    await server.serve_forever()


class Floor:
    """A proxy with nothing between its two sides: no key, no limit, no usage."""

    def __init__(self, upstream_port: int) -> None:
        self._spec = UpstreamSpec(f"http://127.0.0.1:{upstream_port}/v1", "fixed")
        self._upstream: Upstream | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._upstream is None:
            self._upstream = Upstream(self._spec, UpstreamConnections())
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        answer = await self._upstream.relay("POST", "/chat/completions", dict(scope["headers"]), body)
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        async for piece in answer.body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def main() -> None:
    what, port = sys.argv[1], int(sys.argv[2])
    if what == "stub":
        uvloop.run(_serve(port))
    else:
        app = Floor(int(sys.argv[3]))
        options: dict[str, Any] = {"loop": "uvloop", "http": "httptools", "access_log": False, "log_level": "error"}
        uvicorn.run(app, host="127.0.0.1", port=port, lifespan="off", **options)


if __name__ == "__main__":
    main()
