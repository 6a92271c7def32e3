"""Owns the memory score: how much an agent may expect of a repository's memory, in a hundred points."""

from holdfast.features.repositories.model import Breakdown, Repository

DAY_MILLIS = 86_400_000
_COVERAGE = ((200, 25), (50, 17), (1, 8))
"""At least so many vectors give so many points."""
_FRESHNESS = ((7, 15), (30, 10), (90, 5))
"""A last sync at most so many days ago gives so many points."""


def score(repository: Repository, vectors: int, now: int) -> Breakdown:
    """The score of a repository with so many vectors at a moment."""
    return Breakdown(
        ingestion=25 if repository.ingested else 0,
        synthesis=25 if repository.synthesis_status == "completed" else 0,
        coverage=coverage(vectors),
        freshness=freshness(repository.last_synced_at, now),
        keystone_folder=10 if repository.keystone_files else 0,
    )


def coverage(vectors: int) -> int:
    """Points for how much there is to find by meaning."""
    return next((points for least, points in _COVERAGE if vectors >= least), 0)


def freshness(last_synced_at: int | None, now: int) -> int:
    """Points for how long ago it was brought up to date."""
    if last_synced_at is None:
        return 0
    age = now - last_synced_at
    return next((points for days, points in _FRESHNESS if age <= days * DAY_MILLIS), 0)
