"""Owns taking a question apart: what it asks for, what kind of answer each part wants, and which sources fit."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from holdfast.engines.search.text.analyser import query_words, words
from holdfast.features.ask.sources import Evidence
from holdfast.features.ask.topic import AskedTopic
from holdfast.features.repositories.model import COMMIT, FILE, TAG
from holdfast.registry.precedence import KnowledgeKind, in_order, place_of_path

Kind = Literal["why", "who", "when", "version", "where", "broke", "how", "what"]

MOST_ASPECTS = 5

_ASKS = r"why|who|whom|whose|when|where|how|which|what"
_CUT = re.compile(
    rf"(?:\?+|;|,|\n|\band\b|&)[\s,;?]*(?:(?:and|also|then)\s+)*(?=(?:(?:since|in|by|from|for|with)\s+)?(?:{_ASKS})\b)|[?.!]\s+",
    re.I,
)
_FIRST = re.compile(rf"\W*(?:(?:and|also|so|since|by|in|for|from|to)\s+)*({_ASKS})\b", re.I)
_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "broke",
        re.compile(
            r"\b(?:breaks?|broken?|regress\w*|bugs?|crash\w*|fail\w*|outages?|incidents?|problems?|vulnerab\w*)\b", re.I
        ),
    ),
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
    "version": frozenset({FILE, "release"}),
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
_NOTES = re.compile(r"(?:^|/)(?:changelog|changes|history|news|release[-_]?notes)[^/]*$", re.I)
_WHICH_VERSION = re.compile(r"\b(?:which|what|whose)\s+(?:[\w-]+\s+)?(?:version|release)s?\b", re.I)
_HOW_TO = re.compile(r"\W*how\s+(?:do|can|could|should|would|to|might)\b(?!\s+(?:it|this|that|they)\b)", re.I)
_IMPLEMENTED = re.compile(r"\b(?:implement\w*|internal\w*|under the hood|source code)\b", re.I)
_OF_CHANGE: frozenset[Kind] = frozenset(["why", "who", "when", "version", "broke"])
"""What is asked of a change: a source answers only where it names the thing and what was done to it."""
LEAST_COVERED = 0.6
LEAST_COVERED_WHY = 0.5
LEAST_COVERED_ELSE = 0.34
_LEAST_TITLE = 0.3


_POINTING = frozenset(["it", "this", "that", "they", "them", "these", "those", "so", "there"])
_EMPTY = _POINTING | frozenset(
    words(
        "decide decided made make done do did does was wrote written changed happened last version release released "
        "fix fixed add added remove removed introduce introduced drop dropped deprecate deprecated"
    )
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
    topic: AskedTopic = field(default=AskedTopic((), None))
    """What its answer must be about, once the repositories are known."""

    @property
    def is_of_change(self) -> bool:
        """Whether it asks why, who, when or in which version something was done."""
        return self.kind in _OF_CHANGE

    @property
    def is_of_origin(self) -> bool:
        """Whether it asks for the beginning of something."""
        return self.kind in ("who", "when") and self.topic.action == "add"

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
    if _WHICH_VERSION.search(text):
        return "version"
    if _HOW_TO.match(text):
        return "how"
    known = _OF_FIRST.get(first[1].lower()) if first else None
    if known is not None and known != "how":
        return known
    return next((kind for kind, said in _WORDS if said.search(text)), known or "what")


_IS_A = re.compile(r"\W*what\s+(?:is|are|was|were|'s)\b", re.I)
_MARKUP = ("<", "[![", ":::", "???")
"""How lines begin that say nothing to a reader: tags, badges, directives."""
_NEW_POINT = re.compile(r"\s*(?:[-*+•>#|]|\d{1,3}[.)])\s*\S")


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and points of a text as one line each: messages are wrapped, and sentences go on in the next line."""
    held: list[str] = []
    is_code = False
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
            line = ""
        if line.lstrip().startswith(_MARKUP):
            line = ""
        if is_code or not line.strip() or _NEW_POINT.match(line):
            if held:
                yield " ".join(held)
            held = [line.strip()] if line.strip() and not is_code else []
        else:
            held.append(line.strip())


def _says_enough(part: str) -> bool:
    return len([word for word in query_words(_FIRST.sub("", part)) if word not in _EMPTY]) >= 2


def fitness(kind: Kind, evidence: Evidence) -> float:
    """How much better a source answers that kind of question than its similarity tells."""
    is_file = evidence.kind == FILE
    path = evidence.key if is_file else ""
    better = 0.3 if evidence.exact and kind not in _OF_CHANGE else 0.0
    if is_file and place_of_path(path) == KnowledgeKind.TEST:
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
    elif kind == "version":
        better += 0.3 if evidence.version else 0.0
    elif kind == "broke":
        better += 0.25 if not is_file and _MENDED.search(evidence.title) else 0.0
        better += 0.1 if evidence.kind == "issue" else 0.0
    return better


def ranked(aspect: Aspect, found: Sequence[Evidence]) -> list[Evidence]:
    """Sources that can answer, those first that answer the kind of question best; far worse ones are left out."""
    kind = aspect.kind
    if kind in _OF_CHANGE:
        return _of_change(aspect, found)
    there = [each for each in found if each.exact or coverage(aspect, each) >= LEAST_COVERED_ELSE]
    if kind == "where" or _IMPLEMENTED.search(aspect.text):
        return _by_score([(each.similarity + fitness(kind, each), each) for each in there])
    if kind == "what" and not is_definition(aspect) and any(each.line for each in there):
        # "What does parse_location do": the definition tells best.
        return _by_score([(each.similarity + fitness(kind, each), each) for each in there])
    return in_order(aspect.text, there, _place, lambda each: each.similarity + coverage(aspect, each) / 4)


def _of_change(aspect: Aspect, found: Sequence[Evidence]) -> list[Evidence]:
    """What names the thing and what was done to it, and code, which only serves to say who stands behind it."""
    scored = []
    code = []
    for each in found:
        covered = covers(aspect, each)
        if covered:
            scored.append((covered + each.similarity / 2 + fitness(aspect.kind, each), each))
        elif each.kind == FILE and not is_document(each.key):
            code += [each] if each.exact or coverage(aspect, each) >= least_covered(aspect) else []
    return [*_by_score(scored), *code]


def _by_score(scored: Sequence[tuple[float, Evidence]]) -> list[Evidence]:
    order = sorted(range(len(scored)), key=lambda number: (-scored[number][0], number))
    return [scored[number][1] for number in order if scored[number][0] >= scored[order[0]][0] - 0.35]


def _place(evidence: Evidence) -> KnowledgeKind:
    """A page of documentation explains best; notes and commits tell what changed, which is something else."""
    if evidence.kind != FILE:
        return KnowledgeKind.CODE
    place = place_of_path(evidence.key)
    return KnowledgeKind.CODE if place == KnowledgeKind.WRITTEN and _NOTES.search(evidence.key) else place


def coverage(aspect: Aspect, evidence: Evidence) -> float:
    """How much of what the aspect is about a source has anywhere in it."""
    return aspect.topic.coverage(
        f"{evidence.key if evidence.kind == FILE else evidence.title}\n{evidence.heading}\n{evidence.text}"
    )


def covers(aspect: Aspect, evidence: Evidence) -> float:
    """How well a source answers what is asked of a change: 0 where it is about something else."""
    if evidence.kind == FILE:
        if not is_document(evidence.key):
            return 0.0
        if aspect.kind in ("who", "when") and not evidence.version:
            return 0.0
        return max((covered for covered, _ in covering(aspect, evidence)), default=0.0)
    topic = aspect.topic
    title, whole = topic.coverage(evidence.title), topic.coverage(f"{evidence.title}\n{evidence.prose}")
    if evidence.kind == TAG and aspect.kind in ("when", "version"):
        return whole if whole >= LEAST_COVERED else 0.0
    least_title = 0.0 if aspect.kind in ("why", "broke") else _LEAST_TITLE
    if max(title, whole) < least_covered(aspect) or title < least_title:
        return 0.0
    said = evidence.title if aspect.kind != "why" else f"{evidence.title}\n{evidence.prose}"
    return (title + whole) / 2 if topic.is_done(said) or (aspect.kind == "why" and topic.action == "add") else 0.0


def covering(aspect: Aspect, evidence: Evidence) -> list[tuple[float, str]]:
    """The points and paragraphs of a document that answer what is asked of a change, best first."""
    found = []
    for text in paragraphs(evidence.text):
        covered = aspect.topic.coverage(f"{evidence.heading}\n{text}")
        lenient = aspect.kind in ("why", "broke") and aspect.topic.action in (None, "add", "fix")
        if covered >= least_covered(aspect) and (lenient or aspect.topic.is_done(text, evidence.heading)):
            found.append((covered, text))
    return sorted(found, key=lambda each: -each[0])


def least_covered(aspect: Aspect) -> float:
    """How much of the topic an answer must have; a reason is told in words of its own."""
    least = LEAST_COVERED_WHY if aspect.kind in ("why", "broke") else LEAST_COVERED
    # What was never removed is asked for as readily as what was, and its name is in many a removal.
    return least + 0.1 if aspect.topic.action in ("remove", "deprecate") else least


def is_definition(aspect: Aspect) -> bool:
    """Whether it asks what something is."""
    return _IS_A.match(aspect.text) is not None


def is_document(path: str) -> bool:
    """Whether a file is written for people to read."""
    return place_of_path(path) == KnowledgeKind.WRITTEN
