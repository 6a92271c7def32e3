"""Owns many streams over one connection that may break and be made again without a byte lost or told twice.

Both ends use it: Holdfast, and the sidecar of a pod, where there is nothing but the standard library.
"""

import asyncio
import json
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

REVISION = 1
WINDOW_BYTES = 1 << 20
"""How much of one stream may be under way and unread."""
PIECE_BYTES = 32_768
_CREDIT_BYTES = WINDOW_BYTES // 4
_ACK_FRAMES = 32
_ALIVE_SECONDS = 20.0
_MOST_FRAME = 1 << 20
_HEAD = struct.Struct("!cI")
_FRAME = struct.Struct("!cI")
_COUNT = struct.Struct("!Q")
_OPEN, _DATA, _EOF, _CLOSE, _CREDIT = b"o", b"d", b"e", b"c", b"w"
_HELLO, _RECORD, _ACK, _OVER = b"H", b"D", b"A", b"X"

Receive = Callable[[], Awaitable[bytes]]
Send = Callable[[bytes], Awaitable[None]]


class LinkBroken(Exception):
    """The connection broke, or the other end does not speak this."""


class TakenOver(Exception):
    """Somebody else holds the other end now."""


class PodStream:
    """One stream of a link."""

    def __init__(self, link: "PodLink", id: int, order: dict[str, Any]) -> None:
        self.order = order
        """What whoever opened it said."""
        self._link = link
        self._id = id
        self._received: deque[bytes] = deque()
        self._credit = WINDOW_BYTES
        self._unsaid = 0
        self._ended = False
        self._closed = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """What came next; nothing at the end."""
        while not self._received:
            if self._ended or self._closed:
                return b""
            self._changed.clear()
            await self._changed.wait()
        piece = self._received.popleft()
        self._unsaid += len(piece)
        if self._unsaid >= _CREDIT_BYTES and not self._closed:
            self._link.post(_CREDIT, self._id, struct.pack("!I", self._unsaid))
            self._unsaid = 0
        return piece

    async def read_all(self, most: int = WINDOW_BYTES) -> bytes:
        """Everything until the end."""
        found = bytearray()
        while piece := await self.read():
            found += piece
            if len(found) > most:
                raise LinkBroken("the answer is too long")
        return bytes(found)

    async def write(self, data: bytes) -> None:
        """Send something, as soon as the other end has room for it."""
        view = memoryview(data)
        while view:
            while self._credit <= 0 and not self._closed:
                self._changed.clear()
                await self._changed.wait()
            if self._closed:
                raise LinkBroken("the stream was closed")
            piece = view[: min(PIECE_BYTES, self._credit)]
            view = view[len(piece) :]
            self._credit -= len(piece)
            self._link.post(_DATA, self._id, bytes(piece))
        await self._link.room()

    def eof(self) -> None:
        """Nothing more will be sent."""
        if not self._closed:
            self._link.post(_EOF, self._id)

    def close(self) -> None:
        """End both ways."""
        if not self._closed:
            self._link.post(_CLOSE, self._id)
            self._link.forget(self._id)
            self.drop()

    def take(self, kind: bytes, data: bytes) -> None:
        """What the other end sent."""
        if kind == _DATA:
            self._received.append(data)
        elif kind == _EOF:
            self._ended = True
        elif kind == _CREDIT:
            self._credit += struct.unpack("!I", data)[0]
        elif kind == _CLOSE:
            self._link.forget(self._id)
            self._closed = True
        self._changed.set()

    def drop(self) -> None:
        """It is over."""
        self._closed = True
        self._changed.set()


class PodLink:
    """One end of a link; whoever opens streams first has odd numbers."""

    def __init__(self, *, first: bool, holder: str, accept: Callable[[PodStream], Awaitable[None]]) -> None:
        self.holder = holder
        self._accept = accept
        self._first = first
        self._next_id = 1 if first else 2
        self._channels: dict[int, PodStream] = {}
        self._unacked: deque[bytes] = deque()
        self._acked = 0
        self._sent = 0
        self._received = 0
        self._told = 0
        self._posted = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_over = False

    def open(self, order: dict[str, Any]) -> PodStream:
        """A new stream."""
        if self._is_over:
            raise LinkBroken("the link is over")
        id, self._next_id = self._next_id, self._next_id + 2
        channel = self._channels[id] = PodStream(self, id, order)
        self.post(_OPEN, id, json.dumps(order).encode())
        return channel

    def post(self, kind: bytes, id: int, data: bytes = b"") -> None:
        """Put a frame into the queue."""
        if self._is_over:
            return
        self._unacked.append(_FRAME.pack(kind, id) + data)
        if len(self._unacked) > 512:
            self._roomy.clear()
        self._posted.set()

    async def room(self) -> None:
        """Wait while too much is under way."""
        await self._roomy.wait()

    def forget(self, id: int) -> None:
        """A stream is over."""
        self._channels.pop(id, None)

    def end(self) -> None:
        """Break every stream off, for good."""
        self._is_over = True
        self._roomy.set()
        self._posted.set()
        for channel in list(self._channels.values()):
            channel.drop()
        self._channels.clear()
        for task in list(self._tasks):
            task.cancel()

    async def serve(self, receive: Receive, send: Send, hello: "dict[str, Any] | None" = None) -> None:
        """Work over one connection until it breaks (LinkBroken) or somebody else has the other end (TakenOver).

        `hello` is the other end's, where it was read before.
        """
        records = Records(receive)
        told = {"revision": REVISION, "holder": self.holder, "received": self._received}
        await send(_record(_HELLO, json.dumps(told).encode()))
        if hello is None:
            hello = await records.hello()
        self._settle(int(hello["received"]))
        self._sent = self._acked
        self._posted.set()
        writing = asyncio.ensure_future(self._write(send))
        reading = asyncio.ensure_future(self._read(records))
        try:
            done, _ = await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            writing.cancel()
            reading.cancel()
            # Whoever cancels us meanwhile is heard: only what the two of them end with is left out.
            await asyncio.gather(writing, reading, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        while True:
            self._posted.clear()
            while self._sent < self._acked + len(self._unacked) or self._received - self._told >= _ACK_FRAMES:
                batch = bytearray()
                while self._sent < self._acked + len(self._unacked) and len(batch) < 2 * PIECE_BYTES:
                    batch += _record(_RECORD, self._unacked[self._sent - self._acked])
                    self._sent += 1
                if self._received - self._told >= _ACK_FRAMES:
                    batch += self._ack()
                await send(bytes(batch))
            # Not `wait_for`, which forgets that it is cancelled where what it waits for comes at the same moment.
            quiet = asyncio.get_running_loop().call_later(_ALIVE_SECONDS, self._posted.set)
            try:
                await self._posted.wait()
            finally:
                quiet.cancel()
            if self._is_over:
                return
            if self._sent == self._acked + len(self._unacked) and self._received - self._told < _ACK_FRAMES:
                await send(self._ack())

    def _ack(self) -> bytes:
        self._told = self._received
        return _record(_ACK, _COUNT.pack(self._received))

    async def _read(self, records: "Records") -> None:
        while True:
            kind, data = await records.next()
            if kind == _OVER:
                raise TakenOver
            if kind == _ACK:
                self._settle(_COUNT.unpack(data)[0])
            elif kind == _RECORD:
                self._received += 1
                if self._received - self._told >= _ACK_FRAMES:
                    self._posted.set()
                self._take(data)

    def _settle(self, received: int) -> None:
        while self._acked < received and self._unacked:
            self._unacked.popleft()
            self._acked += 1
        if self._acked != received:
            raise LinkBroken("the other end knows another link")
        if len(self._unacked) <= 512:
            self._roomy.set()

    def _take(self, frame: bytes) -> None:
        kind, id = _FRAME.unpack_from(frame)
        data = frame[_FRAME.size :]
        if kind == _OPEN:
            if id % 2 == (1 if self._first else 0) or id in self._channels:
                raise LinkBroken("a stream has a number that is not the other end's to give")
            channel = self._channels[id] = PodStream(self, id, json.loads(data))
            task = asyncio.ensure_future(self._accept(channel))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif id in self._channels:
            self._channels[id].take(kind, data)


class Records:
    """Reads records off a connection."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._buffer = bytearray()

    async def hello(self) -> "dict[str, Any]":
        """The first record."""
        kind, data = await self.next()
        if kind == _OVER:
            raise TakenOver
        if kind != _HELLO:
            raise LinkBroken("the other end did not greet")
        told: dict[str, Any] = json.loads(data)
        if told.get("revision") != REVISION:
            raise LinkBroken(f"the other end speaks revision {told.get('revision')} of the link, not {REVISION}")
        return told

    async def next(self) -> "tuple[bytes, bytes]":
        """The next record."""
        await self._fill(_HEAD.size)
        kind, size = _HEAD.unpack_from(self._buffer)
        if size > _MOST_FRAME:
            raise LinkBroken("a record is too long")
        await self._fill(_HEAD.size + size)
        data = bytes(self._buffer[_HEAD.size : _HEAD.size + size])
        del self._buffer[: _HEAD.size + size]
        return kind, data

    async def _fill(self, size: int) -> None:
        while len(self._buffer) < size:
            piece = await self._receive()
            if not piece:
                raise LinkBroken("the connection ended")
            self._buffer += piece


def over() -> bytes:
    """What tells the other end that somebody else is held on to now."""
    return _record(_OVER, b"")


async def pump(channel: PodStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Join a stream of a link and a connection until both ways are over."""

    async def out() -> None:
        while piece := await reader.read(PIECE_BYTES):
            await channel.write(piece)
        channel.eof()

    async def back() -> None:
        while piece := await channel.read():
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    ways = [asyncio.ensure_future(out()), asyncio.ensure_future(back())]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    except (LinkBroken, OSError):
        pass
    finally:
        for task in ways:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        channel.close()
        writer.close()


def _record(kind: bytes, data: bytes) -> bytes:
    return _HEAD.pack(kind, len(data)) + data
