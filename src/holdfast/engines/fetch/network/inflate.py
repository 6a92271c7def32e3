"""Owns undoing Content-Encoding while counting what comes out, so that no bomb is ever held whole."""

import zlib


class CannotInflate(Exception):
    """The body is not what its encoding says, or uses one that we don't read."""


class Inflater:
    """Feeds compressed pieces in, gets at most `limit` bytes out in total; `full` says that more was to come."""

    def __init__(self, encoding: str, limit: int) -> None:
        names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
        names = [name for name in names if name != "identity"]
        # Nobody stacks encodings in earnest; gzip in gzip is how a small body becomes gigabytes.
        if len(names) > 1 or (names and names[0] not in ("gzip", "x-gzip", "deflate")):
            raise CannotInflate(f"the content encoding {encoding[:60]!r} is not supported")
        self._raw_allowed = names == ["deflate"]
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32) if names else None
        self._left = limit
        # Compressing never makes a body much longer: what is, is padding that only keeps us reading.
        self._fed_left = limit + 65_536
        self.full = False

    def feed(self, piece: bytes) -> bytes:
        """The next plain bytes."""
        if self._stream is None:
            return self._keep(piece)
        self._fed_left -= len(piece)
        self.full = self.full or self._fed_left < 0
        if self._stream.eof:
            return b""
        try:
            plain = self._stream.decompress(piece, self._left + 1)
        except zlib.error:
            plain = self._retry_raw(piece)
        self._raw_allowed = False
        return self._keep(plain)

    def _retry_raw(self, piece: bytes) -> bytes:
        if not self._raw_allowed:
            raise CannotInflate("the compressed body is damaged") from None
        self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            return self._stream.decompress(piece, self._left + 1)
        except zlib.error:
            raise CannotInflate("the compressed body is damaged") from None

    def _keep(self, plain: bytes) -> bytes:
        kept = plain[: self._left]
        self._left -= len(kept)
        self.full = self.full or len(plain) > len(kept)
        return kept
