"""Owns what can be cited: everything that was read, numbered, and how a citation of it is written."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.engines.llm.extractive.extracts import QuotedPassage, computed, parsed, passages
from holdfast.engines.llm.model import CallEvent, Json

MOST_SOURCES = 60
MOST_CHARACTERS = 24_000
"""Of one source; several reads of it add up."""

_OPEN, _CLOSE = '["“„«]', '["”“»]'
CITATION = re.compile(rf"\[\s*(\d{{1,4}}(?:\s*,\s*\d{{1,4}})*)\s*(?:[:,]?\s*{_OPEN}([^\n]{{0,700}}?){_CLOSE}\s*)?\]")
_GAP = re.compile(r"\s*(?:\[\s*(?:\.\.\.|…)\s*\]|\.\.\.|…)\s*")
_PLAIN = str.maketrans({**dict.fromkeys("*_`\u200b\u00ad", ""), **dict.fromkeys("‘’‚", "'")})
_PLAIN |= str.maketrans({**dict.fromkeys("“”„«»", '"'), **dict.fromkeys("‐‑‒–—−", "-")})


@dataclass(slots=True)
class ReadSource:
    """A page, file or document that was read."""

    number: int
    title: str
    address: str
    text: str
    about: str = ""
    """Who, when and where it is: words that a statement may take besides."""
    lines: tuple[int, int] = (0, 0)
    """Of a file's lines the first and the last; a statement may name any of them."""

    def has(self, quote: str) -> bool:
        """Whether it says this, word for word; an ellipsis may leave something out."""
        return _says(_plain(self.text), quote)


class Sources:
    """What a research read, each once, numbered in the order in which it was found."""

    def __init__(self) -> None:
        self._by_key: dict[str, ReadSource] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def by_number(self) -> dict[int, ReadSource]:
        return {source.number: source for source in self._by_key.values()}

    def read(self, call: CallEvent) -> list[int]:
        """Take in what a call gave; the numbers of its sources."""
        if call.failed:
            return []
        numbers = [self.add(each) for each in _passages(call)]
        return list(dict.fromkeys(number for number in numbers if number))

    def add(self, passage: QuotedPassage) -> int:
        """The number of a passage's source; 0 when there are too many."""
        key = passage.source or passage.title
        known = self._by_key.get(key)
        if known is None:
            if len(self._by_key) >= MOST_SOURCES:
                return 0
            known = ReadSource(len(self._by_key) + 1, passage.title, passage.source, "", about=passage.source)
            self._by_key[key] = known
        if passage.text not in known.text:
            known.text = f"{known.text}\n{passage.text}"[:MOST_CHARACTERS].lstrip("\n")
        if passage.title and known.title in ("", known.address):
            known.title = passage.title
        return known.number

    def as_json(self) -> list[Json]:
        return [
            {"title": each.title, "address": each.address, "text": each.text, "key": key}
            for key, each in self._by_key.items()
        ]

    def restore(self, kept: list[Json]) -> None:
        for number, each in enumerate(kept, 1):
            self._by_key[each["key"]] = ReadSource(
                number, each["title"], each["address"], each["text"], about=each["address"]
            )


def came_to_nothing(call: CallEvent) -> bool:
    """Whether a call failed, or gave nothing but pages that could not be read."""
    return call.failed or (_has_errors(parsed(call.outcome.text)) and not any(_passages(call)))


def _passages(call: CallEvent) -> Iterator[QuotedPassage]:
    text = call.outcome.text
    value = parsed(text)
    asked = parsed(call.arguments)
    arguments = asked if isinstance(asked, dict) else {}
    if call.name == "calculator":
        if isinstance(value, dict) and "result" in value:
            line = computed(value, arguments)
            yield QuotedPassage(f"calculator: {line}", line)
        return
    if isinstance(value, (dict, list)):
        yield from passages(_readable(value), call.name)
        return
    url = arguments.get("url")
    if isinstance(url, str) and text.strip():
        yield QuotedPassage(url, text, url)


def _readable(value: Any) -> Any:
    """A result without the pages that could not be read."""
    if isinstance(value, list):
        return [_readable(item) for item in value if not (isinstance(item, dict) and item.get("error"))]
    if isinstance(value, dict):
        return {name: _readable(item) for name, item in value.items()}
    return value


def _has_errors(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_errors, value))
    return isinstance(value, dict) and (bool(value.get("error")) or any(map(_has_errors, value.values())))


def _says(text: str, quote: str) -> bool:
    at = 0
    parts = [part for part in map(_plain, _GAP.split(quote)) if part]
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return bool(parts)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_PLAIN).casefold().split())
