"""Owns identifiers: prefixed, unguessable, and sorted by the time they were made."""

import os
import re
import threading
import time
import uuid

_SHAPE = re.compile(r"[a-z]{1,8}_[0-9a-f]{32}")
_TICKS_A_MILLISECOND = 1 << 12
_last_tick = 0
_lock = threading.Lock()


def new_id(prefix: str) -> str:
    """A UUIDv7 in hex behind a prefix: `new_id("mem")` → `mem_0197…`. Sorts by creation."""
    return f"{prefix}_{new_uuid().hex}"


def new_uuid() -> uuid.UUID:
    """A UUIDv7 (RFC 9562), which Python 3.11 lacks: 48 bits of milliseconds, 12 of their fraction, 62 random bits."""
    millis, fraction = divmod(_next_tick(), _TICKS_A_MILLISECOND)
    random = int.from_bytes(os.urandom(8), "big") & ~(0x3 << 62)
    return uuid.UUID(int=(millis & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | random)


def _next_tick() -> int:
    """Now in 4,096ths of a millisecond, later than the last one given: what a process makes first sorts first."""
    global _last_tick
    now = time.time_ns() * _TICKS_A_MILLISECOND // 1_000_000
    with _lock:
        _last_tick = max(now, _last_tick + 1)
        return _last_tick


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
