"""Owns the proof of relation names and their inverses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.features.intelligence.graph.vocabulary import (
    GENERIC,
    INVERSES,
    checked_relation,
    checked_word,
    fact,
    inverse,
)

_words = st.from_regex(r"[a-z][a-z0-9]{0,8}(_[a-z0-9]{1,8}){0,3}", fullmatch=True)
_names = st.one_of(
    st.sampled_from(sorted(INVERSES)), _words, _words.map(lambda word: GENERIC + word), _words.map(lambda w: f"{w}_by")
)
_ends = st.sampled_from(["decision/dec_1", "decision/dec_2", "memory/mem_1", "milestone/mil_1"])


@pytest.mark.parametrize(
    ("name", "back"),
    [
        ("supersedes", "superseded_by"),
        ("blocked_by", "blocks"),
        ("depends_on", "required_by"),
        ("relates_to", "relates_to"),
        ("inspired", "inverse_of_inspired"),
        ("inverse_of_inspired", "inspired"),
    ],
)
def test_every_relation_has_a_name_for_the_way_back(name: str, back: str) -> None:
    assert inverse(name) == back


@given(_names)
def test_the_inverse_of_the_inverse_is_the_name(name: str) -> None:
    kept = checked_relation(name)
    assert inverse(inverse(kept)) == kept
    assert checked_relation(inverse(kept)) == inverse(kept)


@given(_names, _ends, _ends)
def test_a_fact_is_the_same_from_either_end(name: str, start: str, end: str) -> None:
    kept = checked_relation(name)
    assert fact(start, end, kept) == fact(end, start, inverse(kept))


@given(_names, _names, _ends, _ends)
def test_different_relations_are_different_facts(name: str, other: str, start: str, end: str) -> None:
    one, two = checked_relation(name), checked_relation(other)
    if two not in (one, inverse(one)):
        assert fact(start, end, one) != fact(start, end, two)


def test_the_generic_inverse_of_a_known_name_is_its_own_inverse() -> None:
    assert checked_relation("inverse_of_blocks") == "blocked_by"


@pytest.mark.parametrize(
    "name", ["", "Depends On", "dependsOn", "_x", "x_", "a__b", "1st", "né", "x" * 65, "a-b", "a\n"]
)
def test_a_name_that_is_not_snake_case_is_refused(name: str) -> None:
    with pytest.raises(Invalid) as refusal:
        checked_relation(name)
    assert refusal.value.fields[0].field == "relation"


def test_the_refusal_suggests_the_nearest_spelling() -> None:
    with pytest.raises(Invalid) as refusal:
        checked_word("Depends On!", "relation")
    assert "depends_on" in refusal.value.fields[0].message


def test_turning_a_relation_around_twice_is_refused() -> None:
    with pytest.raises(Invalid):
        checked_relation("inverse_of_inverse_of_inspired")
