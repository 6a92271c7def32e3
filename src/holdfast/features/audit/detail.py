"""Owns what may stand in an event's detail: plain JSON, bounded, and never a secret."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from holdfast.core.text.secrets_scan import first_secret_kind

REDACTED = "[redacted]"
MAX_TEXT = 1000
MAX_DETAIL = 16_000
_SECRET_NAME = re.compile(r"secret|passw|passphrase|token|api_?key|private_?key|credential|authorization|cookie", re.I)
# These say something about a secret without being one.
_ABOUT_NAME = re.compile(
    r"(?:^|_)(?:id|ids|name|names|prefix|kind|count|hash|expires?|expires_at|scopes?|url|ref)$", re.I
)


# What every credential has: a long word, a telling name, or an address. Most texts have none and need no closer look.
_SUSPICIOUS = re.compile(r"\S{15}|pass|pwd|secret|key|token|credential|://", re.I)
_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


class SecretInDetail(ValueError):
    """A field with a secret's name was handed to the audit trail with a value; redact it first."""


def encode(detail: Mapping[str, object]) -> str:
    """The detail as it is stored. Raises SecretInDetail for a value under a secret's name."""
    if not detail:
        return "{}"
    checked = _clean(detail)
    text = _ENCODER.encode(checked)
    if len(text) > MAX_DETAIL:
        return _ENCODER.encode({"cut": f"{len(text)} characters of detail were too many to keep"})
    return text


def _clean(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(name)[:200]: _field(str(name), item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [_clean(item) for item in items]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "…"
    if _SUSPICIOUS.search(text) is not None and first_secret_kind([text]) is not None:
        return REDACTED
    return text


def _field(name: str, value: object) -> Any:
    if _holds_secret(name, value):
        raise SecretInDetail(f"The detail field {name!r} looks like a secret; leave it out or redact it.")
    return _clean(value)


def _holds_secret(name: str, value: object) -> bool:
    """Numbers and flags (`tokens_in`, `has_password`) are no secrets, nor are names of them (`secret_name`)."""
    if value is None or isinstance(value, (bool, int, float)) or value in ("", REDACTED):
        return False
    return _names_secret(name)


@lru_cache(maxsize=1024)
def _names_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None and _ABOUT_NAME.search(name) is None
