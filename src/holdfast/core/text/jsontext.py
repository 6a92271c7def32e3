"""Owns JSON text: written fast for the usual and right for huge integers and lone surrogates, read within bounds."""

import json
from typing import Any

import orjson

MOST_VALUES = 1_000_000
"""In one text of somebody else's: `[[],[],…` takes twenty times its bytes in memory."""


def dumps(value: Any) -> bytes:
    """Compact JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def loads_strange(data: bytes, most: int = MOST_VALUES) -> Any:
    """The value of a text that somebody else wrote; orjson.JSONDecodeError also for one of too many values."""
    # A text has no more values than bytes.
    if len(data) > most and data.count(b",") + data.count(b"[") + data.count(b"{") > most:
        raise orjson.JSONDecodeError("more values than anybody needs", "", 0)
    return orjson.loads(data)


def loads_mended(data: bytes) -> Any:
    """The same of a text that may only nearly be JSON: it may begin with a mark of its encoding, say NaN for a number,
    and hold bytes or halves of a character that are no text, which are then told as U+FFFD."""
    try:
        return loads_strange(data)
    except orjson.JSONDecodeError:
        if len(data) > MOST_VALUES:
            raise
    try:
        value = json.loads(data.decode("utf-8-sig", "replace"), parse_constant=lambda _: None)
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        raise orjson.JSONDecodeError("not even nearly JSON", "", 0) from None
    return orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
