"""Usage: counted by key, project, user and week, kept every second, reported to whom it concerns."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from holdfast.core.clock import parse_time
from holdfast.core.errors import Invalid, RateLimited
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.identity.model import NewKey
from holdfast.features.usage.model import UsageFilter, UsageRow, day_of, week_of
from holdfast.features.usage.service import Usage
from holdfast.storage.database import Database, StorageFailed
from tests.support.clock import MovableClock
from tests.support.world import new_world

OWNER = Principal("org_1", "usr_1", "session", True, frozenset({"management"}), role="owner")
KEY = replace(OWNER, actor="key_1", project_id="proj_1", proof="key", is_person=False)
OTHER = replace(OWNER, organization_id="org_2")
SUNDAY = parse_time("2026-11-15T23:59:59.999Z", "t")
MONDAY = parse_time("2026-11-16T00:00:00Z", "t")


def test_a_week_begins_on_monday_in_utc() -> None:
    assert week_of(MONDAY) == MONDAY
    assert week_of(SUNDAY) == parse_time("2026-11-09", "t")
    for millis in range(0, 40 * 86_400_000, 7_777_777):
        begun = datetime.fromtimestamp(week_of(millis + 10**12) / 1000, UTC)
        assert begun.weekday() == 0 and (begun.hour, begun.minute, begun.second) == (0, 0, 0)
    assert day_of(SUNDAY) == parse_time("2026-11-15", "t")


@pytest.mark.contract("KS-6")
async def test_counts_are_summed_by_week_actor_and_project(database: Database) -> None:
    clock = MovableClock(SUNDAY)
    usage = Usage(database, clock)
    usage.count(KEY, "requests", source="rest")
    clock.millis = MONDAY
    for _ in range(3):
        usage.count(KEY, "requests", source="rest")
        await usage.flush()
    usage.count(OWNER, "requests", 2, source="mcp")
    usage.count(OTHER, "requests", 100)
    rows = await usage.report(OWNER)
    last_week = week_of(SUNDAY)
    assert rows == [
        UsageRow("requests", 1, week=last_week, actor="key_1", project_id="proj_1"),
        UsageRow("requests", 3, week=MONDAY, actor="key_1", project_id="proj_1"),
        UsageRow("requests", 2, week=MONDAY, actor="usr_1", project_id=""),
    ]
    assert await usage.report(OWNER, UsageFilter(since=MONDAY, source="mcp"), ["source"]) == [
        UsageRow("requests", 2, source="mcp")
    ]
    assert await usage.report(OWNER, UsageFilter(until=MONDAY), ["day"]) == [
        UsageRow("requests", 1, day=parse_time("2026-11-15", "t"))
    ]


async def test_two_processes_add_to_the_same_counters(database: Database) -> None:
    servers = [Usage(database), Usage(database)]

    async def work(usage: Usage) -> None:
        for _ in range(20):
            usage.count(OWNER, "tool_calls")
            usage.count(KEY, "tool_calls")
            await usage.flush()

    await asyncio.gather(*(work(usage) for usage in servers))
    (row,) = await servers[0].report(OWNER, group_by=["kind"])
    assert (row.kind, row.amount) == ("tool_calls", 80)


async def test_what_was_counted_is_kept_without_asking_and_at_the_stop(database: Database) -> None:
    usage, other = Usage(database), Usage(database)
    running = asyncio.create_task(usage.run())
    usage.count(OWNER, "requests")
    async with asyncio.timeout(30):
        while not await other.report(OWNER):
            await asyncio.sleep(0.01)
    usage.count(OWNER, "requests")
    await usage.stop()
    await running
    assert [row.amount for row in await other.report(OWNER, group_by=["kind"])] == [2]


async def test_nothing_is_lost_or_doubled_when_the_store_is_away(database: Database) -> None:
    usage = Usage(database)
    usage.count(OWNER, "requests")
    usage.log(OWNER, source="mcp", operation="ask", model="m", tokens_in=1, tokens_out=2)

    async def fails(work: object) -> object:
        usage.count(OWNER, "requests")
        raise StorageFailed("The disk is full.")

    write, database.write = database.write, fails  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageFailed):
        await usage.flush()
    database.write = write  # type: ignore[method-assign]
    rows = {row.kind: row.amount for row in await usage.report(OWNER, group_by=["kind"])}
    assert rows == {"requests": 2, "model_calls": 1, "tokens_in": 1, "tokens_out": 2}
    assert len((await usage.entries(OWNER)).items) == 1


@pytest.mark.contract("KS-6")
async def test_calls_are_logged_with_their_source(database: Database, clock: MovableClock) -> None:
    usage = Usage(database, clock)
    for n in range(3):
        usage.log(
            KEY, source="mcp", operation="ask", model="small", tokens_in=10, tokens_out=n, cost=0.5, workspace_id="ws_1"
        )
    page = await usage.entries(OWNER, limit=2)
    rest = await usage.entries(OWNER, cursor=page.next_cursor)
    entries = [*page.items, *rest.items]
    assert {entry.tokens_out for entry in entries} == {0, 1, 2} and rest.next_cursor is None
    assert {(entry.source, entry.operation, entry.at) for entry in entries} == {("mcp", "ask", clock.now())}
    rows = {row.kind: row.amount for row in await usage.report(OWNER, group_by=["kind"])}
    assert rows == {"model_calls": 3, "tokens_in": 30, "tokens_out": 3, "cost": 1.5}
    assert not (await usage.entries(OWNER, UsageFilter(source="chat"))).items


@pytest.mark.contract("KS-6")
async def test_the_weekly_budget_begins_anew_on_monday(database: Database) -> None:
    clock = MovableClock(SUNDAY)
    usage = Usage(database, clock)
    usage.log(OWNER, source="mcp", operation="ask", model="m", tokens_in=300, tokens_out=100)
    budget = await usage.check_budget(OWNER, 500)
    assert (budget.used, budget.remaining, budget.resets_at) == (400, 100, MONDAY)
    await usage.flush()
    usage.log(OWNER, source="mcp", operation="ask", model="m", tokens_in=100, tokens_out=0)
    with pytest.raises(RateLimited, match="Monday") as refused:
        await usage.check_budget(OWNER, 500)
    assert refused.value.headers["Retry-After"] == "1" and refused.value.code == "budget_exceeded"
    assert (await usage.budget(KEY, 500)).used == 0
    clock.millis = MONDAY
    assert (await usage.check_budget(OWNER, 500)).remaining == 500


@pytest.mark.contract("KS-6")
async def test_a_persons_keys_spend_that_persons_budget(database: Database) -> None:
    world = await new_world(database, MovableClock(SUNDAY))
    usage, keys, machine = world.services.usage, world.services.keys, world.owner
    everything = NewKey(name="k", kind="organization", scopes=frozenset(SCOPES))
    person = replace(machine, actor=world.start.owner_id, proof="session")

    async def key(maker: Principal) -> Principal:
        return await keys.authenticate((await keys.create(maker, everything)).secret)

    first, second = await key(person), await key(person)
    grandchild = await key(second)
    apart, other = [await key(machine) for _ in range(2)]
    usage.log(first, source="mcp", operation="ask", model="m", tokens_in=300, tokens_out=0)
    await usage.flush()
    usage.log(grandchild, source="cli", operation="ask", model="m", tokens_in=100, tokens_out=99)
    usage.log(person, source="chat", operation="chat", model="m", tokens_in=9_000, tokens_out=9_000)
    usage.log(apart, source="rest", operation="ask", model="m", tokens_in=500, tokens_out=0)
    for spender in (person, first, second, grandchild):
        assert (await usage.check_budget(spender, 500)).remaining == 1
    assert (await usage.budget(other, 500)).used == (await usage.budget(machine, 500)).used == 0
    with pytest.raises(RateLimited, match=r"2026-11-16T00:00:00\.000Z"):
        await usage.check_budget(apart, 500)
    stranger = replace(person, organization_id="org_2")
    assert (await usage.budget(stranger, 500)).used == 0


async def test_nobody_sees_more_usage_than_concerns_them(database: Database) -> None:
    usage = Usage(database)
    usage.count(OWNER, "requests", 1)
    usage.count(KEY, "requests", 10, workspace_id="ws_1")
    usage.count(KEY, "requests", 100, workspace_id="ws_2")
    usage.count(OTHER, "requests", 1000)

    async def total(principal: Principal) -> float:
        return sum(row.amount for row in await usage.report(principal))

    assert await total(OWNER) == 111
    assert await total(KEY) == 110
    assert await total(replace(KEY, workspace_ids=frozenset({"ws_1"}))) == 10
    assert await total(replace(KEY, workspace_ids=frozenset())) == 0
    # Whoever manages nothing sees what they used themselves, and nobody else's.
    weak = replace(KEY, scopes=frozenset({"read", "inference"}))
    assert await total(weak) == 110
    assert await total(replace(weak, actor="key_other")) == 0
    assert await total(replace(OWNER, role="member", actor="usr_other")) == 0


async def test_an_unknown_grouping_is_named(database: Database) -> None:
    with pytest.raises(Invalid) as caught:
        await Usage(database).report(OWNER, group_by=["planet"])  # type: ignore[list-item]
    assert caught.value.fields[0].field == "group_by"
