"""Proves that an export leaves out what repositories give again, unless it is asked for."""

from pathlib import Path

import pytest

from holdfast.features.intelligence.model import DecisionEdit, NewDecision
from holdfast.storage.database import Database
from tests.features.synthesis.shop import findings, shop, somebody, synthesised
from tests.support.clock import MovableClock
from tests.support.code.repositories import RepositoryWorld, repository_world


async def _exported(world: RepositoryWorld, *, derived: bool = False) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    await world.services.interchange.export(somebody(world), world.workspace_id, files.__setitem__, derived=derived)
    return files


@pytest.mark.slow
async def test_what_is_derived_from_a_repository_is_exported_only_when_asked_for(
    database: Database, clock: MovableClock, tmp_path: Path
) -> None:
    async with repository_world(database, clock, tmp_path / "data", synthesis=True) as world:
        await synthesised(world, shop(tmp_path / "shop"))
        assert await _exported(world) == {}
        own = await world.services.intelligence.decisions.track(
            somebody(world), world.workspace_id, NewDecision("Keep tea dry", "It moulds.")
        )
        assert [path.split("/")[0] for path in await _exported(world)] == ["decisions"]
        derived = next(each for each in (await findings(world, "decision")).values())
        change = DecisionEdit(rationale="As we see it now.")
        await world.services.intelligence.decisions.edit(somebody(world), world.workspace_id, derived.target_id, change)
        kept = await _exported(world)
        assert len(kept) == 2, "what a person edits is theirs"
        assert own.id[-12:] in "".join(kept)
        everything = await _exported(world, derived=True)
        assert kept.keys() < everything.keys()
        assert {path.split("/")[0] for path in everything} >= {"decisions", "milestones", "artifacts"}
