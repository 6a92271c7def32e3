"""Owns quoting: passages out of tool results, and the sentences of passages that are about a question."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.engines.search.text.analyser import query_words, words

MOST_CHARACTERS = 48_000
MOST_SENTENCES = 5
LONGEST_SENTENCE = 420
_BLOCK_MARKS = re.compile(r"\A(?:(?:#{1,6}|>|[-*+])\s+|>)+")

_FENCED = re.compile(r"<untrusted (\w+)>\n(.*)\n</untrusted \1>", re.S)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\s])|\n+")
_TEXT_FIELDS = ("content", "chunk_text", "text", "snippet", "abstract", "readme")
_TITLE_FIELDS = ("title", "filename", "path", "repository", "name", "url", "category")
_SOURCE_FIELDS = ("url", "filename", "html_url", "path", "artifact_id", "id")


@dataclass(frozen=True, slots=True)
class QuotedPassage:
    """A text and where it is from."""

    title: str
    text: str
    source: str = ""
    place: int = 0
    """Among other kinds of sources: of equally good sentences those of the lowest place come first."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of a passage."""

    text: str
    passage: QuotedPassage


def plain(text: str) -> str:
    """A tool's text without the fence that marks it as untrusted."""
    fenced = _FENCED.search(text)
    return fenced[2] if fenced else text


def parsed(text: str) -> Any:
    """A tool's text as JSON, or None."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def passages(value: Any, title: str) -> Iterator[QuotedPassage]:
    """The passages of a tool's JSON, whatever its shape: every object that has a text."""
    if isinstance(value, list):
        for item in value:
            yield from passages(item, title)
    elif isinstance(value, dict):
        text = _first(value, _TEXT_FIELDS)
        if text:
            yield QuotedPassage(_first(value, _TITLE_FIELDS) or title, text, _first(value, _SOURCE_FIELDS))
        for item in value.values():
            if isinstance(item, (list, dict)):
                yield from passages(item, title)


def computed(value: dict[str, Any], arguments: dict[str, Any]) -> str:
    """A calculator's result as one line."""
    exact, result = value.get("exact"), value["result"]
    if isinstance(exact, str):
        shown = exact
    elif isinstance(result, float) and result.is_integer() and abs(result) < 2**53:
        shown = str(int(result))
    else:
        shown = str(result)
    return f"{value.get('expression', arguments.get('expression', ''))} = {shown}"


def quotes(question: str, found: Sequence[QuotedPassage]) -> list[Quote]:
    """The sentences that have most of the question's rarer words, best first, none twice.

    A question is no answer to a question: where it was kept, in an earlier report or as a heading, it is passed over.
    """
    wanted = set(query_words(question))
    sentences = [quote for quote in _sentences(found) if not (_is_asked(question) and _is_asked(quote.text))]
    of_words = [wanted.intersection(words(quote.text)) for quote in sentences]
    seen_in = Counter(word for matched in of_words for word in matched)
    scored = []
    for number, (quote, matched) in enumerate(zip(sentences, of_words, strict=True)):
        if matched:
            scored.append((-sum(1 / (1 + seen_in[word] / len(sentences)) for word in matched), number, quote))
    enough = min((score for score, _, _ in scored), default=0.0) / 2
    scored.sort(key=lambda each: (each[2].passage.place, each[:2]))
    best = [quote for score, _, quote in scored if score <= enough]
    return _distinct(best)


def _is_asked(text: str) -> bool:
    return text.rstrip().endswith("?")


def opening(found: Sequence[QuotedPassage]) -> list[Quote]:
    """The first sentences of each passage, where a question has no words to look for."""
    return _distinct(list(_sentences(found)))


def _sentences(found: Sequence[QuotedPassage]) -> Iterator[Quote]:
    left = MOST_CHARACTERS
    for passage in found:
        text = passage.text[:left]
        left -= len(text)
        for sentence in _SENTENCE.split(text):
            tidy = _BLOCK_MARKS.sub("", " ".join(sentence.split()))
            if len(tidy) >= 3:
                yield Quote(_paired(tidy if len(tidy) <= LONGEST_SENTENCE else f"{tidy[:LONGEST_SENTENCE]}…"), passage)


def _paired(text: str) -> str:
    """A sentence cut out of Markdown, without the marks whose other half stayed behind."""
    for mark in ("**", "__", "`"):
        if text.count(mark) % 2:
            text = text.replace(mark, "")
    return text.strip()


def _distinct(found: Sequence[Quote]) -> list[Quote]:
    kept: dict[str, Quote] = {}
    for quote in found:
        kept.setdefault(quote.text.lower(), quote)
        if len(kept) == MOST_SENTENCES:
            break
    return list(kept.values())


def _first(value: dict[str, Any], fields: Sequence[str]) -> str:
    return next((text for field in fields if isinstance(text := value.get(field), str) and text), "")
