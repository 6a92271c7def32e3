"""Owns the glossary: the project's own words, each with the sentence that says what it means and where that stands."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2

from holdfast.features.synthesis.findings.page import DerivedPage
from holdfast.features.synthesis.model import FindingDraft, FindingOrigin, in_file
from holdfast.features.synthesis.sources.facts import Facts
from holdfast.features.synthesis.sources.quoting import DocumentBlock, blocks, first_sentence, is_fit, plain

MOST = 40
_DOCUMENT = re.compile(r"\.(?:md|markdown|rst|txt|adoc)$|(?:^|/)readme$", re.IGNORECASE)
_MEANS = re.compile(
    r"^(?:(?:A|An|The|In \w+, an?) )?[`\"'*]*([A-Za-z][\w .-]{1,38}?)[`\"'*]* "
    r"(?:is|are|means|denotes|describes|stands for|refers to) (?:an?|the|one|how|what|where|every|any|our)\b"
)
_LED = re.compile(r"^\s*(?:[-*+]\s+)?\*\*([^*\n]{2,40}?)(?:[:.]\*\*|\*\*\s*[-–—:.])\s+(\S.{10,})$")
_EXPANDED = re.compile(r"\b((?:[A-Za-z]\w*[ -]){1,6}[A-Za-z]\w*) \(([A-Z][A-Za-z]?[A-Z0-9]{1,6})s?\)")
_ACRONYM = re.compile(r"\b([A-Z][A-Z0-9]{1,6}) \(((?:[A-Za-z]\w*[ -]){1,6}[A-Za-z]\w*)\)")
_COMMON = re.compile(
    r"(?:this|that|it|these|there|here|note|they|we|you|he|she|what|which|if|when|where|who|example|usage|"
    r"default|warning|tip|result|output|input|file|files|name|value|type|option|options|following|first|"
    r"second|third|one|status|context|decision|consequences|alternatives|summary|description|license|"
    r"installation|requirements|features)",
    re.IGNORECASE,
)
"""Words that are explained everywhere, and mean nothing of their own."""
_FAILURE = re.compile(r"(?:Error|Exception|NotFound|Refused|Failed|Invalid|Missing|Conflict|Taken)$")
_TESTS = re.compile(r"(?:^|/)(?:tests?|spec|bench|examples?|fixtures)/|(?:^|/)test_|_test\.")
_DETERMINER = re.compile(r"^(?:the|a|an|every|each|any|all|some|our|its|your|both|no)\s+", re.IGNORECASE)
_NAME = re.compile(r"\b[A-Z][A-Za-z0-9]{2,60}\b")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Meaning:
    """A word and what it means here."""

    term: str
    text: str
    citation: FindingOrigin
    score: float


def glossary(facts: Facts) -> FindingDraft | None:
    """The page; None where nothing is explained."""
    used = _words_in_names(facts)
    best: dict[str, Meaning] = {}
    for found in _meanings(facts, used):
        key = found.term.lower().removesuffix("s")
        if key not in best or found.score > best[key].score:
            best[key] = found
    if not best:
        return None
    shown = sorted(best.values(), key=lambda each: (-each.score, each.term.lower()))[:MOST]
    page = DerivedPage(facts.repository, "glossary")
    page.head("Terms")
    for each in sorted(shown, key=lambda each: each.term.lower()):
        page.point(f"**{each.term}**: {each.text}", (each.citation, each.text))
    return None if page.is_empty else page.draft()


def _meanings(facts: Facts, used: Counter[str]) -> Iterator[Meaning]:
    for path in sorted(facts.texts):
        if _DOCUMENT.search(path):
            yield from _in_document(path, facts.texts[path], used)
    mentioned = _mentions(facts)
    for path, known in facts.outlines.items():
        for term in known.terms:
            if not _FAILURE.search(term.name) and not _TESTS.search(path):
                weight = 1.0 + _weight(term.name, used) / 2 + log2(1 + mentioned[term.name])
                yield Meaning(term.name, term.text, in_file(path, term.start_line, term.end_line), weight)


def _in_document(path: str, lines: Sequence[str], used: Counter[str]) -> Iterator[Meaning]:
    for block in blocks(lines):
        if block.level or block.code or not is_fit(block.text):
            continue
        raw = " ".join(line.strip() for line in lines[block.start_line - 1 : block.end_line])
        yield from _acronyms(path, block)
        bonus = 2.0 if re.search(r"gloss|terms|concept|vocabul|terminolog", block.heading, re.IGNORECASE) else 0.0
        led = _LED.match(raw)
        said = _MEANS.match(block.text)
        if led is not None and _is_term(led[1]):
            text = first_sentence(plain(led[2]))
            yield _meaning(led[1], text, path, block, 2.0 + bonus, used)
        elif said is not None and _is_term(said[1]):
            yield _meaning(said[1], first_sentence(block.text), path, block, 3.0 + bonus, used)


def _meaning(term: str, text: str, path: str, block: DocumentBlock, score: float, used: Counter[str]) -> Meaning:
    name = _DETERMINER.sub("", term.strip(" `'\""))
    return Meaning(name, text, in_file(path, block.start_line, block.end_line), score + _weight(name, used))


def _acronyms(path: str, block: DocumentBlock) -> Iterator[Meaning]:
    pairs = [(short, words) for words, short in _EXPANDED.findall(block.text)]
    pairs += _ACRONYM.findall(block.text)
    for short, words in pairs:
        meant = _expansion(short, words)
        if meant:
            citation = in_file(path, block.start_line, block.end_line)
            yield Meaning(short, f"{meant}. “{first_sentence(block.text)}”", citation, 4.0)


def _expansion(short: str, words: str) -> str:
    """The last words whose first letters spell the acronym; empty when they do not."""
    parts = re.split(r"[ -]", words)
    letters = [letter.lower() for letter in short if letter.isalpha()]
    tail = parts[-len(letters) :]
    if len(tail) == len(letters) and all(
        part[:1].lower() == letter for part, letter in zip(tail, letters, strict=True)
    ):
        return " ".join(tail)
    return ""


def _is_term(text: str) -> bool:
    bare = _DETERMINER.sub("", text.strip(" `'\""))
    words = bare.split()
    plain_words = re.fullmatch(r"[A-Za-z][\w .+/-]*", bare) is not None and "and" not in words
    return 0 < len(words) <= 4 and plain_words and _COMMON.fullmatch(words[0]) is None


def _words_in_names(facts: Facts) -> Counter[str]:
    """How often each word is part of a name that the code defines."""
    used: Counter[str] = Counter()
    for symbol in facts.symbols:
        used.update({word.lower() for word in _WORD.findall(symbol.name) if len(word) > 2})
    return used


def _mentions(facts: Facts) -> Counter[str]:
    """In how many documents each word with a capital within stands."""
    found: Counter[str] = Counter()
    for path, lines in facts.texts.items():
        if _DOCUMENT.search(path):
            found.update(set(_NAME.findall("\n".join(lines))))
    return found


def _weight(term: str, used: Counter[str]) -> float:
    words = [word.lower() for word in _WORD.findall(term)]
    return max((log2(1 + used[word] + used[word.removesuffix("s")]) for word in words), default=0.0) / 2
