"""Owns time in a question: the stretches of time a query names, and whether it asks for what is recent."""

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

DAY = 86_400_000
RECENT_DAYS = 14.0

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_MONTHS["sept"] = 9
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_WEEKDAYS = {name.lower(): number for number, name in enumerate(calendar.day_name)}
_ORDINAL = r"(\d{1,2})(?:st|nd|rd|th)?"
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "couple of": 2, "few": 3}

_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d{1,2})(?:-(\d{1,2}))?\b")
_DAY_MONTH = re.compile(rf"\b{_ORDINAL}\s+(?:of\s+)?({_MONTH})\b\.?,?(?:\s+((?:19|20)\d\d))?", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b({_MONTH})\b\.?\s+{_ORDINAL}(?!\d)(?:,?\s+((?:19|20)\d\d))?", re.IGNORECASE)
_MONTH_YEAR = re.compile(rf"\b({_MONTH})\b\.?,?\s+(?:of\s+)?((?:19|20)\d\d)\b", re.IGNORECASE)
# "may" and "march" are also ordinary words, so a month alone must be written like a name, or follow a preposition.
_MONTH_ALONE = re.compile(rf"\b(?:in|during|since|last|this|of|by)\s+({_MONTH})\b", re.IGNORECASE)
_MONTH_NAME = re.compile(
    "|".join(rf"\b{name}\b" for name in calendar.month_name if name and name not in ("May", "March"))
)
_YEAR = re.compile(r"\b((?:19|20)\d\d)\b")
_AGO = re.compile(
    r"\b(\d{1,3}|an?|one|two|three|four|five|six|couple of|few)\s+(day|week|month|year)s?\s+ago\b", re.IGNORECASE
)
_SPAN = re.compile(r"\b(last|past|previous|this)\s+(?:(\d{1,3})\s+)?(day|week|month|year|weekend)s?\b", re.IGNORECASE)
_LAST_WEEKDAY = re.compile(rf"\b(?:last|on)\s+({'|'.join(_WEEKDAYS)})\b", re.IGNORECASE)
_DAY_WORD = re.compile(r"\b(today|yesterday|tonight|this morning)\b", re.IGNORECASE)
_RECENT = re.compile(
    r"\b(recent(?:ly)?|latest|newest|lately|just now|currently|these days|most recent|up.to.date|so far)\b",
    re.IGNORECASE,
)
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365, "weekend": 3}


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A stretch of time, its end left out. Every year's where `yearly`: "in May" names no year."""

    start: int
    end: int
    yearly: bool = False


@dataclass(frozen=True, slots=True)
class Moments:
    """What a query says about time."""

    spans: tuple[TimeSpan, ...]
    recent: bool
    now: int

    def __bool__(self) -> bool:
        return bool(self.spans) or self.recent

    def fit(self, moment: int) -> float:
        """How well a moment fits, 0–1: within a span 1, just outside a little, for "recent" the newer the more."""
        best = max((_fit(span, moment) for span in self.spans), default=0.0)
        if self.recent:
            age_days = max(0, self.now - moment) / DAY
            best = max(best, 0.5 ** (age_days / RECENT_DAYS))
        return best


def moments(text: str, now: int) -> Moments:
    """Read the times named in a query asked at `now`."""
    spans: list[TimeSpan] = []
    rest = text
    for pattern, reader in _READERS:
        for match in pattern.finditer(rest):
            span = reader(match, now)
            if span is not None:
                spans.append(span)
        # What one pattern read is not read again by a looser one: the year of a date is not the whole year.
        rest = pattern.sub(" ", rest)
    return Moments(tuple(spans), bool(_RECENT.search(text)), now)


def _fit(span: TimeSpan, moment: int) -> float:
    if span.yearly:
        return 1.0 if datetime.fromtimestamp(moment / 1000, UTC).month == span.start else 0.0
    if span.start <= moment < span.end:
        return 1.0
    # "I went yesterday" is written the day after, and "next week" the week before: near is worth something.
    width = max(span.end - span.start, DAY)
    distance = span.start - moment if moment < span.start else moment - span.end
    return max(0.0, 0.5 - distance / (4 * width)) if distance < 2 * width else 0.0


def _days(year: int, month: int, day: int, count: int = 1) -> TimeSpan | None:
    try:
        start = datetime(year, month, day, tzinfo=UTC)
        end = start + timedelta(days=count)
    except (ValueError, OverflowError):
        return None
    return TimeSpan(_millis(start), _millis(end))


def _month(year: int, month: int) -> TimeSpan | None:
    if not 1 <= month <= 12:
        return None
    return _days(year, month, 1, calendar.monthrange(year, month)[1])


def _iso(match: re.Match[str], now: int) -> TimeSpan | None:
    year, month, day = match.groups()
    return _days(int(year), int(month), int(day)) if day else _month(int(year), int(month))


def _day_month(match: re.Match[str], now: int) -> TimeSpan | None:
    day, month, year = match.groups()
    return _dated(int(day), _MONTHS[month.lower()], year, now)


def _month_day(match: re.Match[str], now: int) -> TimeSpan | None:
    month, day, year = match.groups()
    return _dated(int(day), _MONTHS[month.lower()], year, now)


def _dated(day: int, month: int, year: str | None, now: int) -> TimeSpan | None:
    if year:
        return _days(int(year), month, day)
    today = _date(now)
    span = _days(today.year, month, day)
    # A date without a year is the last one that has been.
    return _days(today.year - 1, month, day) if span and span.start > now else span


def _month_year(match: re.Match[str], now: int) -> TimeSpan | None:
    return _month(int(match.group(2)), _MONTHS[match.group(1).lower()])


def _month_alone(match: re.Match[str], now: int) -> TimeSpan | None:
    return TimeSpan(_MONTHS[match.group(match.lastindex or 0).lower()], 0, yearly=True)


def _year(match: re.Match[str], now: int) -> TimeSpan | None:
    year = int(match.group(1))
    return _days(year, 1, 1, 366 if calendar.isleap(year) else 365)


def _ago(match: re.Match[str], now: int) -> TimeSpan | None:
    word, unit = match.group(1).lower(), match.group(2).lower()
    count = int(word) if word.isdigit() else _NUMBERS[word]
    width = _UNIT_DAYS[unit] * DAY
    middle = now - count * width
    return TimeSpan(_midnight(middle - (width // 2 if width > DAY else 0)), _midnight(middle + width // 2) + DAY)


def _span(match: re.Match[str], now: int) -> TimeSpan | None:
    which, count, unit = match.group(1).lower(), int(match.group(2) or 1), match.group(3).lower()
    width = _UNIT_DAYS[unit] * count * DAY
    if which == "this" or match.group(2):
        return TimeSpan(_midnight(now - width), now + 1)
    return TimeSpan(_midnight(now - 2 * width if unit in ("week", "month", "year") else now - width), now + 1)


def _weekday(match: re.Match[str], now: int) -> TimeSpan | None:
    today = _date(now)
    back = (today.weekday() - _WEEKDAYS[match.group(1).lower()]) % 7 or 7
    start = _midnight(now) - back * DAY
    return TimeSpan(start, start + DAY)


def _day_word(match: re.Match[str], now: int) -> TimeSpan | None:
    start = _midnight(now) - (DAY if match.group(1).lower() == "yesterday" else 0)
    return TimeSpan(start, start + DAY)


_READERS = (
    (_ISO, _iso),
    (_DAY_MONTH, _day_month),
    (_MONTH_YEAR, _month_year),
    (_MONTH_DAY, _month_day),
    (_MONTH_ALONE, _month_alone),
    (_MONTH_NAME, _month_alone),
    (_YEAR, _year),
    (_AGO, _ago),
    (_SPAN, _span),
    (_LAST_WEEKDAY, _weekday),
    (_DAY_WORD, _day_word),
)


def _date(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


def _midnight(millis: int) -> int:
    return millis - millis % DAY


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
