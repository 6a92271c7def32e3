"""Owns Markdown with front matter: written one way, so that the same thing gives the same bytes; read leniently."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import yaml

from holdfast.core.clock import parse_time
from holdfast.core.errors import Invalid

MAX_FOREIGN_FRONT = 64 * 1024
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999: what lies beyond cannot be shown."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# YAML reads these in a quoted string as line ends, or not at all.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_FENCE = re.compile(r"\A---[ \t]*\r?\n(.*?)(?:\r?\n|(?<=\n))(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_OWN_LINE = re.compile(r"([a-z_]+): (.+)")


def moment(millis: int) -> str:
    """A moment in front matter, exact to the millisecond in every year."""
    return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_or_none(value: object, field: str = "date") -> int | None:
    """A moment from front matter or JSON, however it is written; None for what is none."""
    found = _millis(value, field)
    return found if found is not None and _FIRST <= found <= _LAST else None


def _millis(value: object, field: str) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round((aware - _EPOCH).total_seconds() * 1000)
    if isinstance(value, date):
        return _millis(datetime(value.year, value.month, value.day, tzinfo=UTC), field)
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return None
        # Seconds until the year 5138, milliseconds above.
        return round(value * 1000) if abs(value) < 1e11 else round(value)
    try:
        return parse_time(str(value).strip()[:100], field)
    except Invalid:
        return None


def render(front: Mapping[str, Any], body: str) -> bytes:
    """A file: each field on a line as JSON, lists of records one record a line, then the body untouched."""
    lines = ["---"]
    for name, value in front.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines.append(f"{name}:")
            lines += [f"  - {_json(record)}" for record in value]
        else:
            lines.append(f"{name}: {_json(value)}")
    return ("\n".join(lines) + f"\n---\n\n{body}\n").encode()


def split(text: str) -> tuple[dict[str, Any], str]:
    """Front matter and body; an empty mapping where there is none. ValueError for front matter that cannot be read."""
    match = _FENCE.match(text)
    if match is None:
        return {}, text
    body = text[match.end() :]
    front = _own(match.group(1))
    if front is None:
        front = _foreign(match.group(1))
    if "holdfast" in front:
        return front, body.removeprefix("\n").removesuffix("\n")
    return front, body


def texts(value: object) -> tuple[str, ...]:
    """A list of words, however front matter writes one."""
    if isinstance(value, str):
        return tuple(word.strip().lstrip("#") for word in value.split(",") if word.strip().lstrip("#"))
    if isinstance(value, Sequence):
        return tuple(str(word).strip().lstrip("#") for word in value if str(word).strip().lstrip("#"))
    return ()


def _json(value: object) -> str:
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(value, ensure_ascii=False))


def _own(front: str) -> dict[str, Any] | None:
    """Our own writing without YAML's cost; None for anybody else's, or ours after an edit by hand."""
    if not front.startswith("holdfast: "):
        return None
    found: dict[str, Any] = {}
    records: list[Any] = []
    try:
        for line in front.split("\n"):
            if line.startswith("  - "):
                records.append(json.loads(line[4:]))
            elif match := _OWN_LINE.fullmatch(line):
                found[match.group(1)] = json.loads(match.group(2))
            elif line.endswith(":"):
                found[line[:-1]] = records = []
            else:
                return None
    except ValueError:
        return None
    return found


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Without aliases, which can make a few lines stand for gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("its front matter uses YAML aliases")
        return super().compose_node(parent, index)


def _foreign(front: str) -> dict[str, Any]:
    if len(front) > MAX_FOREIGN_FRONT:
        raise ValueError(f"its front matter is over {MAX_FOREIGN_FRONT} characters")
    try:
        # The loader builds strings, numbers, dates, lists and mappings only.
        found = yaml.load(front, Loader=_Loader)  # noqa: S506
    except (yaml.YAMLError, RecursionError):
        raise ValueError("its front matter is not YAML") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError("its front matter is not a list of fields")
    return {str(name): value for name, value in found.items()}
