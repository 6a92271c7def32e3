"""Owns the frames of a WebSocket that carries a program's stdio, as an API server speaks it."""

import base64
import hashlib
import os
import struct
from contextlib import suppress

import anyio
import httpcore

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3
_MOST_FRAME = 32 << 20
_READ_BYTES = 262_144
_WRITE_SECONDS = 60.0
_KEPT_WORDS = 4_096
BROKEN = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    # httpcore lets these through where TLS finds out while it writes that the other end was killed.
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    OSError,
)
"""What is raised where the other end is gone."""


def new_key() -> str:
    """For a request to upgrade."""
    return base64.b64encode(os.urandom(16)).decode()


def accept_of(key: str) -> bytes:
    """What the answer to that key has to show."""
    return base64.b64encode(hashlib.sha1(key.encode() + _MAGIC, usedforsecurity=False).digest())


class ExecStream:
    """A program in a container: its stdout is read, its stdin written."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, connection: httpcore.AsyncHTTPConnection) -> None:
        self._stream = stream
        self._connection = connection
        self._buffer = bytearray()
        self._words = bytearray()
        self._is_closed = False

    @property
    def words(self) -> str:
        """What it wrote to stderr, and how it ended as the server has it."""
        return self._words.decode("utf-8", "replace").strip()

    async def read(self) -> bytes:
        """What it wrote next; nothing once it ended or the connection broke."""
        while not self._is_closed:
            try:
                opcode, data = await self._frame()
            except BROKEN:
                break
            if opcode == _PING:
                await self._send(_PONG, data)
            elif opcode == _CLOSE:
                break
            elif opcode in (_BINARY, _TEXT, _CONTINUED) and data:
                channel, rest = data[0], data[1:]
                if channel == _STDOUT and rest:
                    return rest
                if channel in (_STDERR, _STATUS):
                    self._words += rest[: _KEPT_WORDS - len(self._words)]
        return b""

    async def write(self, data: bytes) -> None:
        """Send it to its stdin; OSError where the connection broke."""
        try:
            await self._send(_BINARY, bytes((_STDIN,)) + data)
        except BROKEN as problem:
            raise OSError(str(problem) or type(problem).__name__) from None

    async def close(self) -> None:
        """Break it off."""
        self._is_closed = True
        with suppress(*BROKEN):
            await self._send(_CLOSE, struct.pack("!H", 1000))
        await self._stream.aclose()
        await self._connection.aclose()

    async def _frame(self) -> tuple[int, bytes]:
        await self._fill(2)
        size, at = self._buffer[1] & 0x7F, 2
        if size == 126:
            await self._fill(4)
            size, at = struct.unpack_from("!H", self._buffer, 2)[0], 4
        elif size == 127:
            await self._fill(10)
            size, at = struct.unpack_from("!Q", self._buffer, 2)[0], 10
        if size > _MOST_FRAME:
            raise OSError("a frame is too long")
        await self._fill(at + size)
        opcode, data = self._buffer[0] & 0x0F, bytes(self._buffer[at : at + size])
        del self._buffer[: at + size]
        return opcode, data

    async def _fill(self, size: int) -> None:
        while len(self._buffer) < size:
            piece = await self._stream.read(_READ_BYTES, None)
            if not piece:
                raise OSError("the connection ended")
            self._buffer += piece

    async def _send(self, opcode: int, data: bytes) -> None:
        size = len(data)
        head = bytes((0x80 | opcode,))
        if size < 126:
            head += bytes((0x80 | size,))
        elif size < 65_536:
            head += struct.pack("!BH", 0x80 | 126, size)
        else:
            head += struct.pack("!BQ", 0x80 | 127, size)
        # A client masks what it sends; the mask of zeros spares the work, and over TLS no proxy is misled.
        await self._stream.write(head + bytes(4) + data, _WRITE_SECONDS)
