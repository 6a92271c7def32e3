"""Owns taking a question apart: what it asks for, and what kind of answer each part wants."""

import re
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from holdfast.engines.search.text.analyser import query_words, words
from holdfast.features.ask.question.topic import AskedTopic
from holdfast.features.repositories.model import COMMIT, FILE, TAG

Kind = Literal["why", "who", "when", "version", "where", "broke", "how", "support", "what"]

MOST_ASPECTS = 5

_ASKS = r"why|who|whom|whose|when|where|how|which|what"
_YES_OR_NO = re.compile(r"\W*(?:and\s+)?(?:does|do|is|are|can|could|has|have|will|would)\b(?!\s+you\b)", re.I)
_CUT = re.compile(
    rf"(?:\?+|;|,|\n|\band\b|&)[\s,;?]*(?:(?:and|also|then)\s+)*(?=(?:(?:since|in|by|from|for|with)\s+)?(?:{_ASKS})\b)|[?.!]\s+",
    re.I,
)
_FIRST = re.compile(rf"\W*(?:(?:and|also|so|since|by|in|for|from|to)\s+)*({_ASKS})\b", re.I)
_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "broke",
        re.compile(
            r"\b(?:breaks?|broken?|regress\w*|bugs?|crash\w*|fail\w*|outages?|incidents?|problems?|vulnerab\w*|panic\w*|"
            r"wrong|leak\w*|hangs?|hung|deadlock\w*|corrupt\w*)\b",
            re.I,
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
    "support": frozenset({COMMIT, "release", "pull_request", "issue"}),
}
_WHICH_VERSION = re.compile(r"\b(?:which|what|whose)\s+(?:[\w-]+\s+)?(?:version|release)s?\b", re.I)
_WHICH_DID = re.compile(
    r"\W*(?:and\s+|then\s+|later\s+)*which\s+(?:one\s+)?(?:\w+ed|brought|made|broke|did|was|is)\b", re.I
)
_WHOSE_VERSION = re.compile(r"\b(?:[Ww]hich|[Ww]hat)\s+[A-Z][\w.+#-]*(?:\s+[A-Z][\w.+#-]*)?\s+versions?\b")
_NEEDED = re.compile(
    r"\b(?:requir\w*|needs?|needed|supports?|supported|runs?|works?|compatible|minimum|expects?)\b", re.I
)
_CHANGED_IN = re.compile(
    r"\bwhat\b.*\b(?:new|chang\w+|introduc\w+|add\w*|remov\w*|drop\w*|fix\w*)\b.*\b(?:in|with|by|since)\s+"
    r"(?:\w+\s+){0,2}v?\d",
    re.I,
)
_REPLACED = re.compile(r"\W*(?:and\s+)?what\b.*\b(?:replac|renam|supersed)\w*", re.I)
"""Asks for a change, and is told where the reason for it is."""
_IS_A = re.compile(r"\W*what\s+(?:is|are|was|were|'s)\b", re.I)
_HOW_TO = re.compile(r"\W*how\s+(?:do|can|could|should|would|to|might)\b(?!\s+(?:it|this|that|they)\b)", re.I)
_OF_CHANGE: frozenset[Kind] = frozenset(["why", "who", "when", "version", "broke", "support"])
"""What is asked of a change, or of what there is: a source answers only where it names the thing and what was done."""


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
    said = [part for part in parts if _asks(part)][:MOST_ASPECTS]
    if len(said) < 2:
        return [Aspect(_kind_of(whole), whole.rstrip(" ?!."), whole)]
    # "In the billing module, why … and where …": what is said before counts for every part.
    setting = " ".join(part for part in parts if not _asks(part))
    queries = [" ".join(filter(None, (part, setting))) if _says_enough(part) else "" for part in said]
    # "Why was it moved, who decided?": what says too little is about what came before, or what comes after.
    topics = list(accumulate(queries, lambda topic, query: query or topic, initial=next(filter(None, queries), whole)))
    kinds: list[Kind] = []
    for part in said:
        # "Which version broke it, and which fixed it?" asks for a version twice.
        is_same = bool(kinds) and kinds[-1] == "version" and _WHICH_DID.match(part) is not None
        kinds.append("version" if is_same else _kind_of(part))
    return [Aspect(kind, part, topic) for kind, part, topic in zip(kinds, said, topics[1:], strict=True)]


def _kind_of(text: str) -> Kind:
    first = _FIRST.match(text)
    if _WHOSE_VERSION.search(text) and _NEEDED.search(text):
        # "Which Go version does it need": that of something else, which a document tells.
        return "what"
    if _WHICH_VERSION.search(text) or _CHANGED_IN.search(text):
        return "version"
    if _HOW_TO.match(text):
        return "how"
    if _REPLACED.match(text):
        return "why"
    known = _OF_FIRST.get(first[1].lower()) if first else None
    if known is not None and known != "how":
        return known
    if known is None and _YES_OR_NO.match(text):
        return "support"
    return next((kind for kind, said in _WORDS if said.search(text)), known or "what")


def _asks(part: str) -> bool:
    return _FIRST.match(part) is not None or _YES_OR_NO.match(part) is not None


def is_definition(aspect: Aspect) -> bool:
    """Whether it asks what something is."""
    return _IS_A.match(aspect.text) is not None


def _says_enough(part: str) -> bool:
    return len([word for word in query_words(_FIRST.sub("", part)) if word not in _EMPTY]) >= 2
