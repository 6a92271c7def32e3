"""Owns reading text for what it states: its words, what it negates or leaves open, what it sets against what."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from holdfast.engines.llm.cited.figures import Figure, figures
from holdfast.engines.llm.cited.vocabulary import (
    AT_LEAST,
    AT_MOST,
    CHANGES,
    HEDGES,
    NEGATORS,
    PRONOUNS,
    VERSIONED,
    WEAK_NEGATORS,
)
from holdfast.engines.search.text.analyser import stem, words

_TOKEN = re.compile(r"`[^`]+`|[^\W_](?:[\w'’./@#:+-]*\w)?|_\w+|[.,;:()!?–—]")
_CODE = re.compile(r"`[^`]+`")
_STOPS = frozenset(".,;:()!?–—")
_BREAKS = _STOPS | {"but", "while", "whereas"}
_LONGEST_SCOPE = 4
_BEING = frozenset(["was", "were", "is", "are", "been", "be", "being", "got", "get"])
_CONTRACTED = re.compile(r"n[’']t$")


@dataclass(frozen=True, slots=True)
class SaidWord:
    """A word, figure or mark of a text."""

    raw: str
    start: int
    figure: Figure | None = None
    stems: tuple[str, ...] = ()

    @property
    def low(self) -> str:
        return self.raw.lower()

    @property
    def is_code(self) -> bool:
        return self.raw.startswith("`")

    @property
    def is_stop(self) -> bool:
        return self.raw in _STOPS

    @property
    def key(self) -> str:
        """What it is compared by: a word's stem, a figure's value."""
        if self.figure is not None:
            return f"={self.figure.kind}:{self.figure.value}"
        return stem(self.low) if self.raw.isalpha() else self.low.strip("`")

    @property
    def is_content(self) -> bool:
        return self.figure is not None or bool(self.stems)


@dataclass(slots=True)
class Sides:
    """What was and what is instead; or what is less and what is more."""

    one: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)


class ReadText:
    """A text, read once."""

    def __init__(self, text: str) -> None:
        self.text = text
        # A number in code is part of a name.
        self.figures = figures(_CODE.sub(lambda code: "`" * len(code[0]), text))
        self.tokens = list(_tokens(text, self.figures))

    @cached_property
    def stems(self) -> frozenset[str]:
        """Every indexed word of it."""
        return frozenset(words(self.text))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every word of it, those included that no index keeps."""
        return frozenset(token.key for token in self.tokens if token.figure is None and not token.is_stop)

    @cached_property
    def negations(self) -> list[tuple[str, frozenset[str]]]:
        """Each word that says no, and what it negates."""
        return [(token.low, self._scope(at)) for at, token in enumerate(self.tokens) if is_negation(token)]

    @property
    def negated(self) -> list[frozenset[str]]:
        return [scope for _, scope in self.negations]

    @cached_property
    def dismissed(self) -> list[frozenset[str]]:
        """What it says is not, or is no more."""
        return [*self.negated, *(self._scope(at) for at in range(len(self.tokens)) if self._dismisses(at))]

    @cached_property
    def rivals(self) -> list[tuple[str, str]]:
        """What is left, and what stands in its place: "PostgreSQL instead of Redis"."""
        found = []
        for at, token in enumerate(self.tokens[:-1]):
            if token.low in ("instead", "rather") and self.tokens[at + 1].low in ("of", "than"):
                left, taken = self._after(at + 1, 1), self._before(at, 1)
                found += [(left[0], taken[0])] if left and taken else []
        return found

    @cached_property
    def open(self) -> frozenset[str]:
        """What it says may be, or is planned."""
        found: set[str] = set()
        for at, token in enumerate(self.tokens):
            if token.low in HEDGES:
                found |= self._scope(at)
                if token.low.endswith(("ed", "al")):
                    found |= set(self._before(at, 6))
        return frozenset(found)

    @property
    def drops(self) -> bool:
        """Whether it says of something that it is no more."""
        return any(self._dismisses(at) for at in range(len(self.tokens)))

    @cached_property
    def pointing(self) -> frozenset[str]:
        """The words that say no of something said before: "without it"."""
        return frozenset(
            token.low
            for token, following in zip(self.tokens, self.tokens[1:], strict=False)
            if is_negation(token) and following.low in PRONOUNS
        )

    @cached_property
    def attached(self) -> dict[str, set[str]]:
        """For each word those that come next in its clause."""
        found: dict[str, set[str]] = {}
        for at, token in enumerate(self.tokens):
            if token.is_content and (following := self._after(at, 1)):
                found.setdefault(token.key, set()).add(following[0])
        return found

    @cached_property
    def changed(self) -> Sides:
        """What was, and what is instead."""
        sides = Sides()
        for at, token in enumerate(self.tokens):
            following = self.tokens[at + 1].low if at + 1 < len(self.tokens) else ""
            if token.low in ("instead", "rather") and following in ("of", "than"):
                sides.one.update(self._after(at + 1, 2))
                sides.other.update(self._before(at, 3))
            elif token.low == "from":
                until = self._find(at, "to")
                if until:
                    sides.one.update(self._after(at, 2, until))
                    sides.other.update(self._after(until, 2))
                elif at and self.tokens[at - 1].low in ("up", "down"):
                    sides.one.update(self._after(at, 1))
                    sides.other.update(self._back_to_figure(at))
            elif token.key == "replac":
                until = self._find(at, "with") or self._find(at, "by")
                passive = at and self.tokens[at - 1].low in _BEING
                if until:
                    sides.one.update(self._before(at, 2) if passive else self._after(at, 2, until))
                    sides.other.update(self._after(until, 2))
        shared = sides.one & sides.other
        return Sides(sides.one - shared, sides.other - shared)

    @cached_property
    def target(self) -> frozenset[str]:
        """What a change leads to, where it is not said what was before."""
        for at, token in enumerate(self.tokens):
            if token.low == "to" and any(each.key in CHANGES for each in self.tokens[max(0, at - 5) : at]):
                return frozenset(self._after(at, 2))
        return frozenset()

    @cached_property
    def compared(self) -> dict[str, Sides]:
        """What stands on either side of a comparison or an order in time."""
        found: dict[str, Sides] = {}
        for at, token in enumerate(self.tokens):
            if (token.low == "than" and at and self.tokens[at - 1].low != "rather") or (
                token.low == "as" and at > 1 and self.tokens[at - 2].low == "as"
            ):
                found["than"] = Sides(set(self._before(at - 1, 4)), set(self._after(at, 3)))
            elif token.low in ("before", "after"):
                left, right = set(self._before(at, 3)), set(self._after(at, 3))
                found["order"] = Sides(left, right) if token.low == "before" else Sides(right, left)
        return found

    @cached_property
    def roles(self) -> list[tuple[str, Sides]]:
        """For each word what acts in it and what it is done to: the nearest words on its sides."""
        found = []
        for at, token in enumerate(self.tokens):
            # A name does nothing to its neighbours.
            if token.figure is not None or not token.stems or not token.raw.islower() or token.is_code:
                continue
            left, right = self._before(at, 2), self._after(at, 2)
            if at > 1 and self.tokens[at - 1].low == "which" and self.tokens[at - 2].raw == ",":
                # "The rounding divided, which broke invoices": what acts is what the sentence began with.
                left = [each.key for each in self.tokens[: at - 2] if each.is_content][:1]
            if at and self.tokens[at - 1].low in _BEING:
                by = self._find(at, "by", 4)
                if not by:
                    continue
                left, right = self._after(by, 2), left
            if left and right:
                found.append((token.key, Sides(set(left), set(right))))
        return found

    def bound(self, figure: Figure) -> str:
        """The words right before a figure that make it a bound: "more than", "under"."""
        at = self._place(figure)
        pair = " ".join(token.low for token in self.tokens[max(0, at - 2) : at])
        single = self.tokens[at - 1].low if at else ""
        for group in (AT_LEAST, AT_MOST):
            if pair in group or single in group:
                return min(group)
        return ""

    def named(self, figure: Figure) -> str:
        """The name that a version stands right behind: "httpx 0.24"."""
        at = self._place(figure)
        before = self.tokens[at - 1] if at else None
        if figure.value.count(".") == 0 or before is None or before.figure is not None or not before.stems:
            return ""
        return "" if before.key in VERSIONED else before.key

    def neighbours(self, figure: Figure) -> tuple[str, str]:
        """The words that a figure belongs to: the nearest before it, and the one right behind it."""
        return self._neighbours[figure.start]

    @cached_property
    def _neighbours(self) -> dict[int, tuple[str, str]]:
        found: dict[int, tuple[str, str]] = {}
        left = ""
        for token, following in zip(self.tokens, [*self.tokens[1:], None], strict=True):
            if token.figure is not None:
                behind = following is not None and following.figure is None and bool(following.stems)
                found[token.start] = left, following.key if following is not None and behind else ""
                left = ""
            elif token.raw in _BREAKS:
                left = ""
            elif token.is_content:
                left = token.key
        return found

    def _place(self, figure: Figure) -> int:
        return self._places[figure.start]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {token.start: at for at, token in enumerate(self.tokens) if token.figure is not None}

    def _dismisses(self, at: int) -> bool:
        low = self.tokens[at].low
        return low in WEAK_NEGATORS or (low == "out" and at > 0 and self.tokens[at - 1].key in ("left", "leav"))

    def _scope(self, at: int) -> frozenset[str]:
        return frozenset(self._after(at, _LONGEST_SCOPE))

    def _after(self, at: int, most: int, until: int | None = None) -> list[str]:
        found: list[str] = []
        for number in range(at + 1, until or len(self.tokens)):
            token = self.tokens[number]
            if token.raw in _BREAKS or len(found) >= most:
                break
            if token.is_content:
                found.append(token.key)
        return found

    def _before(self, at: int, most: int) -> list[str]:
        found = []
        for token in self._back(at):
            found.append(token.key)
            if len(found) >= most:
                break
        return found

    def _back_to_figure(self, at: int) -> list[str]:
        """The figure before, over a comma: "now 5, up from 3"."""
        return [token.key for token in reversed(self.tokens[max(0, at - 6) : at]) if token.figure is not None][:1]

    def _back(self, at: int) -> Iterator[SaidWord]:
        for number in range(at - 1, -1, -1):
            token = self.tokens[number]
            if token.raw in _BREAKS:
                return
            if token.is_content:
                yield token

    def _find(self, at: int, word: str, within: int = 8) -> int:
        for number in range(at + 1, min(len(self.tokens), at + 1 + within)):
            if self.tokens[number].raw in _BREAKS:
                return 0
            if self.tokens[number].low == word:
                return number
        return 0


def is_negation(token: SaidWord) -> bool:
    """Whether a word says no."""
    return token.low in NEGATORS or bool(_CONTRACTED.search(token.low))


def _tokens(text: str, found: Sequence[Figure]) -> Iterator[SaidWord]:
    left = list(reversed(found))
    taken = bytearray(len(text))
    for figure in found:
        taken[figure.start : figure.end] = b"\1" * (figure.end - figure.start)
    for match in _TOKEN.finditer(text):
        while left and left[-1].start <= match.start():
            figure = left.pop()
            yield SaidWord(text[figure.start : figure.end], figure.start, figure)
        if not any(taken[match.start() : match.end()]):
            yield SaidWord(match[0], match.start(), None, tuple(words(match[0].strip("`"))))
    for figure in reversed(left):
        yield SaidWord(text[figure.start : figure.end], figure.start, figure)
