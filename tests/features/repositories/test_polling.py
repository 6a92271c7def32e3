"""Repositories that nobody announces changes of: synced again after a while, a few at a time, each once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.ids import new_id
from holdfast.core.settings import Settings
from holdfast.features.repositories import store
from holdfast.features.repositories.history.polling import AT_ONCE, Polling
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.hosts.webhooks import KEEP_DELIVERIES_MILLIS
from holdfast.features.repositories.model import POLL_KIND, SYNC_KIND, Repository
from holdfast.storage.database import Database, Tx
from tests.features.repositories.hosted import Hosted, hosted
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo

URL = "https://git.example.org/sea/tides.git"


@pytest.fixture
async def world(database: Database, clock: MovableClock, tmp_path: Path) -> Hosted:
    return await hosted(database, clock, tmp_path)


async def synced(world: Hosted, repository: Repository) -> None:
    """As if a sync had completed now."""

    def work(tx: Tx) -> None:
        now = world.clock.now()
        store.update(tx, repository.id, now, {"state": "ready", "last_synced_at": now})

    await world.database.write(work)


@asynccontextmanager
async def polling(world: Hosted, *, poll_seconds: int = 900) -> AsyncIterator[Polling]:
    """Polls when a job of its kind is queued by hand."""
    made = Polling(world.repositories, world.clock, poll_seconds=poll_seconds)
    world.jobs.handle(POLL_KIND, made.run, max_attempts=1)
    async with world.working():
        yield made


async def poll(world: Hosted) -> int:
    job_id = await world.database.write(lambda tx: world.jobs.enqueue(tx, POLL_KIND))
    job = await world.jobs.wait(job_id, timeout_seconds=60)
    assert job.state == "succeeded", job.error
    return int(job.result["queued"])


@pytest.mark.contract("KS-2")
async def test_a_repository_is_synced_again_once_its_last_sync_is_old(world: Hosted) -> None:
    repository = await world.add(URL)
    await synced(world, repository)
    async with polling(world):
        world.clock.advance(seconds=899)
        assert await poll(world) == 0
        world.clock.advance(seconds=2)
        assert await poll(world) == 1
        # It waits or runs now: the next turn leaves it alone.
        assert await poll(world) == 0
    jobs = (await world.jobs.list(world.workspace_id, kind=SYNC_KIND)).items
    assert [job.payload["trigger"] for job in jobs if job.state != "cancelled"] == ["poll"]


async def test_a_failed_one_is_tried_again_but_not_at_every_turn(world: Hosted) -> None:
    repository = await world.add(URL)
    await synced(world, repository)
    async with polling(world):
        world.clock.advance(seconds=1_000)
        await world.database.write(
            lambda tx: store.update(tx, repository.id, world.clock.now(), {"state": "failed", "reason": "away"})
        )
        assert await poll(world) == 0
        world.clock.advance(seconds=901)
        assert await poll(world) == 1


async def test_paths_are_not_polled(world: Hosted, tmp_path: Path) -> None:
    GitRepo(tmp_path / "work")
    local = replace(world.principal, proof="local")
    world.principal = local
    repository = await world.add(str(tmp_path / "work"))
    await synced(world, repository)
    async with polling(world):
        world.clock.advance(days=2)
        assert await poll(world) == 0


async def test_many_that_are_due_together_come_in_turns_the_oldest_first(world: Hosted) -> None:
    first = await world.add(URL, slug="first")
    await synced(world, first)

    def copies(tx: Tx) -> None:
        kept = store.by_id(tx, first.id)
        assert kept is not None
        for number in range(AT_ONCE + 4):
            moment = kept.updated_at + number + 1
            copy = replace(kept, id=new_id("repo"), slug=f"copy-{number}", last_synced_at=moment, updated_at=moment)
            assert store.insert(tx, copy)

    await world.database.write(copies)
    world.clock.advance(days=1)
    made = Polling(world.repositories, world.clock, poll_seconds=900)
    assert await world.database.write(made.turn) == AT_ONCE
    assert first.id in [job["repository_id"] for job in await world.queued()]
    assert await world.database.write(made.turn) == 5
    assert await world.database.write(made.turn) == 0
    assert len(await world.queued()) == AT_ONCE + 5


async def test_old_deliveries_are_forgotten(world: Hosted) -> None:
    repository = await world.add(URL)
    now = world.clock.now()
    await world.database.write(lambda tx: item_store.take_delivery(tx, repository.id, "old", now))
    async with polling(world):
        world.clock.advance(seconds=KEEP_DELIVERIES_MILLIS / 1_000 - 1)
        await poll(world)
        assert not await world.database.write(lambda tx: item_store.take_delivery(tx, repository.id, "old", now))
        world.clock.advance(seconds=2)
        await poll(world)
    assert await world.database.write(lambda tx: item_store.take_delivery(tx, repository.id, "old", now))


def test_the_time_between_syncs_is_a_setting(clock: MovableClock) -> None:
    assert Settings().repository_poll_seconds == 900
