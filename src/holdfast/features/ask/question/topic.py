"""Owns what a question is about: the words that must be in a source that answers it, and what was done to them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from holdfast.engines.search.text.analyser import query_words, words

Action = Literal["add", "remove", "deprecate", "fix", "move", "revert"]

_SAID: dict[Action, str] = {
    "revert": "revert reverted reverts reverting restore restored undo undone rollback",
    "deprecate": "deprecate deprecated deprecates deprecating deprecation deprecations",
    "remove": """remove removed removes removing removal drop dropped drops dropping delete deleted deletes
        discontinue discontinued""",
    "fix": """fix fixed fixes fixing bugfix repair repaired resolve resolved solve solved patch patched mend mended""",
    "move": """move moved moves replace replaced replaces switch switched migrate migrated rename renamed convert
        converted port ported""",
    "add": """add added adds adding addition introduce introduced introduces implement implemented implements create
        created allow allows allowed provide provides include includes initial start started begin begun new expose
        support supported supports supporting feat feature enable enabled""",
}
_GET = frozenset(
    [
        "get",
        "got",
        "gets",
        "gain",
        "gained",
        "wrote",
        "written",
        "invent",
        "invented",
        "came",
        "arrive",
        "arrived",
        "land",
        "landed",
        "appear",
    ]
)
_NO_LONGER = re.compile(r"\b(?:no longer|any ?more|stopped|ceased)\b", re.I)
"""What says that something else is done now, or nothing."""
_REPLACES = re.compile(rf"{_NO_LONGER.pattern}|\b(?:instead|in favou?r of|rather than)\b", re.I)
_SCAFFOLD_WORDS = """
    version versions release released releases date day month year time first originally initially wrote written author
    person people introduced added function class method module parameter argument option feature problem problems issue
    issues bug bugs reason reasons change changed changes way thing need want use used using get got make made come came
    happen happened please tell explain show work works working gained invented vulnerability commit file code
    keep keeps kept hold holds held put store stored set decide decided choose chose chosen break breaks broke broken
    stop stopped let lets happens prefer preferred there here now still ship ships shipped longer regression regressions
    cause causes caused lead led another else arrive arrived land landed appear appeared went go goes wrong quickly soon
    suddenly recently eventually finally exactly really actually completely anymore since
"""


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem for each in text.split() for stem in words(each))


_ACTIONS = {action: _stems(said) for action, said in _SAID.items()}
_INSTEAD = _ACTIONS["move"] | _ACTIONS["remove"] | _stems("instead rather change changed now use uses longer")
_SCAFFOLD = _stems(_SCAFFOLD_WORDS)
_TOKEN = re.compile(r"[^\s,;:?!()\[\]{}\"“”‘’]+")
_RAW = re.compile(r"\w+(?:[./-]\w+)*")
_CODE = re.compile(r"\w*(?:_\w|[a-z0-9][A-Z]|[A-Z]{2,}[a-z])\w*")
_AS_CODE = re.compile(r"--?\w[\w-]*|\S*(?:_\w|[a-z0-9][A-Z]|\w\.\w|::|\(\))\S*|`[^`]*`")
"""What code spells, whose parts say nothing of what was done: `RemoveCommand` may have been added."""
_FLAG = re.compile(r"--?\w[\w-]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_SENTENCE = re.compile(r"(?<=[.?!])\s+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_NOT_CHOSEN = re.compile(r"\b(?:instead of|rather than)\b[^,;.?!]*", re.IGNORECASE)
NUMBERED = 4
"""How many words behind a name its number may stand: "Python 3.8, 3.9 and 3.10"."""
NEXT_TO = 4
"""How many words may stand between what was removed and the word that says so."""
UNKNOWN = 12.0


@dataclass(frozen=True, slots=True)
class TextWords:
    """A text with what is looked for in it."""

    text: str
    words: frozenset[str]
    numbers: frozenset[str]

    def has_number(self, wanted: str) -> bool:
        """Whether it has a number; 5 is in 5.0.1 too, and 1.12 in go1.12."""
        return wanted in self.numbers or any(each.startswith(f"{wanted}.") for each in self.numbers)


@dataclass(frozen=True, slots=True)
class AskedWord:
    """One word of the question."""

    whole: str
    parts: frozenset[str]
    """Its parts, which all together are as good: `StaticFiles` and "static files"."""
    weight: float
    is_number: bool
    spelled: str = ""
    """How code spells it; empty for a plain word."""
    is_name: bool = False
    """Whether it is what something is called: an answer about something else is none."""
    of: str = ""
    """What a number counts, where the question says so: Python 2 is not in a version 2 that drops Python 3.7."""

    def is_in(self, read: TextWords) -> bool:
        """Whether a text has it."""
        if self.spelled.startswith("-"):
            return self.spelled in read.text
        if self.whole in read.words and not self.of:
            return True
        if self.is_number:
            return self._is_numbered(read)
        return bool(self.parts) and self.parts <= read.words

    def _is_numbered(self, read: TextWords) -> bool:
        """Whether a text has its numbers and its letters, joined as it likes: HTTP/3, http3, Go 1.12, go1.12."""
        letters = (stem for each in _LETTERS.findall(self.whole) for stem in words(each))
        numbers = _NUMBER.findall(self.whole)
        if not all(map(read.has_number, numbers)) or not read.words.issuperset(letters):
            return False
        return self.of not in read.words or any(
            each == number or each.startswith(f"{number}.") for number in numbers for each in self._counted(read)
        )

    def is_exactly_in(self, read: TextWords) -> bool:
        """Whether a text has its very number: 2.6 is one of 2, and yet another."""
        there = self._counted(read) if self.of in read.words else read.numbers
        # 8.1 is 8.1.0 as well.
        return all(not {number, f"{number}.0"}.isdisjoint(there) for number in _NUMBER.findall(self.whole))

    def _counted(self, read: TextWords) -> frozenset[str]:
        """The numbers that stand right behind what it counts."""
        found: set[str] = set()
        left = 0
        for raw in _RAW.findall(read.text):
            if self.of in _read(raw).words or self.of in map(str.lower, _LETTERS.findall(raw)):
                left = NUMBERED + 1
            if left:
                found.update(_NUMBER.findall(raw))
                left -= 1
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class AskedTopic:
    """What must be in an answer."""

    terms: tuple[AskedWord, ...]
    action: Action | None
    names: frozenset[str] = frozenset()
    """What the repositories are called."""

    @property
    def is_of_version(self) -> bool:
        """Whether it names nothing but versions: what is asked is what they brought."""
        return bool(self.terms) and all(term.is_number for term in self.terms)

    def coverage(self, text: str) -> float:
        """The share of the question's words in a text, rare ones counting more; none where a number or name lacks."""
        if not self.terms:
            return 1.0
        read = _read(text)
        missing = [term for term in self.terms if not term.is_in(read)]
        if any(term.is_number or term.is_name for term in missing):
            return 0.0
        return 1 - sum(term.weight for term in missing) / sum(term.weight for term in self.terms)

    def overlap(self, text: str) -> float:
        """The same without demanding anything: how much of the topic is in part of an answer."""
        read = _read(text)
        total = sum(term.weight for term in self.terms) or 1.0
        return sum(term.weight for term in self.terms if term.is_in(read)) / total

    def is_exact(self, text: str) -> bool:
        """Whether a text has the very numbers that are asked about, not only numbers that begin so."""
        read = _read(text)
        return all(term.is_exactly_in(read) for term in self.terms if term.is_number)

    def is_announced(self, text: str, heading: str = "") -> bool:
        """Whether a text says that what was removed would be: the reason is given when people are warned."""
        return self.action == "remove" and self._is_near(text, heading, "deprecate")

    def is_done(self, text: str, heading: str = "") -> bool:
        """Whether a text says that what was asked about was done to it; a heading ("Removed") says it for all below."""
        action = self.action
        if action is None:
            return True
        said = _said(text) | _said(heading)
        if action == "move":
            return bool(said & _INSTEAD)
        if action in ("remove", "deprecate") and not self.is_of_version:
            return self._is_near(text, heading, action)
        if said & _ACTIONS[action]:
            return True
        # "GZip middleware (#111)": what says nothing else of a thing brings it.
        others = (_ACTIONS[each] for each in ("remove", "deprecate", "fix", "revert"))
        return action == "add" and not any(said & other for other in others)

    def is_said(self, text: str) -> bool:
        """Whether a text says in so many words that it was done."""
        if self.action == "move" and _REPLACES.search(text):
            return True
        return self.action is not None and bool(_said(text) & _ACTIONS[self.action])

    def _is_near(self, text: str, heading: str, action: Action) -> bool:
        """Whether the word stands beside what it is about: a list of removals names much that was not removed."""
        listed = _RAW.findall(text)
        stems = [frozenset(words(each)) for each in listed]
        doing = [place for place, each in enumerate(stems) if each & _ACTIONS[action]]
        under = bool(_said(heading) & _ACTIONS[action])
        if not under and any(each & _ACTIONS["fix"] for each in stems):
            # "Fix the cache for deleted files" removes nothing.
            return False
        about = [
            place
            for place, each in enumerate(stems)
            if any(listed[place] == term.spelled if term.spelled else term.whole in each for term in self.terms)
        ]
        return any(abs(place - other) <= NEXT_TO for place in [*doing, *([-1] if under else ())] for other in about)


def topic_of(asked: str, text: str, weights: Mapping[str, float], names: frozenset[str]) -> AskedTopic:
    """The topic of `text`, with the action that `asked` says; `names` are the repositories', which all is about."""
    # What was not chosen may be named elsewhere, or in other words.
    chosen = _NOT_CHOSEN.sub("", text)
    tokens = list(dict.fromkeys(token.strip("`'*.") for token in _TOKEN.findall(chosen)))
    action = action_of(asked) or (action_of(text) if asked != text else None)
    doing = _ACTIONS[action] if action is not None else frozenset[str]()
    called = _names_in(text)
    counted = _counted_in(chosen, names)
    terms = [term for token in tokens if (term := _term(token, weights, called, counted.get(token, ""))) is not None]
    # "Drop Python 3.7 support": what was dropped is the support.
    left = _SCAFFOLD | (doing if action == "add" else doing - frozenset(words("support")))
    telling = [term for term in terms if term.spelled or term.whole not in left]
    own = [term for term in telling if term.whole not in names] or telling
    return AskedTopic(tuple(own or terms), action, names)


def _counted_in(text: str, names: frozenset[str]) -> Mapping[str, str]:
    """What each number counts: the word before it, unless that says nothing or is the repository itself."""
    tokens = [token.strip("`'*.") for token in _TOKEN.findall(text)]
    doing = frozenset[str]().union(*_ACTIONS.values())
    found = {}
    for before, token in pairwise(tokens):
        stems = frozenset(query_words(before))
        if token[:1].isdigit() and len(stems) == 1 and before.isalpha() and not stems & (_SCAFFOLD | names | doing):
            (found[token],) = stems
    return found


def _term(token: str, weights: Mapping[str, float], called: frozenset[str], of: str) -> AskedWord | None:
    found = list(words(token))
    if not found:
        return None
    whole = max(found, key=len)
    parts = frozenset(found) - {whole}
    is_number = any(letter.isdigit() for letter in whole)
    weight = weights.get(whole, UNKNOWN)
    # What is spelled with a joint and stands nowhere is called so somewhere else.
    is_name = token in called or ("-" in whole and weight == UNKNOWN)
    spelled = token if _FLAG.fullmatch(token) or _CODE.fullmatch(token) else ""
    return AskedWord(whole, parts, weight, is_number, spelled, is_name and not is_number, of if is_number else "")


def _names_in(text: str) -> frozenset[str]:
    """The words that are written as names where a sentence would write them small."""
    found = set()
    for sentence in _SENTENCE.split(text):
        for token in _TOKEN.findall(sentence)[1:]:
            tidy = token.strip("`'*.")
            if tidy[:1].isupper() and tidy.isalpha() and not _CODE.fullmatch(tidy) and len(tidy) > 2:
                found.add(tidy)
    return frozenset(found)


def action_of(text: str) -> Action | None:
    """What a text says was done."""
    found = _said(text)
    for action, said in _ACTIONS.items():
        if found & said:
            return action
    if _NO_LONGER.search(text):
        return "move"
    return "add" if _GET & frozenset(text.lower().split()) else None


def _said(text: str) -> frozenset[str]:
    """The words of a text that are no code."""
    return _read(_AS_CODE.sub(" ", text)).words


@lru_cache(maxsize=1024)
def _read(text: str) -> TextWords:
    return TextWords(text, frozenset(words(text)), frozenset(_NUMBER.findall(text)))
