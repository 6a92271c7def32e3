"""Owns what a query of the graph can say: the tree that a text is read into, and whether a record fits it.

    find person where email = $email and not (left exists)
      -> works_at company where @confidence >= 0.8
      order by name desc limit 20

Queries only read. What follows `where` is about one record at a time; each step follows edges from what was found.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

Scalar = str | int | float | bool | None
Comparing = Literal["=", "!=", "<", "<=", ">", ">=", "~"]
COMPARING: tuple[Comparing, ...] = get_args(Comparing)

_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class QueryField:
    """A part of a record: a path into its data, or with `@` a fact about the record itself."""

    path: tuple[str, ...]
    is_fact: bool = False

    def of(self, seen: "SeenThing") -> Any:
        """The value that a record has there; None where it has none."""
        if self.is_fact:
            return seen.facts.get(self.path[0])
        value: Any = seen.data
        for step in self.path:
            if not isinstance(value, Mapping):
                return None
            value = value.get(step)
        return value


@dataclass(frozen=True, slots=True)
class SeenThing:
    """One thing, as conditions see it."""

    facts: Mapping[str, Scalar]
    data: Mapping[str, Any]


class Condition(Protocol):
    """Something that is true of a record or not."""

    def holds(self, seen: SeenThing) -> bool:
        """Whether it is."""
        ...


@dataclass(frozen=True, slots=True)
class IsCompared:
    """A field against a value. What is not there equals null, and nothing else; other kinds are never in order."""

    field: QueryField
    sign: Comparing
    value: Scalar

    def holds(self, seen: SeenThing) -> bool:
        have = self.field.of(seen)
        if self.sign in ("=", "!="):
            return _same(have, self.value) == (self.sign == "=")
        if self.sign == "~":
            return _contains(have, self.value)
        if not _comparable(have, self.value):
            return False
        return _ORDERED[self.sign](have, self.value)


@dataclass(frozen=True, slots=True)
class IsAmong:
    """A field whose value is one of several."""

    field: QueryField
    values: tuple[Scalar, ...]

    def holds(self, seen: SeenThing) -> bool:
        have = self.field.of(seen)
        return any(_same(have, value) for value in self.values)


@dataclass(frozen=True, slots=True)
class IsThere:
    """A field that has a value other than null."""

    field: QueryField

    def holds(self, seen: SeenThing) -> bool:
        return self.field.of(seen) is not None


@dataclass(frozen=True, slots=True)
class IsNot:
    """The opposite."""

    inner: Condition

    def holds(self, seen: SeenThing) -> bool:
        return not self.inner.holds(seen)


@dataclass(frozen=True, slots=True)
class AllOrAny:
    """Several conditions, all or any of which hold."""

    how: Literal["and", "or"]
    parts: tuple[Condition, ...]

    def holds(self, seen: SeenThing) -> bool:
        each = (part.holds(seen) for part in self.parts)
        return all(each) if self.how == "and" else any(each)


@dataclass(frozen=True, slots=True)
class Step:
    """Edges that are followed from everything that was found: along them, or against their direction."""

    forward: bool
    edge: str | None
    type: str | None
    where: Condition | None


@dataclass(frozen=True, slots=True)
class GraphQuestion:
    """A whole query."""

    type: str | None
    where: Condition | None
    steps: tuple[Step, ...] = ()
    order: QueryField | None = None
    descending: bool = False
    limit: int | None = None


def order_key(value: Any) -> tuple[int, Any]:
    """What records are put in order by: nothing first, then numbers, then texts, then all else as it is written."""
    if value is None:
        return (0, 0)
    if isinstance(value, (int, float)):
        return (1, value)
    return (2, value) if isinstance(value, str) else (3, str(value))


def _same(have: Any, wanted: Scalar) -> bool:
    # True is not 1.
    return isinstance(have, bool) == isinstance(wanted, bool) and have == wanted


def _contains(have: Any, wanted: Scalar) -> bool:
    if isinstance(have, str) and isinstance(wanted, str):
        return wanted.casefold() in have.casefold()
    return isinstance(have, list) and any(_same(item, wanted) for item in have)


def _comparable(have: Any, wanted: Scalar) -> bool:
    if isinstance(have, str) and isinstance(wanted, str):
        return True
    return _is_number(have) and _is_number(wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
