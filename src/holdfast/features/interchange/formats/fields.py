"""Owns the typed reading of front matter that we wrote: a field that somebody broke is named."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.features.interchange.formats.front import moment_or_none

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
MAX_FIELD = 500
"""What no field of ours is longer than, unless it says so."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


class MalformedExport(ValueError):
    """An export file that was changed beyond what can be read back; the message says where."""


class Fields:
    """Typed reading of front matter."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(self, name: str, default: str = "", *, most: int = MAX_FIELD) -> str:
        value = self._values.get(name, default)
        if not isinstance(value, str):
            raise MalformedExport(f"the field {name} is not text")
        return bounded(_storable(value, name), f"the field {name}", most)

    def id(self, name: str = "id") -> str:
        value = self.text(name)
        if not _ID.fullmatch(value):
            raise MalformedExport(f"the field {name} is not an id")
        return value

    def number(self, name: str, default: int) -> int:
        value = self._values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
            raise MalformedExport(f"the field {name} is not a number")
        return value

    def fraction(self, name: str) -> float:
        value = self._values.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise MalformedExport(f"the field {name} is not a number")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise MalformedExport(f"the field {name} is not true or false")
        return value

    def time(self, name: str) -> int:
        if not self.has(name):
            raise MalformedExport(f"the field {name} is missing")
        value = moment_or_none(self._values[name])
        if value is None:
            raise MalformedExport(f"the field {name} is not a time")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        value = self._values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise MalformedExport(f"the field {name} is not a list of texts")
        return tuple(_storable(item, name) for item in value)

    def records(self, name: str) -> "list[Fields]":
        value = self._values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise MalformedExport(f"the field {name} is not a list of records")
        return [Fields(item) for item in value]

    def record(self, name: str) -> "Fields":
        value = self._values.get(name)
        if not isinstance(value, dict):
            raise MalformedExport(f"the field {name} is not a record")
        return Fields(value)

    def mapping(self, name: str, *, most: int = MAX_FIELD) -> Mapping[str, Any]:
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            raise MalformedExport(f"the field {name} is not a record")
        bounded(_storable(json.dumps(value, ensure_ascii=False), name), f"the field {name}", most)
        return value

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> Any:
        value = self.text(name, default or "")
        if value not in choices:
            raise MalformedExport(f"the field {name} is not one of {', '.join(choices)}")
        return value


def bounded(text: str, what: str, most: int) -> str:
    """The text, unless it is longer than anything that we store as this."""
    if len(text) > most:
        raise MalformedExport(f"{what} has {len(text):,} characters; the limit is {most:,}")
    return text


def _storable(text: str, name: str) -> str:
    if _UNSTORABLE.search(text):
        raise MalformedExport(f"the field {name} holds characters that no store keeps")
    return text
