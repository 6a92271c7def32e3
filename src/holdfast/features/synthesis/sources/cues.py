"""Owns how a decision is told from a message: the words that give reasons, what each tells, what was not chosen."""

import re
from dataclasses import dataclass

from holdfast.features.synthesis.sources.quoting import sentences, shortened

LEAST_SCORE = 20.0
"""What scores less explains a change rather than a choice."""
MAX_SENTENCES = 3

_CUES: tuple[tuple["re.Pattern[str]", float], ...] = tuple(
    (re.compile(words, re.IGNORECASE), score)
    for words, score in (
        (r"\b(?:we|i|team|was|were|been|have|has) (?:\w+ )?decided\b|\bdecided (?:to|on|against|not)\b", 30.0),
        (r"\bthe decision (?:to|is|was)\b|\bdesign decision\b|\bwe chose\b|\bchosen over\b", 28.0),
        (r"\bin favou?r of\b", 28.0),
        (
            r"\b(?:switch(?:ed|ing)?|migrat(?:e|ed|ing)|mov(?:e|ed|ing)) (?:\S+ ){0,5}(?:to|over to)\b",
            20.0,
        ),
        (r"\breplac(?:e|es|ed|ing) (?:\S+ ){1,6}?(?:with|by)\b", 24.0),
        (r"\binstead of\b", 20.0),
        (r"\brather than\b", 18.0),
        (r"\bdrop(?:s|ped|ping)? (?:support|\S+ support|the \S+|\S+ in)\b", 22.0),
        (r"\bdeprecat(?:e|es|ed|ing)\b", 20.0),
        (r"\btrade-?offs?\b|\balternatives? considered\b", 18.0),
        (r"\bno longer\b", 8.0),
        (r"\bbecause\b", 12.0),
    )
)
_SUBJECT = re.compile(
    r"^(?:use|adopt|introduce|remove|drop|replace|switch|migrate|move|keep|require|store|prefer|rewrite|split|merge|"
    r"stop|disable|enable|deprecate|default|make|rename|allow|forbid|port|add|build|cache|compute|count|embed|hash|"
    r"hold|index|limit|load|lock|pin|poll|put|read|return|run|save|send|serve|sign|treat|validate|wait|write)\b",
    re.IGNORECASE,
)
_SMALL = re.compile(
    r"^(?:fix(?:es|ed)?|typo|bump|update|upgrade|lint|format|style|chore|ci|test|tests|docs?|doc|changelog|release|wip|"
    r"refactor|clean ?up|merge branch|merge remote|version)\b",
    re.IGNORECASE,
)
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


def tell(subject: str, body: str, *, weight: float = 0.0) -> Telling:
    """How much a message tells of a decision, and in which sentences. `weight` is what else speaks for it."""
    prefix = _PREFIX.match(subject)
    title = title_of(subject)
    score, quotes = weight, list[tuple[float, int, str]]()
    for number, sentence in enumerate([title, *sentences(body)]):
        points = sum(score for cue, score in _CUES if cue.search(sentence))
        if points:
            # Whoever gives a reason in the subject thinks it the point of the change.
            points += 8.0 if number == 0 else 0.0
            quotes.append((points, number, shortened(sentence)))
    best = sorted(quotes, key=lambda quote: (-quote[0], quote[1]))[:MAX_SENTENCES]
    if best:
        score += best[0][0] + sum(quote[0] for quote in best[1:]) / 4
        score += 10.0 if _SUBJECT.match(title) else 0.0
    if (prefix and prefix["breaking"]) or "BREAKING CHANGE" in body:
        score += 12.0
    kind = prefix["type"].lower() if prefix else ""
    if _SMALL.match(kind) or _SMALL.match(title):
        score -= 14.0
    said = [quote for _, _, quote in sorted(best, key=lambda quote: quote[1])]
    return Telling(
        title or shortened(next(iter(said), ""), 200), score, tuple(said), alternatives(f"{title}. {' '.join(said)}")
    )


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
    head = _REVERT.match(subject)
    named = _REVERTED.search(body)
    if head is None:
        return None
    return head["what"].strip(), named[1].lower() if named else ""


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
