"""Owns how a memory's text becomes terms: amounts, times and dates in one spelling, words as stems of one meaning."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from holdfast.engines.search.text.analyser import stemmed
from holdfast.features.memory.writing.vocabulary import PHRASES, SYNONYMS

Kind = Literal["word", "name", "amount", "time", "date", "day", "frequency"]

_NUMBERS = {
    word: value
    for value, word in enumerate(
        (
            *(
                "zero",
                "one",
                "two",
                "three",
                "four",
                "five",
                "six",
                "seven",
                "eight",
                "nine",
                "ten",
                "eleven",
                "twelve",
            ),
            *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
        )
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100}
_MONTHS = {
    name: number + 1
    for number, name in enumerate(
        (
            *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
            *("november", "december"),
        )
    )
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# To the smallest of each kind, so that one hour is sixty minutes.
_UNITS: dict[str, tuple[str, float]] = {
    name: (dimension, factor)
    for dimension, factor, names in (
        ("s", 0.001, "ms millisecond milliseconds"),
        ("s", 1, "s sec secs second seconds"),
        ("s", 60, "min mins minute minutes"),
        ("s", 3_600, "h hr hrs hour hours"),
        ("s", 86_400, "d day days"),
        ("s", 604_800, "week weeks"),
        ("month", 1, "month months"),
        ("month", 12, "year years"),
        ("B", 1, "byte bytes"),
        ("B", 1_000, "kb kilobyte kilobytes"),
        ("B", 1_000_000, "mb megabyte megabytes mib"),
        ("B", 1_000_000_000, "gb gigabyte gigabytes gib"),
        ("B", 1_000_000_000_000, "tb terabyte terabytes tib"),
        ("m", 0.01, "cm"),
        ("m", 1, "m metre metres meter meters"),
        ("m", 1_000, "km kilometre kilometres kilometer kilometers"),
        ("g", 0.001, "mg milligram milligrams"),
        ("g", 1, "g gram grams"),
        ("g", 1_000, "kg kilo kilos kilogram kilograms"),
        ("%", 1, "% percent"),
        ("°", 1, "° °c degrees degree"),
        ("$", 1, "$ dollar dollars usd"),
        ("€", 1, "€ euro euros eur"),
        ("£", 1, "£ pound pounds gbp"),
        ("px", 1, "px pixel pixels"),
    )
    for name in names.split()
}
_PERIODS = {
    "second": "second", "sec": "second", "s": "second", "minute": "minute", "min": "minute", "hour": "hour",
    "hr": "hour", "h": "hour", "day": "day", "night": "night", "week": "week", "fortnight": "2 week", "month": "month",
    "quarter": "quarter", "year": "year", "morning": "morning", "evening": "evening", "weekday": "weekday",
}  # fmt: skip
_ADVERBS = {
    "hourly": "hour", "daily": "day", "nightly": "night", "weekly": "week", "fortnightly": "2 week",
    "biweekly": "2 week", "monthly": "month", "quarterly": "quarter", "yearly": "year", "annually": "year",
    "weekdays": "weekday", "weekday": "weekday",
}  # fmt: skip

_NUMBER = rf"\d[\d,]*(?:\.\d+)?|\b(?:{'|'.join(_NUMBERS)})\b"
_MONTH = rf"(?:{'|'.join(_MONTHS)})"
_PERIOD = rf"(?:{'|'.join(sorted(_PERIODS, key=len, reverse=True))})s?"
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_TERM = re.compile(
    rf"(?P<url>https?://[^\s<>\"]+)"
    rf"|(?P<iso>\b\d{{4}}-\d\d-\d\d\b)"
    rf"|(?P<dmy>\b\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<dmonth>{_MONTH})\b(?:,? (?P<dyear>\d{{4}}))?"
    rf"|\b(?P<mmonth>{_MONTH}) (?P<mday>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,? (?P<myear>\d{{4}}))?"
    rf"|\b(?P<half>half|quarter) (?P<side>past|to) (?P<halfhour>{_NUMBER})"
    rf"|\b(?P<hour>\d{{1,2}})(?::(?P<minute>\d\d))?(?::\d\d)? ?(?P<noon>[ap]\.?m\b\.?)"
    rf"|\b(?P<clock>\d{{1,2}}:\d\d)\b(?!:)"
    rf"|\b(?P<word_time>noon|midday|midnight)\b"
    rf"|\bevery (?:other|second) (?P<other>{_PERIOD}|{'|'.join(_DAYS)})\b"
    rf"|\b(?:(?P<often>once|twice|(?:{_NUMBER}) times) (?:an?|per|every|each) |(?:every|each) (?:(?P<nth>{_NUMBER}) )?)"
    rf"(?P<period>{_PERIOD})\b"
    rf"|\b(?P<adverb>{'|'.join(_ADVERBS)})\b"
    rf"|(?:\bper |/|\ban? )(?P<rate>{_PERIOD})\b"
    rf"|(?<![\w.\-/])(?P<minus>-|minus )?(?P<money>[$€£])?(?P<number>{_NUMBER})(?P<scale>k\b| million\b| thousand\b)?"
    rf"(?:[ -]?(?P<unit>{_UNIT})(?![\w/]))?(?![\w]|[-./]\w)"
    rf"|(?P<word>[^\W_]+(?:[-_./:'+#@][^\W_]+)*[+#]*|/[\w/.-]+)",
    re.IGNORECASE,
)
_SPANS = ("for", "within", "after", "in", "every", "lasts", "takes", "is")
_PHRASE = re.compile(
    rf"\b(?:{'|'.join(f'(?P<p{place}>{pattern})' for place, (pattern, _) in enumerate(PHRASES))})\b", re.IGNORECASE
)
_LONG = re.compile(r"(?<=s) long\b")
_OLD = re.compile(r"\b(\w+)-(year|month|week|day|hour|minute)s?-old\b", re.IGNORECASE)
_BEFORE = " \n\t-*>#\"'([."
"""What may stand before a sentence's first word."""


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """One word or amount of a text, in the spelling that all its likes share."""

    key: str
    kind: Kind
    said: str
    """As it was written, in lower case."""
    group: str = ""
    """Of an amount, what is measured: amounts of different things are not two values of one."""

    @property
    def is_value(self) -> bool:
        """Whether another one in its place says something else."""
        return self.kind != "word"


def terms(sentence: str) -> list[MemoryTerm]:
    """The sentence, term by term."""
    text = _LONG.sub("", _OLD.sub(r"\1 \2s old", sentence.replace("’", "'")))
    return list(_terms(_PHRASE.sub(_one_word, text)))


def _one_word(phrase: re.Match[str]) -> str:
    assert phrase.lastgroup is not None
    return PHRASES[int(phrase.lastgroup[1:])][1]


def _terms(text: str) -> Iterator[MemoryTerm]:
    last = MemoryTerm("", "word", "")
    for match in _TERM.finditer(text):
        if match.lastgroup == "word":
            made = _word(match, text)
        else:
            found, said = match.groupdict(), match.group(0).lower()
            made = iter([_amount(found, said, last)]) if found["number"] else _moment(found, said, last)
        for last in made:
            yield last


def _amount(found: dict[str, Any], said: str, last: MemoryTerm) -> MemoryTerm:
    number = found["number"].lower()
    value = float(_NUMBERS[number]) if number in _NUMBERS else float(number.replace(",", ""))
    value *= {"k": 1_000, "thousand": 1_000, "million": 1_000_000}.get((found["scale"] or "").strip().lower(), 1)
    if found["minus"]:
        value = -value
    unit = (found["unit"] or found["money"] or "").lower()
    if not unit and (last.kind == "name" or last.said == "version"):
        # 'PostgreSQL 16' and 'version 16' are names; '16 servers' are counted.
        return MemoryTerm(f"{value:g}", "name", said)
    if (
        not unit
        and number.isdigit()
        and 1900 <= value < 2100
        and last.said in ("in", "since", "until", "by", "of", "from")
    ):
        return MemoryTerm(number, "date", said)
    if not unit and last.said == "at" and 0 <= value <= 24 and value.is_integer():
        return MemoryTerm(f"{int(value):02d}:00", "time", said)
    dimension, factor = _UNITS.get(unit, ("", 1))
    return MemoryTerm(f"{value * factor:g}{dimension}", "amount", said, dimension)


def _moment(found: dict[str, Any], said: str, last: MemoryTerm) -> Iterator[MemoryTerm]:
    if found["rate"] and last.said in _SPANS and not said.startswith(("per", "/")) and found["rate"].lower() in _UNITS:
        dimension, factor = _UNITS[found["rate"].lower()]
        yield MemoryTerm(f"{factor:g}{dimension}", "amount", said, dimension)
    elif found["url"]:
        yield MemoryTerm(said.rstrip("/.,;)"), "name", said)
    elif found["iso"]:
        year, month, day = said.split("-")
        yield from _date(int(month), int(day), year, said)
    elif found["dmy"]:
        yield from _date(_MONTHS[found["dmonth"].lower()], int(found["dmy"]), found["dyear"], said)
    elif found["mday"]:
        yield from _date(_MONTHS[found["mmonth"].lower()], int(found["mday"]), found["myear"], said)
    elif found["other"]:
        other = found["other"].lower().removesuffix("s")
        yield MemoryTerm(f"2 {_PERIODS.get(other, other)}", "frequency", said)
    elif found["period"]:
        yield _frequency(found, said)
    elif found["adverb"]:
        yield MemoryTerm(_ADVERBS[said], "frequency", said)
    elif found["rate"]:
        yield MemoryTerm(_period(found["rate"]), "frequency", said)
    else:
        yield MemoryTerm(_clock(found, said), "time", said)


def _date(month: int, day: int, year: str | None, said: str) -> Iterator[MemoryTerm]:
    yield MemoryTerm(f"{month:02d}-{day:02d}", "date", said)
    if year:
        yield MemoryTerm(year, "date", said)


def _frequency(found: dict[str, Any], said: str) -> MemoryTerm:
    period, often, nth = _period(found["period"]), (found["often"] or "").lower(), (found["nth"] or "").lower()
    times = {"": 1, "once": 1, "twice": 2}.get(often) or _count(often.removesuffix(" times"))
    every = _count(nth) if nth else 1
    return MemoryTerm(
        f"{times}/{period}" if times > 1 else f"{every} {period}" if every > 1 else period, "frequency", said
    )


def _count(number: str) -> int:
    return _NUMBERS[number] if number in _NUMBERS else int(float(number.replace(",", "")))


def _period(word: str) -> str:
    lowered = word.lower()
    return _PERIODS.get(lowered) or _PERIODS[lowered.removesuffix("s")]


def _clock(found: dict[str, Any], said: str) -> str:
    if found["word_time"]:
        return "00:00" if said == "midnight" else "12:00"
    if found["half"]:
        hour, minutes = _count(found["halfhour"].lower()), 30 if found["half"].lower() == "half" else 15
        return f"{hour:02d}:{minutes:02d}" if found["side"].lower() == "past" else f"{hour - 1:02d}:{60 - minutes:02d}"
    if found["clock"]:
        digits, minute = said.split(":")
        return f"{int(digits):02d}:{minute}"
    hour = int(found["hour"]) % 12 + (12 if found["noon"].lower().startswith("p") else 0)
    return f"{hour:02d}:{found['minute'] or '00'}"


def _word(match: re.Match[str], text: str) -> Iterator[MemoryTerm]:
    word = match.group(0)
    said = word.lower()
    lowered = said.removesuffix("'s")
    if lowered.removesuffix("s") in _DAYS:
        yield MemoryTerm(lowered.removesuffix("s"), "day", lowered)
        return
    if lowered in _MONTHS and word[0].isupper():
        yield MemoryTerm(f"{_MONTHS[lowered]:02d}", "date", lowered)
        return
    if "/" in lowered and not lowered.startswith("/") and lowered.count("/") == 1 and lowered.split("/")[1] in _PERIODS:
        noun, period = lowered.split("/")
        yield MemoryTerm(canonical(noun), "word", noun)
        yield MemoryTerm(_PERIODS[period], "frequency", lowered)
        return
    opens = not text[max(0, match.start() - 12) : match.start()].strip(_BEFORE)
    kind: Kind = "name" if _is_name(word, opens) else "word"
    plain = lowered.replace("-", "") if lowered.replace("-", "").isalpha() else lowered
    yield MemoryTerm(canonical(plain), kind, said)


def _is_name(word: str, opens_sentence: bool) -> bool:
    if any(map(str.isdigit, word)) or re.search(r"[a-z][A-Z]|[_/@+#]|\w\.\w", word):
        return True
    if word.isupper() and len(word) > 1:
        return True
    return word[0].isupper() and word != "I" and not opens_sentence


def canonical(word: str) -> str:
    """The stem of a word, or of the word that means the same."""
    return SYNONYMS.get(word) or _canonical(word)


@lru_cache(maxsize=20_000)
def _canonical(word: str) -> str:
    stem = stemmed(word)
    return SYNONYMS.get(stem, stem)
