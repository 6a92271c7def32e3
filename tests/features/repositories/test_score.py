"""The memory score: the documented table, at both sides of every boundary."""

import pytest

from holdfast.features.repositories.score import coverage, freshness

DAY = 86_400_000
NOW = 1_795_000_000_000

pytestmark = pytest.mark.contract("KS-5")


@pytest.mark.parametrize(
    ("vectors", "points"), [(0, 0), (1, 8), (49, 8), (50, 17), (199, 17), (200, 25), (1_000_000, 25)]
)
def test_coverage_counts_what_is_found_by_meaning(vectors: int, points: int) -> None:
    assert coverage(vectors) == points


@pytest.mark.parametrize(
    ("age", "points"),
    [
        (0, 15),
        (7 * DAY, 15),
        (7 * DAY + 1, 10),
        (30 * DAY, 10),
        (30 * DAY + 1, 5),
        (90 * DAY, 5),
        (90 * DAY + 1, 0),
        (-1, 15),
    ],
)
def test_freshness_counts_days_to_the_millisecond(age: int, points: int) -> None:
    assert freshness(NOW - age, NOW) == points


def test_what_was_never_synced_is_not_fresh() -> None:
    assert freshness(None, NOW) == 0
