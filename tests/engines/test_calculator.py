"""The calculator: the document's examples, Python's arithmetic as oracle, and expressions that mean harm."""

import math
import operator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.calculator import MAX_CHARACTERS, BadExpression, Calculated, evaluate
from tests.support.properties import examples


@pytest.mark.contract("XS-T5")
@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("10000 * (1 + 0.05)^3", 11576.25),
        ("sqrt(144) + 2^3", 20.0),
        ("sin(pi/2)", 1.0),
        ("log(1000)", 3.0),
        ("max(42, 17) * min(3, 5)", 126.0),
        ("abs(-273.15) + ceil(2.1)", 276.15),
        ("0.1 + 0.2", 0.3),
        ("-2^2", -4),
        ("2^3^2", 512),
        ("2^-1", 0.5),
        ("--+-3", -3),
        ("7/2", 3.5),
        ("6/3", 2),
        (" ( 1 )\n", 1),
        (".5e1", 5),
        ("ln(e)", 1.0),
        ("PI - pi", 0),
        ("floor(-2.5) + round(2.5) + round(-2.5)", -3),
        ("round(2.345, 2)", 2.35),
        ("0^0", 1),
        ("(-8)^3", -512),
        ("1.0005^100000", 1.0005**100000),
    ],
)
def test_an_expression_has_its_value(expression: str, result: float) -> None:
    assert evaluate(expression).result == pytest.approx(result, rel=1e-12)


def test_integers_stay_exact_and_say_so_where_json_would_round() -> None:
    assert evaluate("2^64 + 1") == Calculated("2^64 + 1", float(2**64), exact="18446744073709551617")
    assert evaluate("2^53 - 1") == Calculated("2^53 - 1", 2**53 - 1)
    assert evaluate("3^600 / 3^599").result == 3
    assert evaluate("2^0.5 * 0").digits == "0"


@pytest.mark.parametrize(
    ("expression", "position", "word"),
    [
        ("", 1, "the end"),
        ("1 +", 4, "the end"),
        ("2 3", 3, "operator is missing"),
        ("2pi", 2, "operator is missing"),
        ("(1", 3, "expected ')'"),
        ("1)", 2, "unexpected ')'"),
        ("5!", 2, "unexpected character"),
        ("1 / (2 - 2)", 3, "zero"),
        ("0^-1", 2, "negative power"),
        ("(-8)^(1/3)", 5, "no real power"),
        ("1 + sqrt(-1)", 5, "not negative"),
        ("log(0)", 1, "above zero"),
        ("ln(-1)", 1, "above zero"),
        ("foo(1)", 1, "unknown name"),
        ("sin(1, 2)", 1, "takes 1 arguments"),
        ("sin 1", 5, "expected '('"),
        ("round(1, 0.5)", 1, "whole number"),
        ("__import__('os')", 12, "unexpected character"),
        ("1 ** 2", 4, "expected a number"),
        ("①", 1, "unexpected character"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_position(expression: str, position: int, word: str) -> None:
    with pytest.raises(BadExpression) as caught:
        evaluate(expression)
    assert word in caught.value.problem
    assert caught.value.position == position
    assert caught.value.fields[0].field == "expression"


@pytest.mark.parametrize(
    "expression",
    [
        "9^9^9^9^9",
        "9" * 1000,
        "1e999999999999",
        "(" * 1000,
        "2^(" * 250,
        "-" * 1000,
        "^".join(["9"] * 400),
        "*".join(["9e300"] * 150),
        "1" + "^1" * 499,
        "10^308 * 10",
        "sqrt(" * 200,
        "min(" + "9," * 498 + "9",
    ],
)
def test_a_hostile_expression_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression):
        evaluate(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "*".join(["0.123456789"] * 83),
        "+".join([f"1/{n}" for n in range(101, 260)]),
        "1.000000001^99999999999",
        "1e-999",
    ],
)
def test_a_value_that_grows_without_end_is_rounded(expression: str) -> None:
    assert math.isfinite(evaluate(expression).result)


def test_too_long_an_expression_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadExpression, match="longer than 1,000"):
        evaluate("(" * (MAX_CHARACTERS + 1))
    assert evaluate("1" + "+1" * 499).result == 500


_operators = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_leaf = st.integers(0, 10**6).map(lambda n: (str(n), Fraction(n)))


def _joined(pair: tuple[tuple[str, Any], str, tuple[str, Any]]) -> tuple[str, Any]:
    (left, a), sign, (right, b) = pair
    if a is None or b is None or (sign == "/" and b == 0):
        return f"({left} {sign} {right})", None
    return f"({left} {sign} {right})", _operators[sign](a, b)


_expression = st.recursive(
    _leaf, lambda inner: st.tuples(inner, st.sampled_from(sorted(_operators)), inner).map(_joined), max_leaves=20
)


@examples(300)
@given(_expression)
def test_it_agrees_with_pythons_exact_arithmetic(case: tuple[str, Fraction | None]) -> None:
    text, value = case
    if value is None:
        with pytest.raises(BadExpression, match="zero"):
            evaluate(text)
    else:
        answer = evaluate(text)
        assert answer.exact == str(value) if answer.exact else answer.result == float(value)


@examples(200)
@given(st.integers(-(10**9), 10**9).map(lambda n: n / 1000), st.integers(-8, 8))
def test_powers_and_functions_agree_with_pythons(base: float, exponent: int) -> None:
    written = f"({base!r})"
    if base or exponent >= 0:
        expected = float(Fraction(repr(base)) ** exponent)
        assert evaluate(f"{written}^({exponent})").result == pytest.approx(expected, rel=1e-12)
    assert evaluate(f"sin({written})").result == pytest.approx(math.sin(base), rel=1e-12, abs=1e-12)
    assert evaluate(f"floor({written})").result == math.floor(Fraction(repr(base)))


@examples(500)
@given(st.text("0123456789.eE+-*/^(), pisqrtlogmaxn!", max_size=200))
def test_any_text_has_a_finite_value_or_a_position(text: str) -> None:
    try:
        assert math.isfinite(evaluate(text).result)
    except BadExpression as error:
        assert 1 <= error.position <= len(text) + 1
