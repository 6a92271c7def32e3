"""The language that agents ask the graph in: what it can say, what it refuses, and that nothing breaks it."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.features.collections.query.language import SeenThing
from holdfast.features.collections.query.parser import (
    FACTS,
    KEYWORDS,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_STEPS,
    parse_query,
)
from tests.support.properties import examples

ADA = SeenThing(
    {"id": "rec_1", "type": "person", "confidence": 0.9},
    {"name": "Ada", "age": 36, "tags": ["math", "code"], "address": {"city": "Ulm"}, "odd key": 1, "is_admin": True},
)


def fits(condition: str, **variables: object) -> bool:
    asked = parse_query(f"find person where {condition}", variables)
    assert asked.where is not None
    return asked.where.holds(ADA)


@pytest.mark.parametrize(
    "condition",
    [
        'name = "Ada"',
        "age >= 36 and age < 37",
        'name != "Bob"',
        'name ~ "ad"',
        'tags ~ "math"',
        'address.city in ["Bonn", "Ulm"]',
        "`odd key` = 1",
        "is_admin = true",
        "missing = null",
        "not missing exists",
        "@confidence > 0.5",
        '@type = "person" AND NOT (age < 10 OR age > 90)',
        "age in $ages",
        "name = $name",
        'missing exists or name = "Ada" and age = 36',
    ],
)
def test_a_condition_that_is_true_of_a_record_holds(condition: str) -> None:
    assert fits(condition, ages=[1, 36], name="Ada")


@pytest.mark.parametrize(
    "condition",
    ['name = "ada"', "age = true", "is_admin = 1", 'age < "40"', "missing < 3", 'name.first = "A"', "age in [1]"],
)
def test_a_condition_that_is_not_true_does_not_hold(condition: str) -> None:
    assert not fits(condition)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("", "character 1 'find'"),
        ("select * from x", "character 1 'find'"),
        ("find", "the end"),
        ("find person where", "a field's name"),
        ("find person where name", "=, !="),
        ("find person where name = ", "a value"),
        ("find person where (name = 1", "')'"),
        ("find person limit 0", "from 1 to 200"),
        ("find person limit 201", "from 1 to 200"),
        ("find person where @secret = 1", "@id"),
        ("find person where name = 'x'", "means nothing"),
        ("find person; drop table", "means nothing"),
        ("find person order name", "'by'"),
        ("find person -> ", "an edge's name"),
        ("find person find person", "the end"),
        ('find person where name = "\\q"', "JSON"),
        ("find person where a = 1e999", "too large"),
    ],
)
def test_what_is_no_query_is_refused_with_the_place(query: str, place: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_query(query, {})
    assert place in refused.value.message
    assert refused.value.fields[0].field == "query"


def test_variables_are_values_and_never_words_of_the_query() -> None:
    assert not fits("name = $name", name='Ada" or true = true')
    for variables, field in (({}, "vars.name"), ({"name": {"a": 1}}, "vars.name")):
        with pytest.raises(Invalid) as refused:
            parse_query("find person where name = $name", variables)
        assert refused.value.fields[0].field == field


def test_queries_are_bounded() -> None:
    for query in (
        "find person where " + "(" * (MAX_DEPTH + 1) + "a = 1" + ")" * (MAX_DEPTH + 1),
        "find person where " + "not " * 5_000 + "a = 1",
        "find person where " + "not " * (MAX_DEPTH + 1) + "a = 1",
        "find person" + " -> knows" * (MAX_STEPS + 1),
        "find person where a = 1 " + "or a = 1 " * 300,
        "x" * (MAX_CHARACTERS + 1),
    ):
        with pytest.raises(Invalid):
            parse_query(query, {})


_WORDS = [*KEYWORDS, *(f"@{fact}" for fact in FACTS), "person", "a", "b.c", "`x`", '"t"', "1", "-2.5", "$v", "->", "<-"]
_SIGNS = ["=", "!=", "<", "<=", ">", ">=", "~", "(", ")", "[", "]", ",", ".", "*"]


@examples(400)
@given(st.lists(st.sampled_from([*_WORDS, *_SIGNS]), max_size=40))
def test_any_words_are_a_query_or_are_refused_as_one(words: list[str]) -> None:
    try:
        asked = parse_query("find " + " ".join(words), {"v": 1})
    except Invalid as refused:
        assert refused.fields
        return
    if asked.where is not None:
        assert asked.where.holds(ADA) in (True, False)


@examples(400)
@given(st.text(max_size=200))
def test_any_text_is_refused_or_read(text: str) -> None:
    try:
        parse_query(text, {})
    except Invalid as refused:
        assert refused.fields


_FIELD = st.text(string.ascii_lowercase, min_size=1, max_size=8).filter(lambda name: name not in KEYWORDS)
_VALUE = st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.text(max_size=20))


@examples(200)
@given(_FIELD, _VALUE)
def test_a_record_is_found_by_any_value_that_it_has(name: str, value: object) -> None:
    seen = SeenThing({}, {name: value})
    asked = parse_query(f"find * where {name} = $value", {"value": value})
    assert asked.where is not None and asked.where.holds(seen)
    other = parse_query(f"find * where not {name} = $value", {"value": value})
    assert other.where is not None and not other.where.holds(seen)


def test_a_broken_query_is_told_from_a_whole_one_wherever_it_is_cut() -> None:
    whole = 'find person where name = "Ada" and age in [1, 2] -> works_at company where size > 3 order by name limit 5'
    parse_query(whole, {})
    dice = random.Random(17)
    for _ in range(300):
        at = dice.randrange(len(whole))
        broken = whole[:at] + dice.choice(string.printable) + whole[at + 1 :]
        try:
            parse_query(broken, {})
        except Invalid as refused:
            assert refused.fields[0].field == "query"
