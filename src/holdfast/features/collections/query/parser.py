"""Owns how the text of a query is read: one pass over its words, by hand, with an error that says where and what.

query     = "find" type [ "where" either ] { step } [ "order" "by" field [ "asc" | "desc" ] ] [ "limit" number ]
step      = ( "->" | "<-" ) ( edge | "*" ) [ type ] [ "where" either ]
either    = both { "or" both }
both      = term { "and" term }
term      = "not" term | "(" either ")" | field test
test      = ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" ) value | "in" list | "exists"
list      = "[" value { "," value } "]" | "$" name
value     = string | number | "true" | "false" | "null" | "$" name
field     = ( name | `any text` ) { "." ( name | `any text` ) } | "@" fact
type      = name | "*"
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from holdfast.core.errors import FieldError, Invalid
from holdfast.features.collections.query.language import (
    COMPARING,
    AllOrAny,
    Comparing,
    Condition,
    GraphQuestion,
    IsAmong,
    IsCompared,
    IsNot,
    IsThere,
    QueryField,
    Scalar,
    Step,
)

MAX_CHARACTERS = 4_000
MAX_WORDS = 800
MAX_DEPTH = 30
MAX_STEPS = 5
MAX_LIMIT = 200
FACTS = ("id", "type", "collection", "title", "confidence", "source", "session", "author", "created", "updated")
KEYWORDS = frozenset(
    {"find", "where", "order", "by", "asc", "desc", "limit", "and", "or", "not", "in", "exists"}
    | {"true", "false", "null"}
)

_WORD = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")
    | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_]))
    | (?P<quoted>`[^`\x00-\x1f]{1,200}`)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]{0,199})
    | (?P<variable>\$[A-Za-z_][A-Za-z0-9_]{0,63})
    | (?P<fact>@[a-z]{1,20})
    | (?P<sign>->|<-|!=|<=|>=|[=<>~(),.\[\]*])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Word:
    kind: str
    text: str
    at: int

    @property
    def keyword(self) -> str:
        """The word in small letters where the language gives it a meaning; else nothing."""
        lower = self.text.lower()
        return lower if self.kind == "name" and lower in KEYWORDS else ""


_END = "the end"


def parse_query(text: str, variables: Mapping[str, Any]) -> GraphQuestion:
    """The query that a text is; Invalid that names the place where it is none."""
    return _Parser(text, variables).query()


class _Parser:
    def __init__(self, text: str, variables: Mapping[str, Any]) -> None:
        if len(text) > MAX_CHARACTERS:
            raise _invalid("query", f"at most {MAX_CHARACTERS:,} characters; use vars for long values")
        self._words = _words(text)
        self._variables = variables
        self._next = 0
        self._depth = 0

    # The words.

    def _peek(self) -> _Word:
        return self._words[self._next]

    def _take(self) -> _Word:
        word = self._words[self._next]
        if word.kind != "end":
            self._next += 1
        return word

    def _is(self, keyword: str) -> bool:
        return self._peek().keyword == keyword

    def _skip(self, keyword: str) -> bool:
        found = self._is(keyword)
        if found:
            self._next += 1
        return found

    def _sign(self, *signs: str) -> str | None:
        word = self._peek()
        if word.kind == "sign" and word.text in signs:
            self._next += 1
            return word.text
        return None

    def _wanted(self, what: str) -> Invalid:
        word = self._peek()
        found = _END if word.kind == "end" else repr(word.text[:40])
        return _invalid("query", f"at character {word.at + 1} {what} is expected, not {found}")

    # The parts.

    def query(self) -> GraphQuestion:
        if not self._skip("find"):
            raise self._wanted("'find'")
        type = self._type()
        if type is None:
            raise self._wanted("a type of records, or *")
        where = self._where()
        steps: list[Step] = []
        while (arrow := self._sign("->", "<-")) is not None:
            if len(steps) == MAX_STEPS:
                raise _invalid("query", f"at most {MAX_STEPS} steps")
            steps.append(self._step(arrow))
        order, descending = self._order()
        limit = self._limit()
        if self._peek().kind != "end":
            raise self._wanted("'where', '->', 'order by', 'limit' or the end")
        return GraphQuestion(None if type == "*" else type, where, tuple(steps), order, descending, limit)

    def _type(self) -> str | None:
        if self._sign("*"):
            return "*"
        word = self._peek()
        if word.kind == "name" and not word.keyword:
            self._next += 1
            return word.text
        return None

    def _where(self) -> Condition | None:
        return self._either() if self._skip("where") else None

    def _step(self, arrow: str) -> Step:
        edge = self._type()
        if edge is None:
            raise self._wanted("an edge's name, or *")
        type = self._type()
        return Step(arrow == "->", None if edge == "*" else edge.lower(), None if type == "*" else type, self._where())

    def _order(self) -> tuple[QueryField | None, bool]:
        if not self._skip("order"):
            return None, False
        if not self._skip("by"):
            raise self._wanted("'by'")
        field = self._field()
        if self._skip("desc"):
            return field, True
        self._skip("asc")
        return field, False

    def _limit(self) -> int | None:
        if not self._skip("limit"):
            return None
        word = self._peek()
        if word.kind != "number" or not word.text.isdigit() or not 1 <= int(word.text) <= MAX_LIMIT:
            raise self._wanted(f"a number from 1 to {MAX_LIMIT}")
        self._next += 1
        return int(word.text)

    def _either(self) -> Condition:
        parts = [self._both()]
        while self._skip("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else AllOrAny("or", tuple(parts))

    def _both(self) -> Condition:
        parts = [self._term()]
        while self._skip("and"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else AllOrAny("and", tuple(parts))

    def _term(self) -> Condition:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _invalid("query", f"conditions stand at most {MAX_DEPTH} deep in each other")
        try:
            if self._skip("not"):
                return IsNot(self._term())
            if self._sign("("):
                inner = self._either()
                if not self._sign(")"):
                    raise self._wanted("')'")
                return inner
            return self._test(self._field())
        finally:
            self._depth -= 1

    def _test(self, field: QueryField) -> Condition:
        sign = self._sign(*COMPARING)
        if sign is not None:
            return IsCompared(field, cast(Comparing, sign), self._value())
        if self._skip("in"):
            return IsAmong(field, self._list())
        if self._skip("exists"):
            return IsThere(field)
        raise self._wanted("=, !=, <, <=, >, >=, ~, 'in' or 'exists'")

    def _field(self) -> QueryField:
        word = self._peek()
        if word.kind == "fact":
            if word.text[1:] not in FACTS:
                raise self._wanted(f"one of {', '.join('@' + name for name in FACTS)}")
            self._next += 1
            return QueryField((word.text[1:],), is_fact=True)
        path = [self._member()]
        while self._sign("."):
            path.append(self._member())
        return QueryField(tuple(path))

    def _member(self) -> str:
        word = self._peek()
        if word.kind == "quoted":
            self._next += 1
            return word.text[1:-1]
        if word.kind == "name" and not word.keyword:
            self._next += 1
            return word.text
        raise self._wanted("a field's name")

    def _list(self) -> tuple[Scalar, ...]:
        if self._peek().kind == "variable":
            word = self._take()
            given = self._variable(word)
            if not isinstance(given, list) or not all(_is_scalar(item) for item in given):
                raise _invalid(f"vars.{word.text[1:]}", "'in' takes a list of texts, numbers, true, false or null")
            return tuple(given)
        if not self._sign("["):
            raise self._wanted("'[' or a variable")
        values = [self._value()]
        while self._sign(","):
            values.append(self._value())
        if not self._sign("]"):
            raise self._wanted("',' or ']'")
        return tuple(values)

    def _value(self) -> Scalar:
        word = self._peek()
        if word.kind == "variable":
            self._next += 1
            given = self._variable(word)
            if not _is_scalar(given):
                raise _invalid(f"vars.{word.text[1:]}", "this must be a text, a number, true, false or null")
            return cast(Scalar, given)
        if word.kind in ("string", "number"):
            value = _literal(word)
        elif word.keyword in ("true", "false", "null"):
            value = {"true": True, "false": False, "null": None}[word.keyword]
        else:
            raise self._wanted('a value: "text", 12, true, false, null or $name')
        self._next += 1
        return value

    def _variable(self, word: _Word) -> Any:
        name = word.text[1:]
        if name not in self._variables:
            raise _invalid(f"vars.{name}", "the query names this variable; give its value")
        return self._variables[name]


def _words(text: str) -> list[_Word]:
    found: list[_Word] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _WORD.match(text, at)
        if match is None or match.lastgroup is None:
            begin = at + len(text[at:]) - len(text[at:].lstrip())
            raise _invalid(
                "query", f"at character {begin + 1} stands {text[begin : begin + 10]!r}, which means nothing"
            )
        found.append(_Word(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        if len(found) > MAX_WORDS:
            raise _invalid("query", f"at most {MAX_WORDS} words")
        at = match.end()
    return [*found, _Word("end", "", end)]


def _literal(word: _Word) -> Scalar:
    try:
        value: Scalar = json.loads(word.text)
    except ValueError:
        raise _invalid("query", f"at character {word.at + 1} stands a text that JSON would not read") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise _invalid("query", f"at character {word.at + 1} stands a number that is too large")
    return value


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def _invalid(field: str, problem: str) -> Invalid:
    return Invalid(f"The query cannot be read: {problem}.", fields=[FieldError(field, problem)])
