"""Owns citations: what was read, numbered, and each citation of a report checked against it as it is written."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.engines.llm.extractive.extracts import QuotedPassage, parsed, passages
from holdfast.engines.llm.model import CallEvent, Json
from holdfast.engines.search.text.analyser import query_words, words

MOST_SOURCES = 60
MOST_CHARACTERS = 24_000
"""Of one source; several reads of it add up."""

_LONGEST = 700
_QUOTED_WORDS = 3
_OPEN, _CLOSE = '["“„«]', '["”“»]'
CITATION = re.compile(rf"\[\s*(\d{{1,4}}(?:\s*,\s*\d{{1,4}})*)\s*(?:[:,]?\s*{_OPEN}([^\n]{{0,700}}?){_CLOSE}\s*)?\]")
_BEGUN = re.compile(rf"\[\s*(?:\d[\d\s,]*(?:[:,]?\s*(?:{_OPEN}[^\n]*)?)?)?")
_MARK = re.compile(r"\[\d+\]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_SPAN = re.compile(rf"{_OPEN}([^\"“”„«»]{{3,400}}){_CLOSE}")
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
        if call.failed or call.name == "calculator":
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
            known = ReadSource(len(self._by_key) + 1, passage.title, passage.source, "")
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
            self._by_key[each["key"]] = ReadSource(number, each["title"], each["address"], each["text"])


class CitationCheck:
    """Reads a report in pieces and lets it go on with only those citations that hold.

    A citation is `[3]`, or `[3 "words of the source"]`. It is dropped, and counted, when there is no source of that
    number; when its quoted words, or those quoted before it, are not in the source; or, without a quotation, when the
    source has hardly a word of what it is said to support.
    """

    def __init__(self, sources: Mapping[int, ReadSource]) -> None:
        self._sources = sources
        self._words: dict[int, frozenset[str]] = {}
        self._texts: dict[int, str] = {}
        self._pending = ""
        self._said = ""
        self._line = ""
        self._fenced = False
        self._out: list[str] = []
        self.cited: dict[int, list[str]] = {}
        """The numbers that hold, with the quotations that were checked."""
        self.dropped = 0

    def feed(self, text: str) -> str:
        """The part of the report that is certain by now."""
        self._pending += text
        while self._pending and self._step():
            pass
        return self._taken()

    def end(self) -> str:
        """What was held back."""
        self._say(self._pending)
        self._pending = ""
        return self._taken()

    def _step(self) -> bool:
        before, bracket, _ = self._pending.partition("[")
        head = before.rstrip(" ")
        if head:
            self._say(head)
            self._pending = self._pending[len(head) :]
        if not bracket:
            return False
        spaces, rest = before[len(head) :], self._pending.lstrip(" ")
        found = None if self._in_code else CITATION.match(rest)
        if found is not None:
            kept = self._checked(found)
            self._say(spaces + kept if kept else "")
            self._pending = rest[found.end() :]
        elif not self._in_code and len(rest) <= _LONGEST and _BEGUN.fullmatch(rest):
            return False
        else:
            self._say(f"{spaces}[")
            self._pending = rest[1:]
        return True

    def _checked(self, found: "re.Match[str]") -> str:
        kept = []
        for number in dict.fromkeys(int(each) for each in found[1].split(",")):
            quote = (found[2] or "").strip()
            if self._holds(number, quote):
                known = self.cited.setdefault(number, [])
                if quote and quote not in known:
                    known.append(quote)
                kept.append(f"[{number}]")
            else:
                self.dropped += 1
        return "".join(kept)

    def _holds(self, number: int, quote: str) -> bool:
        source = self._sources.get(number)
        if source is None:
            return False
        if quote:
            return _says(self._text_of(source), quote)
        claim = self._claim()
        spans = [span for span in _SPAN.findall(claim) if len(span.split()) >= _QUOTED_WORDS]
        if spans:
            return _says(self._text_of(source), spans[-1])
        wanted = set(query_words(claim))
        return len(wanted & self._words_of(source)) * 3 >= len(wanted)

    def _claim(self) -> str:
        """What the citation at this place is said to support: the sentence, from the citation before on."""
        sentence = _SENTENCE.split(self._said.rstrip().rstrip(".!?"))[-1]
        parts = [part for part in _MARK.split(sentence) if part.strip(" ,;.")]
        return parts[-1] if parts else ""

    def _words_of(self, source: ReadSource) -> frozenset[str]:
        if source.number not in self._words:
            self._words[source.number] = frozenset(words(f"{source.title} {source.text}"))
        return self._words[source.number]

    def _text_of(self, source: ReadSource) -> str:
        if source.number not in self._texts:
            self._texts[source.number] = _plain(source.text)
        return self._texts[source.number]

    @property
    def _in_code(self) -> bool:
        return self._fenced or self._line.lstrip().startswith("```") or self._line.count("`") % 2 == 1

    def _say(self, text: str) -> None:
        self._out.append(text)
        self._said = (self._said + text)[-2_000:]
        lines = (self._line + text).split("\n")
        for line in lines[:-1]:
            if line.lstrip().startswith("```"):
                self._fenced = not self._fenced
        self._line = lines[-1]

    def _taken(self) -> str:
        text, self._out = "".join(self._out), []
        return text


def bibliography(check: CitationCheck, sources: Mapping[int, ReadSource]) -> str:
    """What the numbers of a report mean, with the words that were found there, and how many citations did not hold."""
    lines = []
    for number in sorted(check.cited):
        source = sources[number]
        name = source.title or source.address
        shown = f"{name} – {source.address}" if source.address and source.address != name else name
        quoted = "".join(f"\n  > {quote}" for quote in check.cited[number][:3])
        lines.append(f"- [{number}] {shown}{quoted}")
    parts = ["## Sources\n\n" + "\n".join(lines)] if lines else []
    if check.dropped:
        noun = "citation was" if check.dropped == 1 else "citations were"
        parts.append(f"*{check.dropped} {noun} left out: not confirmed by the text that was read.*")
    return "\n\n".join(parts)


def _passages(call: CallEvent) -> Iterator[QuotedPassage]:
    text = call.outcome.text
    value = parsed(text)
    if isinstance(value, (dict, list)):
        yield from passages(_readable(value), call.name)
        return
    arguments = parsed(call.arguments)
    url = arguments.get("url") if isinstance(arguments, dict) else None
    if isinstance(url, str) and text.strip():
        yield QuotedPassage(url, text, url)


def _readable(value: Any) -> Any:
    """A result without the pages that could not be read."""
    if isinstance(value, list):
        return [_readable(item) for item in value if not (isinstance(item, dict) and item.get("error"))]
    if isinstance(value, dict):
        return {name: _readable(item) for name, item in value.items()}
    return value


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
