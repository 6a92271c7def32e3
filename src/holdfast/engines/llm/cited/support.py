"""Owns whether a source bears a statement out: its figures, names, negations and bounds have to stand there."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.cited.figures import Figure
from holdfast.engines.llm.cited.passages import Passage, passages
from holdfast.engines.llm.cited.reading import ReadText, SaidWord, Sides, is_negation
from holdfast.engines.llm.cited.vocabulary import (
    BOUNDS,
    CAUSES,
    OPPOSITES,
    PERIODS,
    PLAIN,
    POSSIBLE,
    SAME,
    WEAK_NEGATORS,
)

_NEAR = 2
_MOST_ANCHORS = 4
_MOST_PASSAGES = 2_000
_WORDS_EACH = 5
"""For each so many words of a statement one may be missing in its source."""
_MOST_MISSING = 2
_UNJUDGED = frozenset({"up", "down", "more", "less", "on", "off"})
_LINES = re.compile(r"\b[Ll](?:ines?)?\s?(\d+)(?:\s?(?:-|–|to|and)\s?[Ll]?(\d+))?")
_DECORATION = re.compile(r"\*+|(?<!\w)_+|_+(?!\w)|[|>]")
_PREFIXES = ("un", "in", "im", "non", "dis", "ir")

_MATES: dict[str, frozenset[str]] = {}
for _group in (*SAME, *(side for pair in OPPOSITES for side in pair)):
    for _word in _group:
        _MATES[_word] = _MATES.get(_word, frozenset()) | _group
_AGAINST: dict[str, list[tuple[frozenset[str], frozenset[str]]]] = {}
for _one, _other in OPPOSITES:
    for _mine, _theirs in ((_one, _other), (_other, _one)):
        for _word in _mine:
            _AGAINST.setdefault(_word, []).append((_mine, _theirs))

_HARD = PERIODS.union(_AGAINST)
"""Words that are facts: none of them may be missing."""


@dataclass(frozen=True, slots=True)
class _Window:
    """A passage with what may be told together with it."""

    anchor: Passage
    readings: tuple[ReadText, ...]
    """The anchor, its neighbours, its headings, and what is known about the source."""
    naming: frozenset[str]
    """The words that names may be taken from: not from the next paragraph, which may be about something else."""

    @property
    def stems(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.stems for each in self.readings))

    @property
    def keys(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.keys for each in self.readings))

    @property
    def figures(self) -> Iterator[Figure]:
        return (figure for each in self.readings for figure in each.figures)


class Support:
    """Judges statements by the sources that they cite."""

    def __init__(self, sources: Mapping[int, ReadSource]) -> None:
        self._sources = sources
        self._passages: dict[int, list[Passage]] = {}
        self._about: dict[int, ReadText] = {}

    def missing(self, claim: str, numbers: Sequence[int]) -> str:
        """Why the sources of those numbers do not support a statement; empty where they do."""
        known = [number for number in numbers if number in self._sources]
        if not known:
            return "no such source"
        plain = self._without_lines(_DECORATION.sub(" ", claim), known)
        said = ReadText(plain)
        if not any(token.is_content for token in said.tokens):
            return ""
        why = ""
        for window in self._windows(said, known):
            problem = _problem(said, window)
            if not problem:
                return ""
            why = why or problem
        return why or "nothing like it"

    def passage(self, quote: str, number: int) -> str:
        """What a source says around some words of it, so that no half of a sentence is told for the whole."""
        for passage in self._of(number):
            if ReadSource(0, "", "", passage.text).has(quote):
                return " ".join(passage.text.split())
        return quote

    def denied(self, claim: str) -> bool:
        """Whether some source has all the words of what is said not to be there."""
        wanted = ReadText(claim).stems
        return bool(wanted) and any(
            wanted <= passage.reading.stems for number in self._sources for passage in self._of(number)
        )

    def _without_lines(self, claim: str, numbers: Sequence[int]) -> str:
        """The statement without the numbers of lines that its sources have."""

        def shown(match: "re.Match[str]") -> str:
            ends = [int(each) for each in match.groups() if each]
            for number in numbers:
                first, last = self._sources[number].lines
                if all(first <= each <= last for each in ends):
                    return " "
            return match[0]

        return _LINES.sub(shown, claim)

    def _windows(self, said: ReadText, numbers: Sequence[int]) -> Iterator[_Window]:
        """The places that have most of the statement's words, the best first."""
        wanted = said.stems
        scored = []
        for number in numbers:
            for place, passage in enumerate(self._of(number)):
                has = passage.reading.stems | passage.context.stems
                shared = sum(1 for word in wanted if word in has or _MATES.get(word, frozenset()) & has)
                both = (*passage.reading.figures, *passage.context.figures)
                shared += sum(1 for figure in said.figures if any(figure.within(other) for other in both))
                if shared:
                    scored.append((-shared, number, place))
        scored.sort()
        best = [each for each in scored if each[0] <= scored[0][0] + 1][:_MOST_ANCHORS] if scored else []
        others = {number: next((each for each in scored if each[1] == number), None) for number in numbers}
        for _, number, place in best:
            own = self._window(number, place)
            yield own
            # A statement with several sources may take from each what it says of the same.
            rest = [each for other, each in others.items() if other != number and each is not None]
            if rest:
                added = [reading for _, n, p in rest for reading in self._window(n, p).readings]
                naming = own.naming.union(*(self._window(n, p).naming for _, n, p in rest))
                yield _Window(own.anchor, (*own.readings, *added), naming)

    def _window(self, number: int, place: int) -> _Window:
        every = self._of(number)
        anchor = every[place]
        near = [
            each
            for each in every[max(0, place - _NEAR) : place + _NEAR + 1]
            if each is not anchor and each.section == anchor.section
        ]
        known = (anchor.context, self._known(number))
        here = [anchor.reading, *known, *(each.reading for each in near if each.paragraph == anchor.paragraph)]
        naming = frozenset(word for each in here for word in (*each.stems, *each.keys))
        return _Window(anchor, (anchor.reading, *(each.reading for each in near), *known), naming)

    def _of(self, number: int) -> list[Passage]:
        if number not in self._passages:
            source = self._sources[number]
            title = "" if source.title in source.text else f"{source.title}\n\n"
            self._passages[number] = passages(f"{title}{source.text}")[:_MOST_PASSAGES]
        return self._passages[number]

    def _known(self, number: int) -> ReadText:
        if number not in self._about:
            source = self._sources[number]
            self._about[number] = ReadText(f"{source.title}\n{source.about}")
        return self._about[number]


def _problem(said: ReadText, window: _Window) -> str:
    """What of the statement is not in a place of its source."""
    keys, stems = window.keys, window.stems
    return (
        _figures(said, window)
        or _reversed(said, window)
        or _negation(said, window)
        or _openness(said, window)
        or _bounds(said, keys)
        or _opposites(said, window, keys)
        or _words(said, window, keys, stems)
    )


def _figures(said: ReadText, window: _Window) -> str:
    for figure in said.figures:
        if not any(figure.within(other) for other in window.figures):
            return f"{figure.value} is not there"
        same = [(reading, other) for reading in window.readings for other in reading.figures if figure.within(other)]
        if said.bound(figure) and not any(reading.bound(other) == said.bound(figure) for reading, other in same):
            return f"{figure.value} is no such bound there"
        name = said.named(figure)
        if name and not _is_version_of(name, same, window):
            return f"{figure.value} is of something else"
        for reading in window.readings:
            if _belongs_elsewhere(said, figure, reading):
                return f"{figure.value} is said of something else"
    return ""


def _is_version_of(name: str, same: Sequence[tuple[ReadText, Figure]], window: _Window) -> bool:
    """Whether the version is that of the name: it stands behind it there, or the source itself is called so."""
    return name in window.readings[-1].keys or any(name == reading.neighbours(figure)[0] for reading, figure in same)


def _belongs_elsewhere(said: ReadText, figure: Figure, there: ReadText) -> bool:
    """Whether the source says it of something else: "a lease of 60 seconds, renewed every 20"."""
    mine = [other for other in there.figures if figure.within(other)]
    others = [other for other in there.figures if other.kind == figure.kind and not figure.within(other)]
    if not mine or not others:
        return False
    for side, word in enumerate(said.neighbours(figure)):
        if not word:
            continue
        theirs = {there.neighbours(other)[side] for other in others}
        own = {there.neighbours(other)[side] for other in mine}
        if word in theirs and word not in own:
            return True
    return False


def _reversed(said: ReadText, window: _Window) -> str:
    there = window.anchor.reading
    for reading in window.readings:
        before, after = reading.changed.one, reading.changed.other
        now = said.changed.other | said.target
        if (now & before) - after or (said.changed.one & after) - before:
            return "the change goes the other way"
    for relation, sides in said.compared.items():
        if relation in there.compared and _crossed(sides, there.compared[relation]):
            return "the comparison goes the other way"
    if _swapped(said.attached, there.attached):
        return "two things are swapped"
    for verb, sides in said.roles:
        pairs = [theirs for other, theirs in there.roles if other == verb]
        straight = any(sides.one & theirs.one or sides.other & theirs.other for theirs in pairs)
        if not straight and any(_crossed(sides, theirs) for theirs in pairs):
            return "who does it to whom is the other way round"
    return ""


def _swapped(mine: Mapping[str, set[str]], theirs: Mapping[str, set[str]]) -> bool:
    """Whether two words have changed what they are said of: "waits for running jobs, drops queued ones"."""
    wrong = {word: own for word, own in mine.items() if word in theirs and not own & theirs[word]}
    return any(
        one != other and wrong[one] & theirs[other] and wrong[other] & theirs[one] for one in wrong for other in wrong
    )


def _crossed(mine: Sides, theirs: Sides) -> bool:
    return bool((mine.one & theirs.other) - theirs.one and (mine.other & theirs.one) - theirs.other)


def _negation(said: ReadText, window: _Window) -> str:
    dismissed = [scope for reading in window.readings for scope in reading.dismissed]
    gone = frozenset[str]().union(*dismissed)
    pointing = frozenset[str]().union(*(reading.pointing for reading in window.readings))
    for word, scope in said.negations:
        # "Not kept" may stand for "lost"; "never lost" says more than "kept".
        opposed = {other for each in scope for _, theirs in _AGAINST.get(each, ()) for other in theirs}
        is_opposite = word != "never" and opposed & window.anchor.reading.keys
        is_about_it = word in pointing and scope <= window.stems
        if scope and not (scope & gone or is_opposite or is_about_it):
            return "it does not say no"
    mine = frozenset[str]().union(*said.dismissed)
    there = window.anchor.reading
    free = _unscoped(there)
    used = {token.key for token in said.tokens if token.is_content}
    for scope in there.dismissed:
        head = _first(there, scope)
        if head in used - mine - free and not said.drops and not said.negated:
            return f"it says no of {head}"
    for left, taken in there.rivals:
        if left in used - mine and taken not in used:
            return f"it has {taken} in place of {left}"
    lent = _with_mates(used - there.keys - mine)
    for reading in window.readings[1:]:
        if not said.drops and not said.negated and (lent & _heads(reading)) - _unscoped(reading):
            return "it says no of it"
    return ""


def _with_mates(found: set[str]) -> set[str]:
    return found.union(*(_MATES.get(word, frozenset()) for word in found))


def _heads(there: ReadText) -> set[str]:
    return {_first(there, scope) for scope in there.dismissed}


def _unscoped(there: ReadText) -> set[str]:
    """The words that are also said without a negation."""
    counts: dict[str, int] = {}
    for token in there.tokens:
        if token.is_content:
            counts[token.key] = counts.get(token.key, 0) + 1
    return {word for word, count in counts.items() if count > sum(word in scope for scope in there.dismissed)}


def _first(there: ReadText, scope: frozenset[str]) -> str:
    return next((token.key for token in there.tokens if token.key in scope), "")


def _openness(said: ReadText, window: _Window) -> str:
    there = window.anchor.reading.open
    used = {token.key for token in said.tokens if token.is_content}
    for reading in window.readings[1:]:
        # What only a neighbour says, and leaves open, is open as well.
        there |= reading.open - window.anchor.reading.keys
    if there & _with_mates(used) and not any(token.low in POSSIBLE for token in said.tokens):
        return "it leaves that open"
    return ""


def _bounds(said: ReadText, keys: frozenset[str]) -> str:
    for token in said.tokens:
        if token.figure is not None or token.is_code:
            continue
        for group in BOUNDS:
            if token.key in group and not group & keys:
                return f"it does not say {token.low}"
    return ""


def _opposites(said: ReadText, window: _Window, keys: frozenset[str]) -> str:
    gone = frozenset[str]().union(*said.dismissed)
    for token in said.tokens:
        if token.key in keys or token.low in _UNJUDGED or token.is_code or token.key in gone:
            continue
        for mine, theirs in _AGAINST.get(token.key, ()):
            if theirs & keys and not mine & keys:
                return f"it says the opposite of {token.low}"
        for prefix in _PREFIXES:
            bare = token.key.removeprefix(prefix)
            if bare != token.key and len(bare) > 3 and bare in keys and not _says_no(window, bare):
                return f"it does not say {token.low}"
            if f"{prefix}{token.key}" in keys and len(token.key) > 3 and not said.negated:
                return f"it says {prefix}{token.key}"
    return ""


def _says_no(window: _Window, word: str) -> bool:
    return any(word in scope for reading in window.readings for scope in reading.dismissed)


def _words(said: ReadText, window: _Window, keys: frozenset[str], stems: frozenset[str]) -> str:
    """Whether names are there, and enough of the other words; of a reason all of them."""
    says_no = any(reading.dismissed for reading in window.readings)
    missing, counted, in_reason, is_first = 0, 0, False, True
    for at, token in enumerate(said.tokens):
        if token.is_stop:
            in_reason = in_reason and token.raw not in ".;"
            is_first = token.raw in ".!?;"
            continue
        begins, is_first = is_first, False
        if token.low in CAUSES and not _before_figure(said.tokens, at):
            in_reason = True
        if token.figure is not None or not token.stems or _is_judged(token, says_no):
            continue
        counted += 1
        named = token.is_code or _is_name(token.raw, False)
        if _has(token, window.naming if named else keys, window.naming if named else stems):
            continue
        if token.is_code or _is_name(token.raw, begins) or in_reason or token.key in _HARD:
            return f"{token.raw.strip('`')} is not there"
        missing += 1
    if missing > min(_MOST_MISSING, counted // _WORDS_EACH):
        return "it says less"
    return ""


def _before_figure(tokens: Sequence[SaidWord], at: int) -> bool:
    return any(token.figure is not None for token in tokens[at + 1 : at + 3])


def _is_judged(token: SaidWord, says_no: bool) -> bool:
    """Whether a word has been looked at for what it does to the others."""
    dismisses = is_negation(token) or (says_no and token.low in WEAK_NEGATORS)
    return dismisses or token.low in CAUSES or token.low in POSSIBLE


def _has(token: SaidWord, keys: frozenset[str], stems: frozenset[str]) -> bool:
    if token.is_code:
        return all(stem in stems or stem in keys for stem in token.stems)
    plain = token.raw[:1].islower() or token.raw.istitle()
    return all(
        stem in stems or bool(_MATES.get(stem, frozenset()) & (stems | keys)) or (plain and stem in PLAIN)
        for stem in token.stems
    )


def _is_name(raw: str, begins: bool) -> bool:
    """Whether a word names something: written large, or like an identifier. The first word of a sentence always may."""
    inner = raw[1:]
    return (
        begins
        or raw[:1].isupper()
        or inner != inner.lower()
        or any(each in raw for each in "_/@.")
        or bool(re.search(r"\d", raw))
    )
