"""Owns JSON text of any value a tool may give: fast for the usual, right for huge integers and lone surrogates."""

import json
from typing import Any

import orjson


def dumps(value: Any) -> bytes:
    """Compact JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()
