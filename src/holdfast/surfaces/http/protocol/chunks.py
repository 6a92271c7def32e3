"""Owns reading a chunked body: strict about its lines, bounded in extensions, trailers and the number of chunks."""

import re

from holdfast.surfaces.http.protocol.heads import FIELD, HeadTooLarge, MalformedRequest

MAX_LINE_BYTES = 256
MAX_EXTENSION_BYTES = 4 * 1024
MAX_TRAILER_BYTES = 8 * 1024
MAX_TRAILERS = 32
MAX_SMALL_CHUNKS = 4096
"""Beyond so many, chunks must carry 64 bytes each on average: every chunk costs a turn of a loop."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})((?:;[\t\x20-\x7e\x80-\xff]*+)?)")
_TRAILER = re.compile(FIELD)


class Chunks:
    """One chunked body. Its trailers are read and left out: an `Authorization` that comes late must not count."""

    __slots__ = ("_chunks", "_extensions", "_left", "_line", "_size", "_stage", "_trailer_bytes", "_trailers", "done")

    def __init__(self) -> None:
        self._stage = self._read_size
        self._line = b""
        self._left = self._size = self._chunks = 0
        self._extensions = self._trailers = self._trailer_bytes = 0
        self.done = False

    def read(self, data: bytes, at: int) -> tuple[bytes, int]:
        """What `data` has of the body, and where reading stopped: at its end, or behind the body's."""
        pieces: list[bytes] = []
        while at < len(data) and not self.done:
            at = self._stage(data, at, pieces)
        return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), at

    def _read_size(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        line, at = self._take_line(data, at, MAX_LINE_BYTES)
        if line is None:
            return at
        found = _SIZE.fullmatch(line)
        if found is None:
            raise MalformedRequest("A chunk begins with its size in hexadecimal digits and CR LF.")
        self._extensions += len(found.group(2))
        if self._extensions > MAX_EXTENSION_BYTES:
            raise HeadTooLarge(f"Chunk extensions may have at most {MAX_EXTENSION_BYTES} bytes in all.")
        self._left = int(found.group(1), 16)
        self._size += self._left
        self._chunks += 1
        if self._chunks > MAX_SMALL_CHUNKS + self._size // 64:
            raise MalformedRequest("The body comes in too many small chunks; send larger ones.")
        self._stage = self._read_data if self._left else self._read_trailer
        return at

    def _read_data(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        piece = data[at : at + self._left]
        pieces.append(piece)
        self._left -= len(piece)
        if not self._left:
            self._stage = self._read_end
        return at + len(piece)

    def _read_end(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        line, at = self._take_line(data, at, 0)
        if line is not None:
            self._stage = self._read_size
        return at

    def _read_trailer(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        line, at = self._take_line(data, at, MAX_TRAILER_BYTES)
        if line is None:
            return at
        if not line:
            self.done = True
            return at
        self._trailers += 1
        self._trailer_bytes += len(line)
        if self._trailers > MAX_TRAILERS or self._trailer_bytes > MAX_TRAILER_BYTES:
            raise HeadTooLarge(f"Trailers may have at most {MAX_TRAILERS} fields and {MAX_TRAILER_BYTES} bytes.")
        if _TRAILER.fullmatch(line + b"\r\n") is None:
            raise MalformedRequest("A trailer is not a well-formed field.")
        return at

    def _take_line(self, data: bytes, at: int, most: int) -> tuple[bytes | None, int]:
        """The next line without its CR LF, and what follows it; None when it goes on in what has not come yet."""
        end = data.find(b"\n", at, at + most + 2)
        line = self._line + data[at : end + 1 if end >= 0 else at + most + 2]
        if len(line) > most + (2 if end >= 0 else 1):
            raise MalformedRequest("A line between chunks is not what it should be, or is too long.")
        if end < 0:
            self._line = line
            return None, len(data)
        self._line = b""
        if not line.endswith(b"\r\n"):
            raise MalformedRequest("A line between chunks does not end with CR LF.")
        return line[:-2], end + 1
