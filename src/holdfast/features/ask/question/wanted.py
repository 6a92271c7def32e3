"""Owns what an answer has to have besides its topic: a value, all that a version brought, its own subject."""

import re

from holdfast.engines.search.text.analyser import query_words, words
from holdfast.features.ask.question.aspects import Aspect

_VALUE = re.compile(
    r"\bhow\s+(?:many|much|long|often|big|large|small|old)\b|\b(?:defaults?|at\s+most|at\s+least|maximum|minimum|limits?|"
    r"max|min)\b",
    re.I,
)
_VALUED = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|none|unlimited|infinite|never|twice|once|"
    r"default(?:s\s+to|\s+is|[:*\s]+`))",
    re.I,
)
_LISTED = re.compile(r"^\W*(?:and\s+)?(?:what|which)\b", re.I)
_BREAKING = re.compile(r"\b(?:breaking|incompatib\w*)\b", re.I)
_BREAKS = re.compile(r"\b(?:breaking|incompatib\w*|breaks?|no longer|remov\w+|drop\w*|must now|now requires?)\b", re.I)
_SUBJECT = re.compile(
    r"^[\s>*+•-]*\[?(?P<name>[A-Z][\w.+-]*)(?:\][\[(][^\])]*[\])])?\s+(?:also\s+|now\s+|has\s+)?"
    r"(?:supports?|supported|provides?|offers?|has|is|are|includes?|comes|implements?|works?|runs?|can)\b"
)
_POINTS = re.compile(r"^\W*(?:it|they|this one)\b", re.I)
_NAME = re.compile(r"\W*(?:the\s+)?([A-Z][\w.+-]*)\W*", re.I)
_CODE = re.compile(r"[a-z0-9][A-Z]|_|\w\.\w|::")


def wants_value(aspect: Aspect) -> bool:
    """Whether it asks for a number, or for what something is set to."""
    return aspect.kind in ("what", "how") and _VALUE.search(aspect.text) is not None


def has_value(text: str) -> bool:
    """Whether a statement gives one."""
    return _VALUED.search(text) is not None


def is_of_contents(aspect: Aspect) -> bool:
    """Whether it asks for all that a version brought."""
    return aspect.kind in ("version", "broke") and aspect.topic.is_of_version and _LISTED.match(aspect.text) is not None


def is_left_out(aspect: Aspect, text: str, heading: str) -> bool:
    """Whether only what breaks is asked for, and a point of the notes breaks nothing."""
    return _BREAKING.search(aspect.text) is not None and _BREAKS.search(f"{heading}\n{text}") is None


def is_of_another(aspect: Aspect, text: str, heading: str) -> bool:
    """Whether a statement says of somebody else what is asked of the repository: "Hypercorn supports HTTP/2"."""
    if aspect.kind != "support":
        return False
    section = heading.rpartition("›")[2]
    found = _SUBJECT.match(text) or (_NAME.fullmatch(section) if _POINTS.match(text) and section.strip() else None)
    if found is None:
        return False
    name = found[1]
    known = aspect.topic.names.union(words(aspect.text))
    return bool(query_words(name)) and not _CODE.search(name) and not known.intersection(words(name))
