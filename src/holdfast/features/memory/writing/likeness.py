"""Owns the comparison of two memories: whether one repeats the other, or says something else of the same subject."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from holdfast.features.memory.writing.statement import MEANS, Statement, statement
from holdfast.features.memory.writing.vocabulary import (
    CLASS_NOUNS,
    CONVERSES,
    EXCLUSIVE_ROLES,
    OPPOSITES,
    SCOPE_PREPOSITIONS,
    SCOPES,
    VERBS,
    WEAK,
    WEAK_NOUNS,
)

SAME_SUBJECT = 0.25
"""Cosine from which two texts can be about one thing."""
FAR_SUBJECT = 0.45
"""Cosine below which both must name the same subject in the same words."""
REPEATS = 0.893
"""Cosine from which another verb still says the same."""
REWORDED = 0.742
"""Cosine from which a sentence built otherwise may have one word more, or another verb."""
SAME_VALUES = 0.655
"""The same where both name the same values."""
SAME_WORDS = 0.35
"""Cosine from which two texts of the same words are the same statement."""
NEAR_SUBJECT = 0.742
"""Cosine from which a subject may be named more closely on one side."""
BY_WORDS = FAR_SUBJECT
"""Taken for the cosine where there is none: only the same words, and the same subject in the same words, count."""
_BROAD = WEAK | CLASS_NOUNS
MOST_STATEMENTS = 30
"""Of each text: a memory of more sentences is compared by its first."""
MOST_CHARACTERS = 4_000

# 'On disk' and 'in S3' say where, 'by Stripe' and 'through Adyen' with what.
_ONE_PLACE = dict.fromkeys(("in", "on", "at", "under", "into"), "in") | dict.fromkeys(MEANS, "with")
_ORDER = frozenset(("befor", "before", "after"))
_LABEL = re.compile(r"^(\w[\w-]*(?: [\w-]+){0,3}): (?=\S)", re.MULTILINE)
_SENTENCES = re.compile(
    r"(?<=[.!?;:])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bSt\.)(?<!\bNo\.)(?<!e\.g\.)(?<!i\.e\.)(?<!\bvs\.)\s+"
    r"|\n+|,? and (?=(?:it|they)\b)"
)
_PRONOUN = re.compile(r"(?:it|they|this|these|that|he|she)\b", re.IGNORECASE)
_POSSESSIVE = re.compile(r"(?:his|her|its|their)\b", re.IGNORECASE)
NEGATED, OTHER_VALUE, CHANGED = (
    "one of them is negated",
    "a different value for the same thing",
    "it says that something changed",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as the comparison sees it."""

    statements: tuple[Statement, ...]


@lru_cache(maxsize=4_000)
def read(text: str) -> Reading:
    """What a text says, sentence by sentence."""
    found: list[Statement] = []
    for sentence in _SENTENCES.split(_LABEL.sub(r"\1 is ", text[:MOST_CHARACTERS])):
        if not re.search(r"\w", sentence):
            continue
        one = statement(sentence.strip())
        if found and _PRONOUN.match(sentence.strip()):
            one = _of_subject(one, found[-1], found[-1].subject)
        elif found and _POSSESSIVE.match(sentence.strip()):
            one = _of_subject(one, found[-1], one.subject | found[-1].subject)
        found.append(one)
        if len(found) == MOST_STATEMENTS:
            break
    return Reading(tuple(found))


def _of_subject(one: Statement, before: Statement, subject: frozenset[str]) -> Statement:
    """'It is rebuilt nightly', of what the sentence before is about."""
    kinds = {word: before.kinds[word] for word in before.subject}
    return replace(
        one,
        subject=subject,
        words=one.words | before.subject,
        strong=one.strong | before.subject & before.strong,
        values=one.values | before.subject & before.values,
        kinds=kinds | one.kinds,
    )


def repeats(new: Reading, old: Reading, cosine: float) -> bool:
    """Whether the new text says nothing that the old one does not."""
    if len(new.statements) == len(old.statements) == 1:
        return _repeats(new.statements[0], old.statements[0], cosine)
    # The cosine is that of the whole texts, and says little of one sentence in them.
    return bool(new.statements) and all(any(_within(one, other) for other in old.statements) for one in new.statements)


def contradiction(new: Reading, old: Reading, cosine: float) -> str | None:
    """Why the new text seems to change what the old one says, or None."""
    if cosine < SAME_SUBJECT:
        return None
    several = len(new.statements) + len(old.statements) > 2
    for one in new.statements:
        if several and any(_within(one, other) for other in old.statements):
            continue
        for other in old.statements:
            reason = _contradiction(one, other, cosine)
            if reason is not None:
                return reason
    return None


def _repeats(new: Statement, old: Statement, cosine: float) -> bool:
    if new.negated != old.negated or _clash(new, old):
        return False
    entered, left = new.strong - old.words, old.strong - new.words
    if any(map(new.is_value, entered)) or not new.strong:
        return False
    if _opposed(new.words - old.words, old.words - new.words):
        return False
    if not entered and not left:
        return cosine >= SAME_WORDS and not _turned_round(new, old)
    if not entered:
        if (new.words - old.words) & WEAK_NOUNS:
            return False
        # Less is said, and what is said less narrowly is said of more: 'no deploys on Fridays', 'no deploys'.
        narrower = left - {old.verb} if new.negated else _bounds(old) - new.words
        if new.subject & old.subject:
            # 'Tokens last an hour' says more than 'access tokens last an hour'.
            narrower |= old.subject - new.words - _BROAD
        return cosine >= NEAR_SUBJECT and not narrower
    if any(map(old.is_value, left)):
        return False
    if {new.verb, old.verb} in CONVERSES:
        return entered <= {new.verb} and left <= {old.verb} and _exchanged(new, old) and cosine >= NEAR_SUBJECT
    reworded = _built_otherwise(new, old)
    if reworded and not left and len(entered) == 1 and cosine >= REWORDED and not _bounds(new) - old.words:
        return True
    # Many more words than were given up say something more.
    few = len(left) <= 2 and len(entered) <= min(2, len(left) + 1)
    if reworded and few and not _bounds(new) - old.words and not _another_in_place(new, old, entered, left):
        # Nothing is a value that only one of them has; a name at a sentence's beginning is not known for one.
        return cosine >= (SAME_VALUES if new.values & old.values else REWORDED)
    if _nominal(new, old, entered, left) and cosine >= REWORDED and not _bounds(new) - old.words:
        return True
    kinds = CLASS_NOUNS if new.values and new.values == old.values and not left - {old.verb} else frozenset[str]()
    if entered - kinds <= {new.verb} and left <= {old.verb} and not _bounds(new) - old.words:
        if left and entered - kinds and not reworded:
            # 'Eva designed the schema' and 'Eva reviewed the schema' are as near as two words for one deed.
            return cosine >= REPEATS and not ({new.verb, old.verb} <= VERBS and len(new.strong & old.strong) < 3)
        return cosine >= (NEAR_SUBJECT if not (left and entered - kinds) else REWORDED)
    return False


def _nominal(new: Statement, old: Statement, entered: frozenset[str], left: frozenset[str]) -> bool:
    """'Retention of logs is 7 years' and 'logs are kept for 7 years': a noun for the verb, of the same amount."""
    amounts = _amounts(new)
    if not amounts or amounts != _amounts(old) or not new.strong & old.strong - amounts:
        return False
    if not new.verb and not old.verb:
        # 'The gym costs 30 euros a month', 'gym membership is €30 monthly'.
        return len(amounts) > 1 and len(entered) == len(left) == 1
    noun, verb = (left, entered) if new.verb else (entered, left)
    one, other = (new, old) if new.verb else (old, new)
    return bool(one.verb) and not other.verb and verb <= {one.verb} and len(noun) == 1


def _amounts(one: Statement) -> frozenset[str]:
    return frozenset(word for word in one.values if one.kinds[word].kind not in ("word", "name"))


def _within(new: Statement, old: Statement) -> bool:
    """Whether a sentence says nothing that another one does not, by its words alone."""
    return (
        new.negated == old.negated
        and bool(new.strong)
        and not new.strong - old.words
        and len(old.strong - new.words) <= len(new.strong)
        and not ((new.negated or (new.words - old.words) & WEAK_NOUNS) and old.strong - new.words)
        and not _clash(new, old)
        and not _turned_round(new, old)
    )


def _clash(new: Statement, old: Statement) -> bool:
    """Whether one takes what the other says not to take."""
    return bool(new.rejected & old.words or old.rejected & new.words)


def _turned_round(new: Statement, old: Statement) -> bool:
    """'Nina pays Omar' has the words of 'Omar pays Nina', and "Nina's boss is Omar" those of "Omar's boss is Nina"."""
    ours, theirs = new.subject - old.subject, old.subject - new.subject
    if new.subject & old.subject and ours and theirs and ours <= _said(old) and theirs <= _said(new):
        return True
    return bool(new.verb) and new.verb == old.verb and new.passive == old.passive and _exchanged(new, old)


def _exchanged(new: Statement, old: Statement) -> bool:
    """Whether each is about what the other says something of."""
    ours, theirs = new.subject - WEAK, old.subject - WEAK
    return bool(ours and theirs) and not ours & theirs and ours <= _said(old) and theirs <= _said(new)


def _built_otherwise(new: Statement, old: Statement) -> bool:
    """Whether one is not the other with a word put in or exchanged: that would be said of something else."""
    return (
        not _in_order(old, new)
        or new.passive != old.passive
        or (new.spoken != old.spoken and bool(new.subject - WEAK) != bool(old.subject - WEAK))
    )


def _another_in_place(new: Statement, old: Statement, entered: frozenset[str], left: frozenset[str]) -> bool:
    """'The finance team approves refunds' and 'Refunds are approved by support': somebody else does it."""
    parts = {_part(old, word) for word in left - {old.verb}}
    return any(_part(new, word) in parts for word in entered - {new.verb})


def _part(one: Statement, word: str) -> str:
    """What a word is in its sentence, whether that is said in the active or the passive voice."""
    if word in one.subject:
        return "done to" if one.passive else "doer"
    place = next((name for name, said in one.slots if word in said), "")
    if one.passive:
        return "doer" if place == "by" else place or "done"
    return _ONE_PLACE.get(place, place) or "done to"


def _in_order(old: Statement, new: Statement) -> bool:
    """Whether the new statement is the old one with words put in between: then they add something."""
    rest = iter(new.order)
    return all(word in rest for word in old.order if word in new.words)


def _opposed(some: frozenset[str], others: frozenset[str]) -> bool:
    return any(some & pair and others & pair for pair in OPPOSITES)


def _says_opposite(new: Statement, old: Statement) -> bool:
    ours, theirs = new.words - old.words, old.words - new.words
    if _built_otherwise(new, old):
        # 'Two approvals before merging' is 'merged after two approvals'.
        ours, theirs = ours - _ORDER, theirs - _ORDER
    return not new.negated and _opposed(ours, theirs)


def _said(one: Statement) -> frozenset[str]:
    return frozenset(word for _, words in one.slots for word in words)


def _bounds(one: Statement) -> frozenset[str]:
    """What narrows a statement."""
    return frozenset(
        word for name, words in one.slots for word in words if name in SCOPE_PREPOSITIONS or (word in SCOPES and name)
    )


def _contradiction(new: Statement, old: Statement, cosine: float) -> str | None:
    shared = new.strong & old.strong or _light(new.words & old.words)
    if _other_filler(new, old):
        return CHANGED if new.change and not old.change else OTHER_VALUE
    if _clash(new, old) and (new.verb == old.verb or shared) and cosine >= FAR_SUBJECT:
        return OTHER_VALUE
    if not shared and not (new.subject and new.subject == old.subject):
        return _of_the_speaker(new, old) if cosine >= FAR_SUBJECT else None
    if cosine < FAR_SUBJECT and not (new.subject and new.subject == old.subject):
        return None
    if _repeats_but_for_a_value(new, old, cosine):
        return OTHER_VALUE
    if not _same_subject(new, old, cosine):
        return _other_holder(new, old)
    if new.negated != old.negated:
        denied = new if new.negated else old
        if denied.verb and denied.verb not in new.words & old.words and cosine < REWORDED:
            return None
        if not (denied.words - denied.subject) & new.words & old.words:
            return None
        near = len(shared) >= 0.6 * min(len(new.strong), len(old.strong))
        return NEGATED if near else None
    return _other_value(new, old)


def _repeats_but_for_a_value(new: Statement, old: Statement, cosine: float) -> bool:
    """Whether a sentence built otherwise says the same, had it not another value of the same kind."""
    if new.negated != old.negated or not _built_otherwise(new, old) or cosine < SAME_VALUES:
        return False
    entered, left = new.strong - old.words, old.strong - new.words
    ours, theirs = set(filter(new.is_value, entered)), set(filter(old.is_value, left))
    if len(ours) != 1 or len(theirs) != 1 or len(new.strong & old.strong) < 2:
        return False
    term, before = new.kinds[ours.pop()], old.kinds[theirs.pop()]
    if (term.kind, term.group) != (before.kind, before.group) or new.additive or old.additive:
        return False
    return len(left) <= 2 and len(entered) <= 2 and not _bounds(new) - old.words - {term.key}


def _light(shared: frozenset[str]) -> frozenset[str]:
    """Words that say little each, and enough where they are several: 'code is formatted with'."""
    return shared if len(shared) >= 2 else frozenset()


def _other_filler(new: Statement, old: Statement) -> bool:
    """'We use CircleCI for CI' and 'CI runs on GitHub Actions': one role, and another name that fills it."""
    if new.negated or old.negated or not new.role or new.role != old.role or (new.additive and old.additive):
        return False
    return bool(new.filler and old.filler) and not new.filler & old.filler


def _of_the_speaker(new: Statement, old: Statement) -> str | None:
    """'User lives in Oslo' and 'User moved to Bergen' have no word in common."""
    if (
        not new.subject
        and not old.subject
        and len(new.strong) == len(old.strong) == 1
        and _opposed(new.strong, old.strong)
    ):
        return OTHER_VALUE
    if new.subject or old.subject or not new.change or new.verb or old.verb:
        return None
    return CHANGED if len(new.values) == len(old.values) == len(new.strong) == len(old.strong) == 1 else None


def _same_subject(new: Statement, old: Statement, cosine: float) -> bool:
    ours, theirs = new.subject - old.subject, old.subject - new.subject
    if not new.subject or not old.subject:
        # 'We write comments in English' and 'Comments are written in German'.
        return (new.subject | old.subject) - _BROAD <= new.words & old.words
    ours, theirs = (ours, theirs) if ours - WEAK and theirs - WEAK else (ours - WEAK, theirs - WEAK)
    if ours and theirs:
        return False
    extra = (ours | theirs) - CLASS_NOUNS
    if not extra:
        return True
    return cosine >= NEAR_SUBJECT and not any((new.kinds.get(word) or old.kinds[word]).is_value for word in extra)


def _other_holder(new: Statement, old: Statement) -> str | None:
    """'Ann is the lead' and 'Bo is the lead' cannot both be; 'Ann likes tea' and 'Bo likes tea' can."""
    if new.negated or old.negated:
        return None
    if new.verb == old.verb and new.verb in EXCLUSIVE_ROLES and new.passive != old.passive:
        # 'Elena leads the data team' and 'The data team is led by Marco'.
        active, passive = (old, new) if new.passive else (new, old)
        led = dict(active.slots).get("", frozenset())
        return OTHER_VALUE if led and led == passive.subject and not active.subject & _said(passive) else None
    said, told = _said(new) & new.strong, _said(old) & old.strong
    if said and said == told and new.verb == old.verb:
        if new.change and not old.change:
            return CHANGED
        exclusive = (new.the_one and old.the_one) or new.verb in EXCLUSIVE_ROLES
        return OTHER_VALUE if exclusive else None
    if not new.verb and not old.verb and new.definite and old.definite:
        # 'Blue is my favourite colour' and 'My favourite colour is green'.
        if told and new.subject & new.strong == told:
            return OTHER_VALUE if not said & old.subject else None
        if said and old.subject & old.strong == said:
            return OTHER_VALUE if not told & new.subject else None
    return None


def _other_value(new: Statement, old: Statement) -> str | None:
    entered, left = new.strong - old.words - new.subject, old.strong - new.words - old.subject
    if not entered and left:
        entered = (new.words - old.words - new.subject) & WEAK_NOUNS
    if not entered or not left:
        if _says_opposite(new, old):
            return OTHER_VALUE
        return CHANGED if new.change and not old.change and entered and any(map(new.is_value, entered)) else None
    if _says_opposite(new, old):
        return OTHER_VALUE
    if new.verb and old.verb and new.verb != old.verb:
        return None
    places, before = _places(new, entered), _places(old, left)
    if len(places) > 1 and len(before) > 1:
        # Two things differ: two events alike, not one thing that changed.
        return None
    if _typed(new, old, entered, left):
        return OTHER_VALUE
    if new.negated or (_counted(new, entered) and _counted(old, left)):
        return None
    if new.trait or old.trait or new.additive != old.additive or (new.additive and "" in places & before):
        return None
    if new.verb != old.verb and not (places & before) - {""} and not new.change:
        return None
    if len(entered) > 2 or len(left) > 2:
        return None
    if (places | before) & SCOPE_PREPOSITIONS or _bounds(new) & entered or _bounds(old) & left:
        return None
    if new.change and not old.change:
        return CHANGED
    if _measured(new, entered) != _measured(old, left):
        return OTHER_VALUE if places & before and "" not in places & before else None
    # 'Sorted alphabetically' and 'sorted by length' say how in two places.
    alike = new.verb == old.verb and (not new.verb or new.passive)
    return OTHER_VALUE if places & before or ("" in places | before and alike) else None


def _unmeasured(one: Statement, words: frozenset[str]) -> set[str]:
    return {word for word in words if one.kinds[word].kind in ("word", "name") and word != one.verb}


def _counted(one: Statement, words: frozenset[str]) -> bool:
    """Whether an amount of something else is said: '5 mg of the one, 20 mg of the other'."""
    return any(one.kinds[word].kind == "amount" for word in words) and bool(_unmeasured(one, words))


def _measured(one: Statement, words: frozenset[str]) -> bool:
    return any(one.kinds[word].kind not in ("word", "name") for word in words)


def _places(one: Statement, words: frozenset[str]) -> frozenset[str]:
    return frozenset(_ONE_PLACE.get(name, name) for name, said in one.slots if said & words)


def _typed(new: Statement, old: Statement, entered: frozenset[str], left: frozenset[str]) -> bool:
    """Whether an amount, a time, a day or a frequency stands in the place of another of its kind."""
    for word in entered:
        term = new.kinds[word]
        if term.kind == "word" or (term.kind == "name" and not word[0].isdigit()):
            continue
        for other in left:
            before = old.kinds[other]
            if (before.kind, before.group) != (term.kind, term.group) or (
                term.kind == "name" and not other[0].isdigit()
            ):
                continue
            # Of what is counted, the same must be counted; iOS 16 may be needed as well as Android 11.
            others = _unmeasured(new, entered - {word}), _unmeasured(old, left - {other})
            is_of_same = term.kind not in ("amount", "name") or not all(others)
            if is_of_same or (term.kind == "name" and not (new.additive and old.additive)):
                return True
    return False
