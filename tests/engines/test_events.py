"""The event bus: after commit, in order, to subscribers here and in other processes, never waiting for a slow one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from holdfast.core.errors import Invalid
from holdfast.engines.events import LAGGED, Event, EventBus, Subscription
from holdfast.engines.events import store as event_store
from holdfast.storage.database import Database, Tx
from holdfast.storage.postgresql import PostgresDatabase
from tests.conftest import OpenDatabase


async def take(events: Subscription, count: int) -> list[Event]:
    async with asyncio.timeout(30):
        return [await events.get() for _ in range(count)]


@asynccontextmanager
async def running(bus: EventBus) -> AsyncIterator[EventBus]:
    task = asyncio.create_task(bus.run())
    await bus.ready()
    try:
        yield bus
    finally:
        await bus.stop()
        await task


async def test_events_arrive_after_commit_in_order(database: Database) -> None:
    bus = EventBus(database)
    async with bus.subscribe(["memory.saved"]) as events:
        for n in range(5):
            await database.write(partial(bus.publish, topic="memory.saved", payload={"n": n}))
        assert [event.payload["n"] for event in await take(events, 5)] == [0, 1, 2, 3, 4]


async def test_what_rolls_back_is_not_told(database: Database) -> None:
    bus = EventBus(database)

    def fails(tx: Tx) -> None:
        bus.publish(tx, "memory.saved", {"n": 1})
        raise Invalid("No.")

    async with bus.subscribe() as events:
        with pytest.raises(Invalid):
            await database.write(fails)
        await database.write(lambda tx: bus.publish(tx, "memory.saved", {"n": 2}))
        assert (await take(events, 1))[0].payload == {"n": 2}


async def test_a_subscriber_hears_only_its_topics_and_workspaces(database: Database) -> None:
    bus = EventBus(database)

    def publish(tx: Tx) -> None:
        bus.publish(tx, "memory.saved", workspace_id="ws_1")
        bus.publish(tx, "job.queued", workspace_id="ws_2")
        bus.publish(tx, "job.running", workspace_id="ws_1")
        bus.publish(tx, "ended")

    jobs = bus.subscribe(["job.*"])
    mine = bus.subscribe(workspace_ids={"ws_1"})
    odd = bus.subscribe(predicate=lambda event: event.topic.endswith("d"))
    await database.write(publish)
    assert [event.topic for event in await take(jobs, 2)] == ["job.queued", "job.running"]
    assert [event.topic for event in await take(mine, 2)] == ["memory.saved", "job.running"]
    assert [event.topic for event in await take(odd, 3)] == ["memory.saved", "job.queued", "ended"]


async def test_a_slow_subscriber_is_told_what_it_missed(database: Database) -> None:
    bus = EventBus(database)
    quick, slow = bus.subscribe(), bus.subscribe(capacity=3)

    def publish(tx: Tx) -> None:
        for n in range(10):
            bus.publish(tx, "tick", {"n": n})

    await database.write(publish)
    await take(quick, 10)
    got = await take(slow, 4)
    assert [event.payload.get("n") for event in got[:3]] == [0, 1, 2]
    assert got[3].topic == LAGGED and got[3].payload == {"missed": 7}
    await database.write(lambda tx: bus.publish(tx, "tick", {"n": 10}))
    assert (await take(slow, 1))[0].payload == {"n": 10}


async def test_a_closed_subscription_ends_its_loop(database: Database) -> None:
    bus = EventBus(database)
    events = bus.subscribe()
    await database.write(lambda tx: bus.publish(tx, "tick"))
    await take(events, 1)
    events.close()
    assert [event async for event in events] == []


async def test_another_server_hears_it(open_database: OpenDatabase) -> None:
    here, there = open_database(), open_database()
    async with running(EventBus(here)) as speaker, running(EventBus(there)) as listener:
        own, foreign = speaker.subscribe(), listener.subscribe()
        for n in range(3):
            await here.write(partial(speaker.publish, topic="memory.saved", payload={"n": n}, workspace_id="ws_1"))
        heard = await take(foreign, 3)
        assert [event.payload["n"] for event in heard] == [0, 1, 2]
        assert heard[0].workspace_id == "ws_1" and heard[0].at > 0
        assert [event.payload["n"] for event in await take(own, 3)] == [0, 1, 2]
        # Own events come once, not again from the table.
        await there.write(lambda tx: listener.publish(tx, "bye"))
        assert (await take(own, 1))[0].topic == "bye"
    await here.close()
    await there.close()


async def test_a_process_without_a_loop_of_its_own_is_heard_by_polling(open_database: OpenDatabase) -> None:
    server, command = open_database(), open_database()
    async with running(EventBus(server, poll_seconds=0.05)) as bus:
        events = bus.subscribe()
        await command.write(lambda tx: EventBus(command).publish(tx, "memory.saved", {"n": 1}))
        assert (await take(events, 1))[0].payload == {"n": 1}
    await server.close()
    await command.close()


async def test_an_event_committed_late_is_not_skipped(postgres_database: PostgresDatabase) -> None:
    """The numbers of events follow the order of inserting, not of committing."""
    bus, other = EventBus(postgres_database, poll_seconds=0.05), EventBus(postgres_database)
    loop = asyncio.get_running_loop()
    inserted, go_on = asyncio.Event(), asyncio.Event()

    def late(tx: Tx) -> None:
        other.publish(tx, "late")
        loop.call_soon_threadsafe(inserted.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(30)

    await postgres_database.write(lambda tx: other.publish(tx, "before"))
    async with running(bus):
        events = bus.subscribe()
        writing = asyncio.create_task(postgres_database.write(late))
        await inserted.wait()
        await postgres_database.write(lambda tx: other.publish(tx, "early"))
        assert [event.topic for event in await take(events, 1)] == ["early"]
        go_on.set()
        await writing
        assert [event.topic for event in await take(events, 1)] == ["late"]


async def test_old_events_are_trimmed(database: Database) -> None:
    bus = EventBus(database)
    await database.write(lambda tx: bus.publish(tx, "tick"))
    await database.write(lambda tx: bus.publish(tx, "tock"))
    assert await database.write(lambda tx: event_store.trim(tx, 2**62)) == 1
    # Whoever heard the newest goes on from there, however quiet it was since.
    assert await bus.keeps(await bus.newest())


async def test_a_payload_that_is_content_is_refused(database: Database) -> None:
    bus = EventBus(database)
    with pytest.raises(ValueError, match="publish an id"):
        await database.write(lambda tx: bus.publish(tx, "tick", {"text": "x" * 5000}))
