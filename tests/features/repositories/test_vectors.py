"""Owns the proof that vectors are counted, not passages, and that people are told how many wait, and how long."""

from pathlib import Path

import pytest

from holdfast.engines.search.model import Entry, VectorCount
from holdfast.features.repositories.model import Repository
from holdfast.features.repositories.tools import status_output
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world


async def _more(world: RepositoryWorld, repository: Repository, count: int) -> None:
    """Passages that nobody has embedded."""
    entries = [
        Entry(world.workspace_id, "file", f"{repository.id}/{n}", "x", f"Oats {n}", world.clock.now(),
              collection=repository.id)
        for n in range(count)
    ]  # fmt: skip
    await world.services.database.write(lambda tx: world.services.search.put(tx, entries))


# Starts processes that read a repository.
@pytest.mark.slow
@pytest.mark.contract("KS-5")
async def test_passages_without_vectors_are_counted_as_waiting_everywhere(
    database: Database, clock: MovableClock, tmp_path: Path
) -> None:
    source = GitRepo(tmp_path / "barn")
    for number in range(12):
        source.commit(f"Feed horse {number} with oats", {f"horse{number}.md": f"# Horse {number}\n\nIt eats oats.\n"})
    async with repository_world(database, clock, tmp_path / "data") as world:
        services = world.services
        barn = await world.add(source, slug="barn")
        assert barn.entries >= 24
        found, score, vectors = await services.repositories.status(world.principal, "barn")
        assert (vectors, score.coverage) == (VectorCount(0, barn.entries, None), 0)
        assert status_output(found, score, vectors).embedding_count == 0
        said = f"{barn.entries} passages wait for vectors and are found by words only; how long it takes is not known"
        answer = await services.ask.ask(world.principal, ["barn"], "What do horses eat?", source="mcp")
        assert f"*barn: {said}" in answer.markdown and answer.waiting == barn.entries
        brief = await services.intelligence.brief(world.principal, world.workspace_id)
        assert brief.sections["repositories"][0].detail.startswith(said)

        assert await services.search.tend() >= barn.entries
        _, score, vectors = await services.repositories.status(world.principal, "barn")
        assert (vectors, score.coverage) == (VectorCount(barn.entries, 0, None), 8)
        answer = await services.ask.ask(world.principal, ["barn"], "What do horses eat?", source="mcp")
        assert "wait for vectors" not in answer.markdown and answer.waiting == 0
        brief = await services.intelligence.brief(world.principal, world.workspace_id)
        assert "vectors" not in brief.sections["repositories"][0].detail

        await _more(world, barn, 200)
        (vectors,) = await services.repositories.vectors([barn])
        assert (vectors.vectors, vectors.waiting) == (barn.entries, 200)
        assert vectors.seconds is not None and 0 < vectors.seconds < 600
        # Nobody embedded for a while: whether and when somebody goes on is not known.
        clock.advance(seconds=660)
        assert (await services.repositories.vectors([barn]))[0].seconds is None


@pytest.mark.parametrize(
    ("seconds", "left"),
    [
        (0.2, "about 1 second is left at the present rate."),
        (89, "about 89 seconds are left at the present rate."),
        (600, "about 10 minutes are left at the present rate."),
        (None, "how long it takes is not known, since none was embedded in the last ten minutes."),
    ],
)
def test_what_is_said_of_waiting_names_its_estimate_or_that_there_is_none(seconds: float | None, left: str) -> None:
    assert VectorCount(3, 0, seconds).said == ""
    assert VectorCount(3, 1, seconds).said == f"1 passage waits for vectors and is found by words only; {left}"
    assert VectorCount(3, 1_200, seconds).said.startswith("1,200 passages wait for vectors and are found by words")
