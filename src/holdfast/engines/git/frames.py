"""Owns how parent and child speak: JSON values, each after its length in four bytes."""

import sys
from typing import Any, BinaryIO

import orjson

MAX_FRAME = 256 * 1024 * 1024


def pack(value: object) -> bytes:
    """One value as it goes through the pipe."""
    body = orjson.dumps(value)
    return len(body).to_bytes(4, "big") + body


def receive(source: BinaryIO) -> Any:
    """The next value, or None when the other side has closed."""
    size = source.read(4)
    if len(size) < 4:
        return None
    body = source.read(int.from_bytes(size, "big"))
    return orjson.loads(body)


def send(value: object) -> None:
    """Give the parent a value, now."""
    sys.stdout.buffer.write(pack(value))
    sys.stdout.buffer.flush()
