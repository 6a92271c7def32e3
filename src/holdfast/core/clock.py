"""Owns time: milliseconds since the epoch in rows, ISO 8601 in UTC on the wire."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from holdfast.core.errors import FieldError, Invalid

_EPOCH = datetime(1970, 1, 1)


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
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        # In UTC, so that what is taken in can be shown: a zone moves the first and last days beyond the calendar.
        return round(moment.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        problem = f"{text[:60]!r} is not a date or time; write it like 2026-11-16 or 2026-11-16T12:00:00Z"
        raise Invalid("A time could not be read.", fields=[FieldError(field, problem)]) from None
