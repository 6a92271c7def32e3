"""Owns identifiers: prefixed, unguessable, and sorted by the time they were made."""

import os
import re
import time
import uuid

_SHAPE = re.compile(r"[a-z]{1,8}_[0-9a-f]{32}")


def new_id(prefix: str) -> str:
    """A UUIDv7 in hex behind a prefix: `new_id("mem")` → `mem_0197…`. Sorts by creation."""
    return f"{prefix}_{new_uuid().hex}"


def new_uuid() -> uuid.UUID:
    """A UUIDv7 (RFC 9562), which Python 3.11 lacks: 48 bits of milliseconds, then 74 random bits."""
    millis = time.time_ns() // 1_000_000
    number = (millis & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=number)


def is_id(prefix: str, text: str) -> bool:
    """Whether `text` has the shape of an id with this prefix."""
    return text.startswith(f"{prefix}_") and _SHAPE.fullmatch(text) is not None


def workspace_id_of(text: str) -> str | None:
    """The `ws_<hex>` id for either spelling of a workspace (`ws_<hex>` or its UUID); None for anything else."""
    if is_id("ws", text):
        return text
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        return None
    return f"ws_{parsed.hex}" if str(parsed) == text.lower() else None
