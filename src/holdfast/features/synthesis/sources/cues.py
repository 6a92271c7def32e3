"""Owns how a decision is told from a message: the words that give reasons, what each tells, what was not chosen."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.features.synthesis.sources.quoting import sentences, shortened
from holdfast.features.synthesis.sources.touching import NOTHING_KNOWN, Touched

LEAST_SCORE = 28.0
"""What scores less explains a change rather than a choice."""
MAX_SENTENCES = 3
_OUTRIGHT = 40.0

_Cues = tuple[tuple["re.Pattern[str]", float], ...]


def _cues(*rows: tuple[str, float]) -> _Cues:
    return tuple((re.compile(words, re.IGNORECASE), score) for words, score in rows)


_CHOICES = _cues(
    (r"\b(?:we|i|team|was|were|been|have|has) (?:\w+ )?decided\b|\bdecided (?:to|on|against|not)\b", 44.0),
    (r"\bthe decision (?:to|is|was)\b|\bdesign decision\b|\bwe chose\b|\bchosen over\b", 40.0),
    (r"\bin favou?r of\b", 28.0),
    (
        r"\b(?:drop(?:s|ped|ping)?|remov(?:e[ds]?|ing)|end(?:s|ed|ing)?) (?:\S+ ){0,3}?support"
        r"(?= for\b| in\b| from\b| \S*\d|[.,;:(]|$)",
        24.0,
    ),
    (r"^(?:drop|dropped|dropping) ", 8.0),
    (
        r"\b(?:drop|remov|renam)(?:e|es|ed|ped|ping|ing)?\b(?:\W+\S+){0,4}? (?:requirements?|dependenc(?:y|ies)|API|"
        r"parameters?|arguments?|options?|settings?|flags?|methods?|endpoints?|features?)"
        r"(?= (?:from|in|of|on|to|for|and|when|by)\b|[.,;:(]|$)",
        12.0,
    ),
    (r"\bremov(?:e[ds]?|ing) (?:the )?(?:deprecated|public) \S+", 18.0),
    (r"\bdeprecat(?:e|es|ing)\b|^deprecated\b|\b(?:is|are|was|were|now) deprecated\b", 22.0),
    (r"\bby default\b|\bdefaults? (?:to|is|are|of)\b|\bthe default\b|\bdefault (?:\S+ )?from\b", 14.0),
    (
        r"\b(?:minimum|require[sd]?|bump) (?:\S+ ){0,3}?(?:MSRV|version|python|node|go|rust|ruby|java)\b|\bMSRV\b",
        16.0,
    ),
    (r"\bbreaking change\b|\bbackwards?[- ]incompatible\b", 14.0),
    (r"\bno longer\b", 8.0),
    (r"\btrade-?offs?\b|\balternatives? considered\b", 18.0),
    (r"\bbecause\b", 20.0),
)
_SWAPS = _cues(
    (
        r"\bswitch(?:e[ds]|ing)? (?:\S+ ){0,5}?(?:to|over to|from)\b|"
        r"\bmigrat(?:e[ds]?|ing) (?:\S+ ){0,5}?(?:to|from)\b",
        20.0,
    ),
    (r"\breplac(?:e|es|ed|ing) (?:\S+ ){1,6}?(?:with|by)\b", 20.0),
    (r"\binstead of\b", 20.0),
    (r"\brather than\b", 18.0),
    (r"\bmov(?:e[ds]?|ing) (?:\S+ ){0,5}?(?:to|over to)\b", 8.0),
)
"""One thing for another. Without a reason, and where nothing changes for users, it is mostly a way to write code."""
_SUBJECT = re.compile(
    r"^(?:use|adopt|introduce|remove|drop|replace|switch|migrate|keep|require|store|prefer|rewrite|split|"
    r"stop|disable|enable|deprecate|default|make|rename|allow|disallow|forbid|port|build|cache|compute|count|embed|hash|"
    r"hold|index|limit|load|lock|pin|poll|put|read|return|run|save|send|serve|sign|treat|validate|wait|write)\b",
    re.IGNORECASE,
)
_SMALL = re.compile(
    r"^(?:fix(?:es|ed)?|typo|bump|update|upgrade|lint|format|style|chore|ci|test|tests|testing|docs?|doc|changelog|release|wip|"
    r"refactor|clean ?up|merge (?:branch|remote|master|main|pull)|version|minor|tweak|improve|simplify|tidy)\b",
    re.IGNORECASE,
)
_RELEASE = re.compile(
    r"^(?:(?:release|version|prepare|bump|start)\b.{0,30})?\bv?\d+\.\d+(?:\.\w+)*\b.{0,20}$|"
    r"\bbump(?:ed|s)? version|^changelog\b",
    re.IGNORECASE,
)
_HANDIWORK = re.compile(
    r"\b(?:magic numbers?|constants?|literals?|hard-?coded?|variables?|naming|comprehensions?|for loops?|f-strings?|"
    r"type (?:hints?|annotations?|checkers?)|typing|annotations?|typed|permissi\w+ types|types-\w+|mypy|pyright|"
    r"lint(?:s|ing|er|ers)?|flake8|clippy|golint|gofmt|rubocop|eslint|prettier|pragma|nocover|warnings?|"
    r"typos?|spelling|grammar|wording|comments?|docstrings?|documentation|docs?|readme|links?|badges?|emoji|notes|"
    r"changelog|sections?|entry|themes?|sphinx|rdoc|whitespace|formatting|camel ?case|cosmetic|occurrences|"
    r"unit ?tests?|tests?|test_\w+|test cases?|pytest\S*|rspec|rake|gemspec|classifiers|benchmarks?|examples?|"
    r"imports?|requires?|helpers?|utility|utils|boilerplate|duplicat\w+|redundant|(?:un|not )-?used|unneed\w*|unnec\w*|"
    r"needless|leftovers?|remnants?|extraneous|cruft|stale|dead|stuff|internal(?:ly)?|folders?|director(?:y|ies)|dirs?|"
    r"reassignments?|contributors?|templates?|workflows?|travis|appveyor|github actions|GHA|CI|codecov|coverage|"
    r"dependabot|pre-commit)\b",
    re.IGNORECASE,
)
"""Words of work on the form of the code, which excludes nothing that a user or a later engineer could want back."""
_REWRITTEN = re.compile(
    r"^(?i:us(?:e|ing)|replac(?:e|ed|ing)|switch(?:ed|ing)?|chang(?:e|ed|ing)|prefer|read|return)\b.*?"
    r"(?:[\w.]+\([^)]*\)|\b\w+\[\]|\b\w+\{\}|[=!<>]=|\+\+|\b[a-z]\w*\.[A-Z]\w+|\b(?:statements?|operations?|functions?|methods?|keyword|primitive)\b)"
)
"""One expression of code for another: a way to write it, no choice of the product's."""
_PREFIX = re.compile(r"^(?P<type>[a-z]{2,12})(?:\((?P<scope>[^)]{1,60})\))?(?P<breaking>!?):\s+", re.IGNORECASE)
_PULL = re.compile(r"\s*\(#(\d{1,7})\)\s*$")
_MERGED = re.compile(r"^Merge pull request #(\d{1,7}) from \S+")
_THING = r"(?P<thing>[`'\"A-Za-z0-9][^.,;:()\n]{1,60}?)"
_END = r"(?=\s+(?:because|since|as|so|for|in|to|when|which|that|and|with|by|due)\b|[.,;:()]|$)"
_NOT_CHOSEN = tuple(
    re.compile(words, re.IGNORECASE)
    for words in (
        rf"\b(?:instead of|rather than|chosen over)\s+{_THING}{_END}",
        rf"\breplac(?:e|es|ed|ing)\s+{_THING}\s+(?:with|by)\b",
        rf"\b(?:switch|switched|migrate|migrated|move|moved)\s+(?:away\s+)?from\s+{_THING}\s+to\b",
        rf"\b(?:drop|dropped|remove|removed|deprecate|deprecated)\s+{_THING}\s+in\s+favou?r\s+of\b",
    )
)
_IDLE = re.compile(
    r"\b(?:deps?|lock ?file|\S+\.lock|release|master|authors?|dev version|accidental\w*|unexpected)\b|^\W*\S+\W*$|"
    r"^\W*(?:(?:last|closes?|changes?|commits?|bump|update|merge)\b|#\d|[0-9a-f]{7})",
    re.IGNORECASE,
)
"""What says too little to have been a choice, or renews what others released."""
_REVERT = re.compile(r"^Revert[:\s]+(?P<quote>\"?)(?P<what>.+)(?P=quote)\s*$", re.IGNORECASE)
_REVERTED = re.compile(r"\breverts?\s+(?:commit\s+)?([0-9a-f]{7,40})\b", re.IGNORECASE)
_BOT = re.compile(r"\[bot\]|\b(?:dependabot|renovate|greenkeeper|github-actions|pre-commit-ci|snyk)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Telling:
    """What a message tells of a choice."""

    title: str
    score: float
    quotes: tuple[str, ...]
    alternatives: tuple[str, ...]


def tell(subject: str, body: str, *, of: Touched = NOTHING_KNOWN, weight: float = 0.0) -> Telling:
    """How much a message tells of a decision, and in which sentences. `weight` is what else speaks for it."""
    prefix = _PREFIX.match(subject)
    title = title_of(subject)
    said = _said(title, body)
    breaking = (prefix is not None and bool(prefix["breaking"])) or "BREAKING CHANGE" in body
    told_users = breaking or (of.notes and not of.around)
    score = weight + _worth(said) + (10.0 if said and _SUBJECT.match(title) else 0.0)
    score += 12.0 if breaking else 0.0
    score += 12.0 if of.notes else 0.0
    score += 8.0 if of.manifest else 0.0
    kind = prefix["type"].lower() if prefix else ""
    score -= 14.0 if _SMALL.match(kind) or _SMALL.match(title) else 0.0
    score -= 60.0 if _RELEASE.match(title) else 0.0
    score -= 24.0 if _HANDIWORK.search(title) else 0.0
    only_swaps = not any(_points(each.quote, _CHOICES) for each in said)
    score -= 0.0 if not of.around else 24.0 if only_swaps else 12.0
    # A subject that names no choice heads a list of small ones, unless the text says outright that one was made.
    aside = said and said[0].number and said[0].points < _OUTRIGHT and not _SUBJECT.match(title) and not _points(title)
    score -= 10.0 if aside else 0.0
    if not told_users:
        score -= 16.0 if _REWRITTEN.search(title) else 0.0
        score -= 14.0 if of.known and not of.manifest and only_swaps else 0.0
    quotes = [each.quote for each in sorted(said, key=lambda each: each.number)]
    return Telling(
        title or shortened(next(iter(quotes), ""), 200),
        score,
        tuple(quotes),
        alternatives(f"{title}. {' '.join(quotes)}"),
    )


class _Said(NamedTuple):
    points: float
    number: int
    quote: str


def _said(title: str, body: str) -> list[_Said]:
    """The sentences that tell most, best first; the title is the one with the number 0."""
    found: list[_Said] = []
    known: set[str] = set()
    for number, sentence in enumerate([title, *sentences(body)]):
        # A squashed pull request repeats its subject as the first of its commits.
        bare = re.sub(r"[^a-z0-9]+", "", title_of(sentence).lower())
        points = 0.0 if bare in known else _points(sentence)
        known.add(bare)
        if points:
            # Whoever gives a reason in the subject thinks it the point of the change.
            points += 8.0 if number == 0 else -12.0 if _HANDIWORK.search(sentence) else 0.0
            found.append(_Said(points, number, shortened(sentence)))
    telling = [each for each in found if each.points > 0]
    return sorted(telling, key=lambda each: (-each.points, each.number))[:MAX_SENTENCES]


def _points(sentence: str, cues: _Cues = (*_CHOICES, *_SWAPS)) -> float:
    return sum(score for cue, score in cues if cue.search(sentence))


def _worth(said: Sequence[_Said]) -> float:
    return said[0].points + sum(each.points for each in said[1:]) / 4 if said else 0.0


def title_of(subject: str) -> str:
    """A subject without a conventional prefix and the number of its pull request."""
    bare = _PULL.sub("", _PREFIX.sub("", subject)).strip().rstrip(".")
    return shortened(bare[:1].upper() + bare[1:], 200) or shortened(subject, 200)


def pull_number(subject: str) -> str | None:
    """The pull request that a commit says it came from."""
    found = _PULL.search(subject) or _MERGED.match(subject)
    return found[1] if found else None


def alternatives(text: str) -> tuple[str, ...]:
    """What a text says was not chosen."""
    found = [match["thing"].strip(" `'\"") for pattern in _NOT_CHOSEN for match in pattern.finditer(text)]
    unlike = {thing.lower(): thing for thing in found if len(thing) > 1 and len(thing.split()) <= 8}
    return tuple(unlike.values())[:4]


def reverted(subject: str, body: str) -> tuple[str, str] | None:
    """(what is reverted, the beginning of its hash or nothing) when a commit is a revert."""
    head = _REVERT.match(_PULL.sub("", subject))
    named = _REVERTED.search(body)
    if head is None:
        return None
    return head["what"].strip(), named[1].lower() if named else ""


def of_revert(what: str, reason: str, *, of: Touched = NOTHING_KNOWN) -> Telling:
    """What taking something back tells: a choice where that was one, or where a reason is given for what users see."""
    inner = what
    while (deeper := _REVERT.match(_PULL.sub("", inner))) is not None:
        inner = deeper["what"]
    title = title_of(inner)
    taken = tell(title, "", of=of)
    is_back = re.match(r"(?:back )?to\b", what, re.IGNORECASE) is not None
    score = 34.0 + (12.0 if reason else 0.0)
    if not (taken.quotes and taken.score >= LEAST_SCORE):
        if of.around or _IDLE.search(title):
            score -= 24.0
        elif _HANDIWORK.search(title):
            score -= 12.0 if reason else 24.0
        score -= 14.0 if _SMALL.match(title) else 0.0
    named = shortened(_PULL.sub("", _unquoted(what)).strip(), 180)
    return Telling(f"Revert {named}" if is_back else f"Revert: {named}", score, (), ())


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' else text


def reason_of_revert(body: str) -> str:
    """What a revert gives as its reason, beyond naming the commit."""
    said = [each for each in sentences(body) if not _REVERTED.search(each)]
    return shortened(" ".join(said[:2]))


def is_fix(subject: str) -> bool:
    """Whether a commit mends something."""
    return re.search(r"\b(?:fix(?:es|ed)?|bug|regression|crash|hotfix)\b", subject, re.IGNORECASE) is not None


def is_small(subject: str) -> bool:
    """Whether a commit is about form rather than substance."""
    prefix = _PREFIX.match(subject)
    return _SMALL.match(prefix["type"] if prefix else subject) is not None


def is_bot(name: str) -> bool:
    """Whether an author is a program."""
    return _BOT.search(name) is not None
