"""Owns how a sentence of a memory is taken apart: what it is about, what it says of it, and within which bounds."""

import re
from dataclasses import dataclass

from holdfast.features.memory.writing.terms import MemoryTerm, canonical, terms
from holdfast.features.memory.writing.vocabulary import (
    ADDITIVE,
    AUXILIARIES,
    BE,
    BECOMES,
    CHANGES,
    DETERMINERS,
    EXCLUSIVE_ROLES,
    INSTRUCTIONS,
    NEGATED,
    NEGATIONS,
    NOUNS_TOO,
    PREPOSITIONS,
    PRONOUNS,
    STOP,
    TRAITS,
    VERBS,
    WEAK,
)

_CHANGE = re.compile(rf"\b(?:{CHANGES}|{BECOMES})\b", re.IGNORECASE)
_BECOMES = re.compile(rf"\b{BECOMES}\b", re.IGNORECASE)
_REJECTED = re.compile(
    r"(?:,? (?:and )?not|,? instead of|,? rather than|,? in place of)"
    r"(?= (?!(?:be|been|to|have|only|yet|just|a|an|the)\b)[\w.@/-]+)"
    r"|(?:(?<=prefer )|(?<=prefers )|(?<=preferred )|(?<=favour )|(?<=favours )|(?<=favor )|(?<=favors ))"
    r"(?P<liked>[\w.@/-]+(?: [\w.@/-]+)?) (?:to|over)(?= \w)"
    r"|(?:(?<=like )|(?<=likes )|(?<=liked ))(?P<liked2>[\w.@/-]+(?: [\w.@/-]+)?) (?:better|more) than(?= \w)"
    r"|(?<=rather )(?P<liked3>(?!than\b)[\w.@/-]+(?: (?!than\b)[\w.@/-]+)?) than(?= \w)",
    re.IGNORECASE,
)
_AFTER_VERB = re.compile(r"\b(?:is|are|was|were|do|does|did|must|should|may|can|will|has|have|had|would|could)$", re.I)
_OURS = ("the", "our", "my")
MEANS = ("by", "using", "via", "with", "through")
"""Behind these stands what something is done with."""
PURPOSES = ("for", "as")
ADDITIVE_SAID = ADDITIVE | EXCLUSIVE_ROLES | {"has", "have", "had", "needs", "need", "requires", "require"}


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence as the comparison sees it."""

    subject: frozenset[str]
    """What it is about; empty where that is whoever speaks."""
    verb: str
    """What says something, where it is more than 'is' or 'has'."""
    slots: tuple[tuple[str, frozenset[str]], ...]
    """What is said: the object under '', and what stands behind each preposition."""
    words: frozenset[str]
    """All that it asserts."""
    strong: frozenset[str]
    """What it asserts, less what a rewording may exchange."""
    values: frozenset[str]
    """Those words of it in whose place another would say something else."""
    rejected: frozenset[str]
    """What it says not to take: 'pnpm, not npm'."""
    kinds: dict[str, MemoryTerm]
    negated: bool
    change: bool
    order: tuple[str, ...]
    definite: bool
    """Whether it says which one something is: 'is the default', 'our lead is'."""
    the_one: bool
    """Whether it says of its subject that it is the one: 'is the default', 'is our lead'."""
    role: frozenset[str]
    """What something is used for, or done with: 'CI' in 'we use Jenkins for CI' and 'CI runs on Jenkins'."""
    filler: frozenset[str]
    """The names that it is done with."""
    passive: bool
    spoken: bool
    """Whether it begins with whoever speaks, or with what to do: 'we deploy', 'deploy'."""
    trait: bool
    """Whether it says one of several things that may hold of its subject: 'is allergic to'."""
    additive: bool
    """Whether something else can be said likewise of the same subject: 'needs oil', 'has a projector'."""

    def is_value(self, word: str) -> bool:
        """Whether another word in its place says something else."""
        return self.kinds[word].is_value


def statement(sentence: str) -> Statement:
    """A sentence, taken apart."""
    change = _CHANGE.search(sentence) is not None
    sentence = _BECOMES.sub("is", sentence)
    asserted, rejected = _rejection(sentence)
    found = terms(asserted)
    verb_at = _verb(found)
    negated = False
    kept: list[tuple[int, MemoryTerm]] = []
    for place, term in enumerate(found):
        if term.said in NEGATIONS:
            negated = not negated
            continue
        if term.said in NEGATED and term.kind == "word":
            negated = not negated
            term = MemoryTerm(canonical(NEGATED[term.said]), "word", term.said)
        kept.append((place, term))
    content = [
        (place, term) for place, term in kept if (term.is_value or term.said not in STOP) and _says(found, place)
    ]
    after = {place for place, _ in content if place > verb_at}
    verb = next((term.key for place, term in kept if place == verb_at and term.said not in AUXILIARIES), "")
    verb = "" if verb in WEAK else verb
    kinds = {term.key: term for _, term in content}
    subject = frozenset(term.key for place, term in content if place < verb_at)
    slots = _slots(found, verb_at, {place: term for place, term in content if place in after})
    role, filler = (frozenset[str](), frozenset[str]()) if verb else _role(subject, slots, kinds)
    return Statement(
        subject=subject,
        verb=verb,
        slots=slots,
        words=frozenset(kinds),
        strong=frozenset(key for key, term in kinds.items() if key not in WEAK or term.is_value),
        values=frozenset(key for key, term in kinds.items() if term.is_value),
        rejected=_rejected(rejected) - frozenset(kinds),
        kinds=kinds,
        negated=negated,
        change=change,
        order=tuple(term.key for _, term in content),
        definite=_definite(found, verb_at) or _the_one(found, verb_at),
        the_one=_the_one(found, verb_at),
        role=role,
        filler=filler,
        passive=bool(verb) and any(term.said in BE for term in found[max(0, verb_at - 3) : verb_at]),
        spoken=bool(found) and (found[0].said in PRONOUNS or found[0].said in INSTRUCTIONS),
        trait=not TRAITS.isdisjoint(kinds),
        additive=0 <= verb_at < len(found) and not ADDITIVE_SAID.isdisjoint((found[verb_at].key, found[verb_at].said)),
    )


def _rejected(text: str) -> frozenset[str]:
    return frozenset(term.key for term in terms(text) if term.said not in STOP) if text else frozenset()


def _says(found: list[MemoryTerm], place: int) -> bool:
    """'Under 40 lines' says something with 'under'; 'under /api' says where."""
    if found[place].said not in ("over", "under", "above", "below"):
        return True
    return place + 1 < len(found) and found[place + 1].kind == "amount"


def _rejection(sentence: str) -> tuple[str, str]:
    """What a sentence asserts, and what it says not to take."""
    match = _REJECTED.search(sentence)
    if match is None or _AFTER_VERB.search(sentence[: match.start()]):
        return sentence, ""
    rest = sentence[match.end() :].lstrip()
    end = re.search(r"[,;.]|\b(?:for|in|on|when|because|as|if)\b", rest)
    rejected, tail = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")
    kept = match.group("liked") or match.group("liked2") or match.group("liked3") or ""
    return f"{sentence[: match.start()]} {kept} {tail}", rejected


def _verb(found: list[MemoryTerm]) -> int:
    """Where what is said begins; -1 where the sentence begins with it, the end where nothing is said."""
    if not found:
        return 0
    first = found[0].said
    if first in INSTRUCTIONS and not any(
        term.said in AUXILIARIES for term in found[1 : 4 if first in NOUNS_TOO else 2]
    ):
        return next((place for place, term in enumerate(found) if term.said not in NEGATIONS and _verbal(term)), 0)
    if first in PRONOUNS:
        place = next((place for place, term in enumerate(found) if term.said in AUXILIARIES or _verbal(term)), -1)
        return _participle(found, place) if place >= 0 and found[place].said in AUXILIARIES else place
    for place, term in enumerate(found):
        if term.said in AUXILIARIES and (place or term.said not in ("have", "do")):
            return _participle(found, place)
        if place and _verbal(term) and not _determines(found[place - 1].said):
            # 'Builds start': the last of them; 'allows writes': the first.
            while place + 1 < len(found) and _verbal(found[place + 1]) and found[place + 1].said not in AUXILIARIES:
                if found[place].said.endswith("s") and found[place + 1].said.endswith("s"):
                    break
                place += 1
            if place + 1 < len(found) and found[place + 1].said in AUXILIARIES:
                continue
            return place
    return -1


def _determines(said: str) -> bool:
    return said in DETERMINERS or said.endswith("'s")


def _participle(found: list[MemoryTerm], place: int) -> int:
    """'are kept' is said with 'kept', 'is on' with 'is'."""
    for later in range(place + 1, min(place + 4, len(found))):
        said = found[later].said
        if said in AUXILIARIES or said in NEGATIONS or said in ("only", "also", "always", "usually", "been", "being"):
            continue
        if found[later].kind == "word" and len(said) > 4 and said.endswith("ed"):
            return later
        return (
            later if _verbal(found[later]) and (said.endswith(("ed", "en", "t", "d")) or later > place + 1) else place
        )
    return place


def _verbal(term: MemoryTerm) -> bool:
    return term.kind == "word" and (term.key in VERBS or term.said in VERBS)


def _slots(
    found: list[MemoryTerm], verb_at: int, content: dict[int, MemoryTerm]
) -> tuple[tuple[str, frozenset[str]], ...]:
    slots: dict[str, set[str]] = {}
    under = ""
    for place in range(verb_at + 1, len(found)):
        if found[place].said in PREPOSITIONS and found[place].kind == "word":
            under = found[place].said
        elif under and found[place].said in ("every", "each"):
            # 'On every push' says when.
            under = "when"
        if place in content:
            slots.setdefault(under, set()).add(content[place].key)
    return tuple((name, frozenset(words)) for name, words in sorted(slots.items()))


def _role(
    subject: frozenset[str], slots: tuple[tuple[str, frozenset[str]], ...], kinds: dict[str, MemoryTerm]
) -> tuple[frozenset[str], frozenset[str]]:
    """What is done, and the names that it is done with, where a sentence says only that."""
    said = dict(slots)
    names = {place: frozenset(word for word in words if kinds[word].kind == "name") for place, words in slots}
    if not subject - WEAK:
        # 'We use Jenkins for CI', 'we process payments through Adyen'.
        means = frozenset[str]().union(*(names[place] for place in MEANS if place in names))
        if said.get("") and said[""] == names[""] and not means:
            return frozenset().union(*(said.get(place, frozenset()) for place in PURPOSES)) - WEAK, names[""]
        return (said.get("", frozenset()) - WEAK, means) if not names.get("") else (frozenset(), frozenset())
    filler = frozenset[str]().union(*(names[place] for place in ("", "on", *MEANS) if place in names))
    return subject - WEAK, filler - subject


def _definite(found: list[MemoryTerm], verb_at: int) -> bool:
    """'The lead is', 'our database is'."""
    if not 0 < verb_at < len(found) - 1 or found[verb_at].said not in AUXILIARIES:
        return False
    return found[0].said in _OURS


def _the_one(found: list[MemoryTerm], verb_at: int) -> bool:
    if not 0 <= verb_at < len(found) - 1 or found[verb_at].said not in AUXILIARIES:
        return False
    return found[verb_at + 1].said in _OURS
