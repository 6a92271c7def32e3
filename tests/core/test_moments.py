"""Moments as people write them: a date, a time, or so long ago."""

import pytest

from holdfast.core.clock import parse_moment, parse_time
from holdfast.core.errors import Invalid

NOW = 1_800_000_000_000
DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "millis"),
    [("7d", 7 * DAY), ("2w", 14 * DAY), ("12h", DAY // 2), ("30m", 1_800_000), ("45s", 45_000), (" 7 D ", 7 * DAY)],
)
def test_a_span_is_so_long_ago_or_ahead(text: str, millis: int) -> None:
    assert parse_moment(text, "since", now=NOW) == NOW - millis
    assert parse_moment(text, "expires_at", now=NOW, ahead=True) == NOW + millis


def test_a_date_is_read_as_ever() -> None:
    for text in ("2026-11-16", "2026-11-16T12:00:00Z", "2026-11-16T12:00:00+02:00"):
        assert parse_moment(text, "since", now=NOW) == parse_time(text, "since")


@pytest.mark.parametrize("text", ["", "d", "7", "7y", "-7d", "7d ago", "999999w", "soon", "٧d"])
def test_whatever_else_is_refused_by_field(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_moment(text, "since", now=NOW)
    assert caught.value.fields[0].field == "since" and "7d" in caught.value.fields[0].message
