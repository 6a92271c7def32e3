"""Owns what a remote server may send as events: cut into single ones, and not more than anybody would read."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.engines.mcp_client.base import ServerFailed
from holdfast.engines.mcp_client.exchanges import MAX_BYTES

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_MOST_BYTES = 4 * MAX_BYTES
_BYTES_A_SECOND = 1 << 20


@dataclass(frozen=True, slots=True)
class PushedEvent:
    """One server-sent event."""

    data: bytes
    id: str | None
    retry_seconds: float | None


class EventCutter:
    """Cuts bytes into server-sent events."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._held = bytearray()

    def feed(self, piece: bytes) -> Iterator[PushedEvent]:
        """The events that this piece completes."""
        held = self._held
        # A line's end and the next may stand in different pieces.
        looked = max(0, len(held) - 3)
        held += piece
        while found := _BLANK_LINE.search(held, looked):
            yield _read_event(bytes(held[: found.start()]))
            del held[: found.end()]
            looked = 0
        if len(held) > MAX_BYTES:
            raise ServerFailed(f"{self._name} sent an event of more than {MAX_BYTES >> 20} MiB.")


class Allowance:
    """How much one stream may bring: `lines` at once, and from then on so many in a hundred seconds."""

    def __init__(self, name: str, *, lines: int) -> None:
        self._name = name
        self._most_lines = lines
        self._began = time.monotonic()
        self._lines = 0
        self._bytes = 0

    def take(self, piece: bytes) -> None:
        """Count what came; ServerFailed where it is a flood."""
        self._lines += piece.count(b"\n")
        self._bytes += len(piece)
        if self._lines <= self._most_lines and self._bytes <= _MOST_BYTES:
            return
        seconds = time.monotonic() - self._began
        few_lines = self._lines <= self._most_lines * (1 + seconds / 100)
        if not few_lines or self._bytes > _MOST_BYTES + _BYTES_A_SECOND * seconds:
            raise ServerFailed(f"{self._name} sends more events than anybody could read.")


def _read_event(block: bytes) -> PushedEvent:
    data, id, retry = [], None, None
    for line in block.split(b"\n"):
        field, _, value = line.removesuffix(b"\r").partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"id":
            id = value.decode("latin-1")
        elif field == b"retry" and value.isdigit():
            retry = min(int(value) / 1_000, 60.0)
    return PushedEvent(b"\n".join(data), id, retry)
