"""Owns arithmetic: a recursive-descent parser and an exact evaluator whose time and size are bounded."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from holdfast.core.errors import FieldError, Invalid

MAX_CHARACTERS = 1_000
MAX_NESTING = 100
_LARGEST = int(1.7976931348623157e308)
# Exact fractions grow with every step; past this many bits a double says all that anybody will read.
_EXACT_BITS = 4_096
_SAFE_INTEGER = 2**53 - 1

Number = Fraction | float


class BadExpression(Invalid):
    """The expression can't be computed; `position` counts characters from 1."""

    code = "invalid_expression"

    def __init__(self, problem: str, position: int) -> None:
        where = f"{problem} (at position {position})"
        super().__init__(f"The expression could not be evaluated: {where}.", fields=[FieldError("expression", where)])
        self.problem = problem
        self.position = position


@dataclass(frozen=True, slots=True)
class Calculated:
    """A number as JSON can carry it, and its digits where JSON's double would round them."""

    expression: str
    result: int | float
    exact: str | None = None

    @property
    def digits(self) -> str:
        """The result for reading."""
        if self.exact is not None:
            return self.exact
        if isinstance(self.result, float) and self.result.is_integer() and abs(self.result) <= _SAFE_INTEGER:
            return str(int(self.result))
        return repr(self.result)


def evaluate(expression: str) -> Calculated:
    """The value of an expression of `+ - * / ^`, parentheses, twelve functions, `pi` and `e`."""
    if len(expression) > MAX_CHARACTERS:
        raise BadExpression(f"longer than {MAX_CHARACTERS:,} characters", MAX_CHARACTERS + 1)
    value = _Parser(expression).parse()
    if isinstance(value, float):
        return Calculated(expression, value + 0.0)  # adding zero turns -0.0 into 0.0
    if value.denominator != 1:
        return Calculated(expression, float(value))
    if abs(value.numerator) <= _SAFE_INTEGER:
        return Calculated(expression, value.numerator)
    return Calculated(expression, float(value), exact=str(value.numerator))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


_TOKEN = re.compile(
    r"(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign>[-+*/^(),])",
    re.ASCII,
)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            # What 200 + 10% means is a matter of taste, so whoever writes it says it with the signs there are.
            remedy = "; write 20% as 20/100" if text[at] == "%" else ""
            raise BadExpression(f"unexpected character {text[at]!r}{remedy}", at + 1)
        kind = match.lastgroup or ""
        found.append(_Token(match.group() if kind == "sign" else kind, match.group(), at + 1))
        at = match.end()
    found.append(_Token("end", "the end", len(text) + 1))
    return found


class _Parser:
    """Reads the grammar below from left to right, computing as it goes.

    sum := product ((+|-) product)*      product := signed ((*|/) signed)*
    signed := (+|-)* power               power := atom (^ signed)?
    atom := number | constant | function ( sum (, sum)* ) | ( sum )
    """

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._index = 0
        self._depth = 0

    def parse(self) -> Number:
        value = self._sum()
        token = self._here
        if token.kind != "end":
            raise BadExpression(_misplaced(token), token.position)
        return value

    @property
    def _here(self) -> _Token:
        return self._tokens[self._index]

    def _take(self) -> _Token:
        token = self._here
        self._index += 1
        return token

    def _expect(self, kind: str) -> None:
        token = self._here
        if token.kind != kind:
            raise BadExpression(f"expected {kind!r} instead of {_shown(token)}", token.position)
        self._index += 1

    def _sum(self) -> Number:
        value = self._product()
        while self._here.kind in ("+", "-"):
            sign = self._take()
            right = self._product()
            value = _bounded(_add(value, right if sign.kind == "+" else -right), sign)
        return value

    def _product(self) -> Number:
        value = self._signed()
        while self._here.kind in ("*", "/"):
            sign = self._take()
            right = self._signed()
            value = _bounded(_multiply(value, right) if sign.kind == "*" else _divide(value, right, sign), sign)
        return value

    def _signed(self) -> Number:
        negative = False
        while self._here.kind in ("+", "-"):
            negative ^= self._take().kind == "-"
        value = self._power()
        return -value if negative else value

    def _power(self) -> Number:
        base = self._atom()
        if self._here.kind != "^":
            return base
        sign = self._take()
        self._deeper(sign)
        exponent = self._signed()
        self._depth -= 1
        return _bounded(_raise(base, exponent, sign), sign)

    def _atom(self) -> Number:
        token = self._take()
        if token.kind == "number":
            return _literal(token)
        if token.kind == "name":
            return self._named(token)
        if token.kind == "(":
            self._deeper(token)
            value = self._sum()
            self._expect(")")
            self._depth -= 1
            return value
        raise BadExpression(f"expected a number instead of {_shown(token)}", token.position)

    def _named(self, token: _Token) -> Number:
        name = token.text.lower()
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name not in _FUNCTIONS:
            known = ", ".join([*_FUNCTIONS, *_CONSTANTS])
            raise BadExpression(f"unknown name {token.text!r}; known are {known}", token.position)
        return _bounded(_call(token, self._arguments(token)), token)

    def _arguments(self, token: _Token) -> list[Number]:
        self._expect("(")
        self._deeper(token)
        values = [self._sum()]
        while self._here.kind == ",":
            self._take()
            values.append(self._sum())
        self._expect(")")
        self._depth -= 1
        return values

    def _deeper(self, token: _Token) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise BadExpression(f"nested deeper than {MAX_NESTING} levels", token.position)


def _shown(token: _Token) -> str:
    return token.text if token.kind == "end" else repr(token.text)


def _misplaced(token: _Token) -> str:
    if token.kind in ("number", "name", "("):
        return f"an operator is missing before {token.text!r}"
    return f"unexpected {token.text!r}"


def _literal(token: _Token) -> Number:
    exponent = token.text.lower().partition("e")[2]
    # Fraction("1e999999999") would build the whole power of ten before anybody could look at it.
    if exponent and abs(int(exponent)) > 400:
        value = float(token.text)
        if math.isinf(value):
            raise BadExpression("number too large", token.position)
        return value
    return _bounded(Fraction(token.text), token)


def _bounded(value: Number, token: _Token) -> Number:
    """The value, as a double where its exact form is too long to carry on; too large a value is an error."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise BadExpression(f"the result of {token.text!r} is too large or undefined", token.position)
    if abs(value) > _LARGEST:
        raise BadExpression(f"the result of {token.text!r} is too large", token.position)
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _EXACT_BITS:
        return float(value)
    return value


def _add(left: Number, right: Number) -> Number:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left + right
    return float(left) + float(right)


def _multiply(left: Number, right: Number) -> Number:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left * right
    return float(left) * float(right)


def _divide(left: Number, right: Number, token: _Token) -> Number:
    if right == 0:
        raise BadExpression("division by zero", token.position)
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left / right
    return float(left) / float(right) if float(right) else math.inf


def _raise(base: Number, exponent: Number, token: _Token) -> Number:
    if base == 0 and exponent < 0:
        raise BadExpression("zero can't be raised to a negative power", token.position)
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(base) == 1 or base == 0 or bits * abs(exponent.numerator) <= _EXACT_BITS:
            power = base ** (exponent.numerator % 2 if abs(base) == 1 else exponent.numerator)
            return Fraction(power)
    if base < 0 and not _whole(exponent):
        raise BadExpression("a negative number has no real power with a fractional exponent", token.position)
    try:
        return math.pow(float(base), float(exponent))
    except OverflowError:
        return math.inf


def _whole(value: Number) -> bool:
    return value.denominator == 1 if isinstance(value, Fraction) else value.is_integer()


def _sqrt(value: Number) -> Number:
    if isinstance(value, Fraction):
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if top * top == value.numerator and bottom * bottom == value.denominator:
            return Fraction(top, bottom)
    return math.sqrt(value)


def _round(value: Number, digits: Number = Fraction(0)) -> Number:
    if not _whole(digits) or not -300 <= digits <= 300:
        raise ValueError("digits")
    # Halves go away from zero, as people are taught; Python's round() would take 2.5 to 2.
    scale = Fraction(10 ** int(digits)) if digits >= 0 else Fraction(1, 10 ** int(-digits))
    exact = abs(Fraction(value)) * scale + Fraction(1, 2)
    rounded: Fraction = math.floor(exact) / scale
    return rounded if value >= 0 else -rounded


_CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}
_ONE: range = range(1, 2)
_FUNCTIONS: dict[str, tuple[Callable[..., Number], range, str]] = {
    "sqrt": (_sqrt, _ONE, "needs a number that is not negative"),
    "log": (lambda value: math.log10(value), _ONE, "needs a number above zero"),
    "ln": (lambda value: math.log(value), _ONE, "needs a number above zero"),
    "sin": (lambda value: math.sin(value), _ONE, "needs a finite number"),
    "cos": (lambda value: math.cos(value), _ONE, "needs a finite number"),
    "tan": (lambda value: math.tan(value), _ONE, "needs a finite number"),
    "abs": (abs, _ONE, "needs a number"),
    "floor": (lambda value: Fraction(math.floor(value)), _ONE, "needs a number"),
    "ceil": (lambda value: Fraction(math.ceil(value)), _ONE, "needs a number"),
    "round": (_round, range(1, 3), "takes a whole number of digits between -300 and 300"),
    "min": (lambda *values: min(values), range(1, 500), "needs numbers"),
    "max": (lambda *values: max(values), range(1, 500), "needs numbers"),
}


def _call(token: _Token, arguments: list[Number]) -> Number:
    name = token.text.lower()
    function, counts, needs = _FUNCTIONS[name]
    if len(arguments) not in counts:
        wanted = str(counts.start) if len(counts) == 1 else f"{counts.start} to {counts.stop - 1}"
        raise BadExpression(f"{name} takes {wanted} arguments, not {len(arguments)}", token.position)
    try:
        return function(*arguments)
    except (ValueError, OverflowError):
        raise BadExpression(f"{name} {needs}", token.position) from None
