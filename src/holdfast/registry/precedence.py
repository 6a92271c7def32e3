"""Owns which kind of knowledge comes first where several are mixed: what was told, what was written, code, tests."""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import TypeVar

from holdfast.engines.search.model import Hit

T = TypeVar("T")

RELATED = 0.3
"""From this score on a passage is about the query."""
NEAR = 0.5
"""What was only read, and has less than this share of the best score, does not come before it."""

LEAST = 0.15
LEAST_SHARE = 0.3
"""What scores less than this, or than this share of the best, is not shown: `limit` is how many at most."""

_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testdata|fixtures?|conftest\.py)(?:/|$)|(?:^|/)test_|_test\.|\.(?:spec|test)\.",
    re.I,
)
_DATA = re.compile(
    r"\.(?:lock|csv|tsv|svg|json|map|snap|sum)$|\.min\.|(?:^|/)(?:vendor|node_modules|dist)/"
    r"|(?:^|/)(?:[\w-]*(?:word[-_]?list|stop[-_]?words|dictionary|requirements)[\w-]*|robots)\.txt$",
    re.I,
)
_BUILD = re.compile(r"(?:^|/)CMakeLists\.txt$", re.I)
_DOCUMENT = re.compile(
    r"\.(?:md|markdown|rst|txt|adoc|org)$"
    r"|(?:^|/)(?:readme|changelog|changes|history|news|release[-_]?notes|contributing|codeowners)(?:\.[a-z]+)?$",
    re.I,
)
_ABOUT_TESTS = re.compile(r"\b(?:tests?|tested|testing|fixtures?|specs?|conftest)\b", re.I)


class KnowledgeKind(IntEnum):
    """Where a kind of knowledge stands, first to last."""

    TOLD = 0
    """Memories, decisions, milestones, documents, artifacts: somebody meant it to be found again."""
    WRITTEN = 1
    """What was written for people beside code: commits, pull requests, releases, a repository's documents, chats."""
    CODE = 2
    TEST = 3
    """Tests, fixtures, data: they hold any word, and say little about it."""


def place_of_path(path: str) -> KnowledgeKind:
    """Where a file of a repository stands."""
    if _TEST.search(path) or _DATA.search(path):
        return KnowledgeKind.TEST
    return KnowledgeKind.WRITTEN if _DOCUMENT.search(path) and not _BUILD.search(path) else KnowledgeKind.CODE


def place_of_hit(hit: Hit) -> KnowledgeKind:
    """Where something found stands."""
    path = hit.meta.get("path")
    if hit.collection and isinstance(path, str):
        return place_of_path(path)
    return KnowledgeKind.WRITTEN if hit.collection or hit.type == "chat" else KnowledgeKind.TOLD


def is_about_tests(query: str) -> bool:
    """Whether somebody looks for tests, which then are as good as other code."""
    return _ABOUT_TESTS.search(query) is not None


def answers(place: KnowledgeKind, score: float, best: float) -> bool:
    """Whether something may speak before others that are more like the query.

    What was told counts from the least score on: it is one among few, and a repository has any word somewhere.
    """
    return score >= (RELATED if place == KnowledgeKind.TOLD else max(RELATED, NEAR * best))


def in_order(
    query: str, found: Iterable[T], place: Callable[[T], KnowledgeKind], score: Callable[[T], float]
) -> list[T]:
    """What was found, by what it is and then by its score.

    What is not about the query, or far less than the best is, stays behind what is; tests come last in any case,
    unless tests are asked for.
    """
    listed = list(found)
    best = max(map(score, listed), default=0.0)
    tests = KnowledgeKind.CODE if is_about_tests(query) else KnowledgeKind.TEST

    def order(each: T) -> tuple[bool, bool, int, float]:
        stands, scored = KnowledgeKind(min(place(each), tests)), score(each)
        first = answers(stands, scored, best)
        return stands == KnowledgeKind.TEST, not first, stands if first else 0, -scored

    return sorted(listed, key=order)


def worth_showing(found: Sequence[Hit]) -> list[Hit]:
    """What was found without what only fills the list."""
    least = max(LEAST, LEAST_SHARE * max((hit.score for hit in found), default=0.0))
    return [hit for hit in found if hit.score >= least]


def near_the_best(found: Sequence[Hit]) -> list[Hit]:
    """The same for whoever asked for something to read: "sum this up" is about no passage, and wants some."""
    least = LEAST_SHARE * max((hit.score for hit in found), default=0.0)
    return [hit for hit in found if hit.score >= least]


def hits_in_order(query: str, found: Iterable[Hit]) -> list[Hit]:
    """Search results by what they are and then by their score."""
    return in_order(query, found, place_of_hit, lambda hit: hit.score)
