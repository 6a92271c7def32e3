"""Owns cursor paging: a page of items and an opaque cursor to the next."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.ids import is_id

T = TypeVar("T")
U = TypeVar("U")

MAX_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items in order, and where the next ones begin (None: there are no more)."""

    items: Sequence[T]
    next_cursor: str | None = None

    def map(self, change: Callable[[T], U]) -> "Page[U]":
        """The same page of other things."""
        return Page([change(item) for item in self.items], self.next_cursor)


def page_of(rows: Sequence[T], limit: int, position: Callable[[T], Sequence[str | int]]) -> Page[T]:
    """A page from `limit + 1` rows read: the surplus one only says that there is more."""
    if len(rows) <= limit:
        return Page(rows)
    kept = rows[:limit]
    return Page(kept, encode_cursor(*position(kept[-1])))


def encode_cursor(*position: str | int) -> str:
    """An opaque, URL-safe form of where a page ended."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> list[str | int]:
    """Where the last page ended; Invalid unless it is a cursor with values of these kinds."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        values = json.loads(raw)
        # Half a surrogate pair is JSON, but no text that a store could compare with.
        json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, binascii.Error, RecursionError):
        values = None
    right = isinstance(values, list) and [type(value) for value in values] == list(kinds)
    if not right or any(isinstance(value, int) and abs(value) >= 2**63 for value in values):
        raise _unreadable()
    return list(values)


def id_in_cursor(cursor: str, prefix: str) -> str:
    """The id at which the last page ended; Invalid unless it is a cursor with an id of this prefix."""
    found = str(decode_cursor(cursor, str)[0])
    if not is_id(prefix, found):
        raise _unreadable()
    return found


def _unreadable() -> Invalid:
    problem = "not a cursor from this list; leave it out to start from the beginning"
    return Invalid("The cursor could not be read.", fields=[FieldError("cursor", problem)])
