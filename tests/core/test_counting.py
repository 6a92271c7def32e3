"""Proves that numbers of things read well."""

import pytest

from holdfast.core.text.counting import many


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (1, "memory", "1 memory"),
        (2, "memory", "2 memories"),
        (0, "memory", "0 memories"),
        (1, "decision", "1 decision"),
        (3, "decision", "3 decisions"),
        (2, "key", "2 keys"),
        (1_234, "file", "1,234 files"),
    ],
)
def test_one_thing_is_singular_and_any_other_number_plural(count: int, noun: str, said: str) -> None:
    assert many(count, noun) == said
