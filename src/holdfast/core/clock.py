"""Owns time: milliseconds since the epoch in rows, ISO 8601 in UTC on the wire."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from holdfast.core.errors import FieldError, Invalid

_EPOCH = datetime(1970, 1, 1)
_FIRST = round(datetime(1, 1, 2, tzinfo=UTC).timestamp() * 1000)
_LAST = round(datetime(9999, 12, 30, tzinfo=UTC).timestamp() * 1000)
_SPAN = re.compile(r"(\d{1,6})\s?(s|m|h|d|w)", re.ASCII)
_SPAN_MILLIS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Clock(Protocol):
    """Where services learn what time it is, so that tests can move it."""

    def now(self) -> int:
        """Milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


def iso(millis: int) -> str:
    """`2026-11-16T12:00:00.000Z`."""
    return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds") + "Z"


def iso_or_none(millis: int | None) -> str | None:
    """`iso`, or None for no moment."""
    return None if millis is None else iso(millis)


def parse_time(text: str, field: str) -> int:
    """Milliseconds for an ISO 8601 date or date-time (UTC where it names no zone); Invalid names the field."""
    millis = _exact(text)
    if millis is None:
        problem = f"{text[:60]!r} is not a date or time; write it like 2026-11-16 or 2026-11-16T12:00:00Z"
        raise Invalid("A time could not be read.", fields=[FieldError(field, problem)])
    return millis


def parse_moment(text: str, field: str, *, now: int | None = None, ahead: bool = False) -> int:
    """The same, and also a span such as `7d` or `12h`: so long before `now`, or after it where `ahead` is meant."""
    span = _SPAN.fullmatch(text.strip().lower())
    if span is None:
        millis = _exact(text)
    else:
        long = int(span[1]) * _SPAN_MILLIS[span[2]]
        since = SystemClock().now() if now is None else now
        millis = since + long if ahead else since - long
        # Beyond the calendar, on either side, there is nothing to show.
        millis = millis if _FIRST <= millis <= _LAST else None
    if millis is None:
        problem = f"{text[:60]!r} is not a date or time; write it like 2026-11-16, 2026-11-16T12:00:00Z or 7d"
        raise Invalid("A time could not be read.", fields=[FieldError(field, problem)])
    return millis


def _exact(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        # In UTC, so that what is taken in can be shown: a zone moves the first and last days beyond the calendar.
        return round(moment.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
