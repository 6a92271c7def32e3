"""Owns the proof that false statements go and true ones stay, by a table of both, and what the check does not see.

Measured when each part was written, before anything was tuned on it: the second half 37 of 47 (25 of 31 false ones
gone, 12 of 16 true ones kept), the third part 35 of 43 (21 of 27, 14 of 16), the last 28 of 32 (21 of 22, 7 of 10).
The last part was left alone: it tells how the check does on what it was not made for.
"""

from collections.abc import Mapping, Sequence

import pytest

from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.cited.review import review
from tests.engines.llm.cited.other_statements import LAST_PART, OTHER_SOURCES, THIRD_PART
from tests.engines.llm.cited.statements import FIRST_HALF, SECOND_HALF, SOURCES, Statement

# What each part gets wrong: a name on the wrong side of a word, who of those who are named did it, and true words that
# the source has in another form.
MISSED = {
    "first": (),
    "second": (),
    "third": ("Jekyll is a replacement for Kiln [1].",),
    "last": (
        "For privacy, the admin console stopped loading fonts from Google [5].",
        "Ingrid Solberg measured a latency of 11 ms, up from 3 ms [6].",
        "Omar Diallo preferred to keep RabbitMQ but did not block the change [6].",
        "Omar Diallo moved the queue to Postgres [6].",
    ),
}
PARTS: dict[str, tuple[Sequence[Statement], Mapping[int, ReadSource]]] = {
    "first": (FIRST_HALF, SOURCES),
    "second": (SECOND_HALF, SOURCES),
    "third": (THIRD_PART, OTHER_SOURCES),
    "last": (LAST_PART, OTHER_SOURCES),
}


@pytest.mark.parametrize("part", PARTS)
def test_false_statements_go_and_true_ones_stay(part: str) -> None:
    statements, sources = PARTS[part]
    wrong = [each.text for each in statements if (review(each.text, "", sources).markdown == each.text) != each.is_true]
    assert wrong == list(MISSED[part])


def test_the_table_has_every_kind_of_untruth_in_every_part() -> None:
    assert sum(len(statements) for statements, _ in PARTS.values()) == 161
    for statements, _ in PARTS.values():
        kinds = {each.kind for each in statements}
        assert kinds == {"true", "negated", "number", "version", "date", "name", "overclaim", "comparison"}


@pytest.mark.parametrize("part", PARTS)
def test_no_statement_holds_without_its_citation_or_with_another(part: str) -> None:
    statements, sources = PARTS[part]
    for each in statements:
        bare, _, mark = each.text.rpartition(" [")
        assert review(f"{bare}.", "", sources).markdown == ""
        for number in set(sources) - {int(mark.rstrip("].")), 1}:
            assert review(f"{bare} [{number}].", "", sources).markdown == "" or not each.is_true


@pytest.mark.parametrize("filling", ["1 2 ", "no not without ", "from a to b ", "a than b ", "`x` ", "; ", "# a\n"])
def test_a_hostile_source_is_read_in_time(filling: str) -> None:
    text = filling * (24_000 // len(filling))
    source = ReadSource(1, "x", "x", text)
    claim = "From 1 to 2 is not more than 3 without a [1]. " * 8
    assert review(claim, "", {1: source}).removed >= 0
