"""Owns the comparison of two memories: whether one repeats the other, or says something else of the same subject."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

REPEATS = 0.92
"""Cosine from which two texts without a differing value are the same statement."""
SAME_WORDS = 0.8
"""Cosine from which two texts of the same words are the same statement: order can matter."""
SAME_SUBJECT = 0.5
"""Cosine from which two texts can be about one thing."""
NEAR_SUBJECT = 0.7
"""Cosine from which a word exchanged for another is a changed value, even if neither looks like one."""
NEAR_TEXT = 0.5
"""Share of words in common from which a differing value contradicts."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[^\W_]+(?:[-_./:'’+#@][^\W_]+)*[+#]*|[^\W_]")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+|\n\s*(?:[-*>#]+\s*)?)$")
_CHANGE = re.compile(
    r"\b(?:moved (?:to|from|away)|now|no longer|not any ?more|any ?more|instead of|switched|changed|replaced|replaces"
    r"|migrated|renamed|deprecated|stopped|used to|previously|formerly|as of|since|from now on|dropped|reverted|became"
    r"|is gone|has left"
    r"|superseded|obsolete|reversed|undone|updated to|upgraded|downgraded|postponed|rescheduled|delayed)\b",
    re.IGNORECASE,
)
_NEGATION = _words(
    """
    not no never none nobody nothing cannot can't don't doesn't didn't won't isn't aren't wasn't shouldn't
    mustn't without avoid forbidden disallow dislike dislikes hates
    """
)
_STOP = _words(
    """
    a an and are as at be been but by can could do does did for from had has have he her his how i in into is it
    its me my of on or our she so than that the their them then there these they this those to too up us was we
    were what when where which who will with would you your also just very really quite please about all any
    some each it's that's there's currently now user users
    """
)
_VALUES = _words(
    """
    monday tuesday wednesday thursday friday saturday sunday january february march april june july august
    september october november december one two three four five six seven eight nine ten eleven twelve twenty
    thirty forty fifty hundred thousand million first second third fourth fifth half double daily weekly monthly
    hourly yearly quarterly nightly morning evening night noon midnight red green blue black white yellow orange
    purple grey gray dark light on off enabled disabled true false yes always open closed public private
    internal external staging production development left right top bottom before after minimum maximum increase
    decrease allow deny accept reject required optional sync async synchronous asynchronous tabs spaces
    single-quote double-quote short long small large big high low early late fast slow hot cold vegan vegetarian
    """
)
_OPENERS = _words(
    """
    use prefer keep run always never avoid ensure make write ask add include please remember deploy deploys
    deployment deployments release releases build builds test tests code commits commit documentation docs team
    teams customer customers developer developers engineer engineers service services server servers database
    databases everyone people project projects work meetings meeting answers responses reply tokens keys
    requests pull merges reviews review backups backup logs
    """
)
_SYNONYMS = {"prefer": "like", "love": "like", "enjoy": "like", "favor": "like", "favour": "like", "everi": "each"}


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as the comparison sees it."""

    words: frozenset[str]
    """Stems of what is not a filler."""
    values: frozenset[str]
    """Those that a different one of would change the statement: numbers, names, days, opposites."""
    negated: bool
    change: bool
    """Whether the text says that something is no longer as it was."""


@lru_cache(maxsize=4_000)
def read(text: str) -> Reading:
    """What a text says, word by word."""
    words: set[str] = set()
    values: set[str] = set()
    negated = False
    for match in _WORD.finditer(text):
        word = match.group(0).replace("’", "'")
        lowered = word.lower()
        if lowered in _NEGATION:
            negated = not negated
            continue
        if lowered in _STOP and not word.isupper():
            continue
        stem = _stem(lowered.removesuffix("'s"))
        stem = _SYNONYMS.get(stem, stem)
        words.add(stem)
        if _is_value(word, lowered, bool(_SENTENCE_START.search(text[max(0, match.start() - 12) : match.start()]))):
            values.add(stem)
    return Reading(frozenset(words), frozenset(values), negated, _CHANGE.search(text) is not None)


def repeats(new: Reading, old: Reading, cosine: float) -> bool:
    """Whether the new text says nothing that the old one does not."""
    if new.negated != old.negated or new.change != old.change:
        return False
    if new.words == old.words:
        return cosine >= SAME_WORDS
    return cosine >= REPEATS and not new.values - old.words


def contradiction(new: Reading, old: Reading, cosine: float) -> str | None:
    """Why the new text seems to change what the old one says, or None."""
    shared = new.words & old.words
    if cosine < SAME_SUBJECT or not shared:
        return None
    overlap = len(shared) / min(len(new.words), len(old.words))
    if new.negated != old.negated and overlap >= NEAR_TEXT:
        return "one of them is negated"
    gone, come = old.values - new.words, new.values - old.words
    # Two differing values or more on both sides are two events alike, not one thing that changed.
    if overlap >= NEAR_TEXT and gone and come and min(len(gone), len(come)) == 1:
        return "a different value for the same thing"
    left, entered = old.words - new.words, new.words - old.words
    if overlap > NEAR_TEXT and cosine >= NEAR_SUBJECT and 1 <= len(left) <= 2 and 1 <= len(entered) <= 2:
        return "a different value for the same thing"
    if new.change and not old.change and (len(shared) >= 2 or shared & new.values):
        return "it says that something changed"
    return None


def _is_value(word: str, lowered: str, opens_sentence: bool) -> bool:
    if lowered in _VALUES or lowered.removesuffix("s") in _VALUES or any(character.isdigit() for character in word):
        return True
    if re.search(r"[a-z][A-Z]|[_/@+#]|\w\.\w", word) or (word.isupper() and len(word) > 1):
        return True
    return word[0].isupper() and not (opens_sentence and lowered in _OPENERS)


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@cache
def _stemmer() -> Any:
    # Imported at the first word that is compared: it brings the stemmers of thirty languages.
    import snowballstemmer

    return snowballstemmer.stemmer("english")
