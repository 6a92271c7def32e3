"""Owns taking a question apart: what it asks for, what kind of answer each part wants, and which sources fit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from holdfast.engines.search.text.analyser import query_words, words
from holdfast.features.ask.sources import Evidence
from holdfast.features.repositories.model import COMMIT, FILE, TAG

Kind = Literal["why", "who", "when", "where", "broke", "how", "what"]

MOST_ASPECTS = 5

_ASKS = r"why|who|whom|whose|when|where|how|which|what"
_CUT = re.compile(
    rf"(?:\?+|;|,|\n|\band\b|&)[\s,;?]*(?:(?:and|also|then)\s+)*(?=(?:since\s+)?(?:{_ASKS})\b)|[?.!]\s+", re.I
)
_FIRST = re.compile(rf"\W*(?:(?:and|also|so|since|by|in|for|from|to)\s+)*({_ASKS})\b", re.I)
_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("broke", re.compile(r"\b(?:breaks?|broken?|regress\w*|bugs?|crash\w*|fail\w*|outages?|incidents?)\b", re.I)),
    ("broke", re.compile(r"\b(?:was|were|got|did)\b.*\b(?:fix|repair|mend|solve|resolve)\w*", re.I)),
    ("why", re.compile(r"\b(?:reasons?|rationale|motivat\w*|justif\w*)\b", re.I)),
    ("who", re.compile(r"\b(?:owns?|owners?|authors?|maintain\w*|responsible|people|person)\b", re.I)),
    ("when", re.compile(r"\b(?:date|year|month|day|release|version)s?\b", re.I)),
    ("where", re.compile(r"\b(?:files?|modules?|director\w+|folders?|defined|located|implemented)\b", re.I)),
)
_OF_FIRST: dict[str, Kind] = {
    "why": "why",
    "who": "who",
    "whom": "who",
    "whose": "who",
    "when": "when",
    "where": "where",
    "how": "how",
}
_TYPES: dict[Kind, frozenset[str]] = {
    "why": frozenset({COMMIT, "pull_request", "issue", "discussion"}),
    "who": frozenset({COMMIT, "pull_request"}),
    "when": frozenset({COMMIT, TAG, "release", "pull_request"}),
    "where": frozenset({FILE}),
    "broke": frozenset({COMMIT, "issue", "pull_request"}),
    "how": frozenset({FILE}),
}
REASON = re.compile(
    r"\b(?:because|instead of|rather than|so that|in order to|due to|reason|since|otherwise|to avoid|therefore|"
    r"decided|chose|prefer)\b",
    re.I,
)
_MENDED = re.compile(r"\b(?:fix\w*|revert\w*|regress\w*|bugs?|broke\w*|crash\w*|hotfix|repair\w*|fail\w*)\b", re.I)
_DECISION = re.compile(r"(?:^|/)(?:adrs?|decisions?)/|(?:^|/)adr-?\d", re.I)
_TEST = re.compile(r"(?:^|/)(?:tests?|spec|__tests__|fixtures?)/|(?:^|/)test_|_test\.|\.(?:spec|test)\.", re.I)
_DATA = re.compile(r"\.(?:lock|csv|tsv|svg|json|map|snap|sum)$|\.min\.|(?:^|/)(?:vendor|node_modules|dist)/", re.I)
_DOCUMENT = re.compile(
    r"\.(?:md|markdown|rst|txt|adoc|org)$|(?:^|/)(?:readme|changelog|contributing|codeowners)[^/]*$", re.I
)


_POINTING = frozenset(["it", "this", "that", "they", "them", "these", "those", "so", "there"])
_EMPTY = _POINTING | frozenset(
    words("decide decided made make done do did does was wrote written changed happened last")
)
"""Words that say nothing of what is asked about."""


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing that a question asks for."""

    kind: Kind
    text: str
    """In the words of the question."""
    query: str
    """What to search for: with the topic where its own words say too little."""

    @property
    def types(self) -> frozenset[str] | None:
        """The kinds of source that answer it best."""
        return _TYPES.get(self.kind)


def aspects_of(question: str) -> list[Aspect]:
    """What a question asks for, in its order; the whole question where it asks for one thing."""
    whole = " ".join(question.split())
    parts = [tidy for part in _CUT.split(whole) if (tidy := part.strip(" ,;.?!&"))]
    said = [part for part in parts if _FIRST.match(part)][:MOST_ASPECTS]
    if len(said) < 2:
        return [Aspect(_kind_of(whole), whole.rstrip(" ?!."), whole)]
    # "In the billing module, why … and where …": what is said before counts for every part.
    setting = " ".join(part for part in parts if not _FIRST.match(part))
    queries = [" ".join(filter(None, (part, setting))) if _says_enough(part) else "" for part in said]
    # "Why was it moved, who decided?": what says too little is about what came before, or what comes after.
    topics = list(accumulate(queries, lambda topic, query: query or topic, initial=next(filter(None, queries), whole)))
    return [Aspect(_kind_of(part), part, topic) for part, topic in zip(said, topics[1:], strict=True)]


def _kind_of(text: str) -> Kind:
    first = _FIRST.match(text)
    known = _OF_FIRST.get(first[1].lower()) if first else None
    if known is not None and known != "how":
        return known
    return next((kind for kind, said in _WORDS if said.search(text)), known or "what")


def _says_enough(part: str) -> bool:
    return len([word for word in query_words(_FIRST.sub("", part)) if word not in _EMPTY]) >= 2


def fitness(kind: Kind, evidence: Evidence) -> float:
    """How much better a source answers that kind of question than its similarity tells."""
    is_file = evidence.kind == FILE
    path = evidence.key if is_file else ""
    better = 0.3 if evidence.exact else 0.0
    if _TEST.search(path) or _DATA.search(path):
        better -= 0.2
    if kind == "why":
        better += 0.25 if REASON.search(evidence.prose) and (not is_file or is_document(path)) else 0.0
        better += 0.2 if _DECISION.search(path) else 0.05 if not is_file else 0.0
    elif kind == "where":
        better += 0.15 if is_file and not is_document(path) else 0.0
    elif kind == "who":
        better += 0.3 if path.rpartition("/")[2] == "CODEOWNERS" else 0.1 if evidence.kind == COMMIT else 0.0
    elif kind == "when":
        better += 0.15 if evidence.kind in (COMMIT, TAG, "release") else 0.0
    elif kind == "broke":
        better += 0.25 if not is_file and _MENDED.search(evidence.title) else 0.0
        better += 0.1 if evidence.kind == "issue" else 0.0
    elif kind == "how":
        better += 0.05 if is_file else 0.0
    return better


def ranked(kind: Kind, found: Sequence[Evidence]) -> list[Evidence]:
    """Sources, those first that answer the kind of question best; far worse ones are left out."""
    scored = sorted(((-each.similarity - fitness(kind, each), number) for number, each in enumerate(found)))
    return [found[number] for score, number in scored if score <= scored[0][0] + 0.35]


def is_document(path: str) -> bool:
    """Whether a file is written for people to read."""
    return bool(_DOCUMENT.search(path))
