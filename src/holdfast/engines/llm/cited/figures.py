"""Owns the figures of a text: numbers with their units, versions and dates, in one way of writing them."""

import re
from dataclasses import dataclass

_NAMES = "jan|january feb|february mar|march apr|april may jun|june jul|july aug|august sep|sept|september oct|october "
_NAMES += "nov|november dec|december"
_MONTHS = {name: number for number, names in enumerate(_NAMES.split(), 1) for name in names.split("|")}
_MONTH = rf"(?P<{{}}>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
# Alone it is a month only where it is written like one: "it may", "a march".
_ALONE = "January|February|March|April|May|June|July|August|September|October|November|December"
_BEFORE_MONTH = "in|since|until|till|by|of|from|to|during|through|before|after|each|every|this|next|last|early|late"
_DATES = (
    re.compile(r"(?<![\d.])(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)(?:-(?P<d>\d\d))?(?!\d)"),
    re.compile(rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH.format('n')},? (?P<y>(?:19|20)\d\d)\b", re.I),
    re.compile(rf"\b{_MONTH.format('n')} (?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y>(?:19|20)\d\d)\b", re.I),
    re.compile(rf"\b{_MONTH.format('n')},? (?P<y>(?:19|20)\d\d)\b", re.I),
    re.compile(rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH.format('n')}\b", re.I),
    re.compile(rf"\b{_MONTH.format('n')} (?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b", re.I),
    re.compile(rf"\b(?i:{_BEFORE_MONTH})[ -](?P<n>{_ALONE})\b"),
)
_WORDS = "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
_WORDS += "eighteen nineteen twenty"
_SPELT = {word: number for number, word in enumerate(_WORDS.split(), 2)}
_SPELT |= {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90, "hundred": 100, "thousand": 1000}
_SPELT |= {"dozen": 12}
_TIMES = {"ms": 1, "millisecond": 1, "s": 1_000, "sec": 1_000, "second": 1_000, "min": 60_000, "minute": 60_000}
_TIMES |= {"h": 3_600_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000, "month": 1, "year": 1}
_SIZES = {"byte": 1, "kb": 2**10, "kib": 2**10, "mb": 2**20, "mib": 2**20, "gb": 2**30, "gib": 2**30, "tb": 2**40}
_UNIT = r"(?:[  -]?(?P<u>%|per ?cent|[a-zA-Z]+))?"
_NUMBER = re.compile(
    r"(?<![\w.])[#v]?(?P<n>\d{1,3}(?:[,_]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)*(?:\.?(?:a|b|rc|dev|post|alpha|beta)\.?\d+)?)"
    rf"{_UNIT}(?![\w])",
    re.I,
)
_WORD = re.compile(rf"\b(?P<n>{'|'.join(_SPELT)})\b{_UNIT}", re.I)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, version or date, with where it stands."""

    kind: str
    """`date`, `time`, `size`, `share` or `number`."""
    value: str
    start: int
    end: int

    def within(self, other: "Figure") -> bool:
        """Whether the other says this as well: March 2024 is in 3 March 2024."""
        if self.kind == "date" and other.kind == "date":
            mine, theirs = self.value.split("-"), other.value.split("-")
            return all(part in ("", their) for part, their in zip(mine, theirs, strict=True))
        if other.kind == "date":
            return self.value == other.value.partition("-")[0]
        return self.value == other.value and (self.kind == other.kind or self.kind == "number")


def figures(text: str) -> list[Figure]:
    """The figures of a text, in order."""
    found: list[Figure] = []
    taken = bytearray(len(text))
    for pattern in (*_DATES, _NUMBER, _WORD):
        for match in pattern.finditer(text):
            if any(taken[match.start() : match.end()]):
                continue
            is_date = pattern in _DATES
            figure = Figure("date", _day(match.groupdict()), match.start(), match.end()) if is_date else _counted(match)
            found.append(figure)
            taken[figure.start : figure.end] = b"\1" * (figure.end - figure.start)
    return sorted(found, key=lambda figure: figure.start)


def _day(parts: "dict[str, str | None]") -> str:
    month = parts.get("m") or str(_MONTHS[(parts.get("n") or "").lower()])
    day = parts.get("d")
    return f"{parts.get('y') or ''}-{int(month)}-{int(day) if day else ''}"


def _counted(match: "re.Match[str]") -> Figure:
    bare = match["n"].lower()
    value = str(_SPELT.get(bare, bare)).replace(",", "").replace("_", "")
    unit = (match["u"] or "").lower()
    single = unit if unit in _TIMES or unit in _SIZES else unit.removesuffix("s")
    for kind, units in (("time", _TIMES), ("size", _SIZES)):
        if single in units and re.fullmatch(r"\d+(?:\.\d+)?", value):
            whole = f"{float(value) * units[single]:g}" if single not in ("month", "year") else f"{value} {single}"
            return Figure(kind, whole, match.start(), match.end())
    if unit.replace(" ", "") in ("%", "percent"):
        return Figure("share", value, match.start(), match.end())
    return Figure("number", value, match.start(), match.end("n"))
