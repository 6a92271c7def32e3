"""Owns the proof that job slots are shared fairly: one workspace's queue delays another's job by one job at most."""

import asyncio
import json
from collections import Counter
from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.events import EventBus
from holdfast.engines.jobs import JobEngine, JobRun, store, turns
from holdfast.engines.jobs.model import Claim
from holdfast.storage.database import Database, Row, Tx
from tests.engines.jobs.engines import running
from tests.support.properties import examples

_LEASE_MILLIS = 3_600_000
_kinds = count()


async def workspaces(database: Database, *names: str) -> JobEngine:
    def add(tx: Tx) -> None:
        tx.execute("INSERT INTO organization (id, name, created_at) VALUES ('org_1', 'o', 0) ON CONFLICT DO NOTHING")
        tx.execute(
            "INSERT INTO project (id, organization_id, slug, name, created_at) "
            "VALUES ('proj_1', 'org_1', 'p', 'p', 0) ON CONFLICT DO NOTHING"
        )
        for name in names:
            tx.execute(
                "INSERT INTO workspace (id, project_id, organization_id, slug, name, created_at) "
                "VALUES (:id, 'proj_1', 'org_1', :id, 'w', 0) ON CONFLICT DO NOTHING",
                {"id": name},
            )

    await database.write(add)
    return JobEngine(database, EventBus(database), lease_seconds=120)


async def queue(database: Database, engine: JobEngine, kind: str, workspace: str, number: int) -> list[str]:
    return await database.write(
        lambda tx: [
            # A moment apart: of two in the same one, either may be first.
            engine.enqueue(tx, kind, {"n": n}, workspace_id=workspace, delay_seconds=(n - number) / 100)
            for n in range(number)
        ]
    )


async def claim(database: Database, kind: str, slots: int = 1, owner: str = "run_a", **options: int) -> list[Claim]:
    return await database.write(lambda tx: turns.claim(tx, kind, owner, [], _LEASE_MILLIS, slots, **options))


async def finish(database: Database, claimed: Claim) -> None:
    await database.write(lambda tx: store.finish(tx, claimed.fence, "succeeded"))


async def test_a_single_job_waits_for_one_of_anothers_thousand(database: Database) -> None:
    engine = await workspaces(database, "ws_a", "ws_b")
    await queue(database, engine, "work", "ws_a", 1_000)
    busy = await claim(database, "work", 2)
    assert [each.job.workspace_id for each in busy] == ["ws_a", "ws_a"]
    [single] = await queue(database, engine, "work", "ws_b", 1)
    await finish(database, busy[0])
    assert [each.job.id for each in await claim(database, "work")] == [single]


async def test_with_one_slot_workspaces_take_turns(database: Database) -> None:
    engine = await workspaces(database, "ws_a", "ws_b", "ws_c")
    for workspace, number in (("ws_a", 5), ("ws_b", 2), ("ws_c", 2)):
        await queue(database, engine, "work", workspace, number)
    order = []
    while claims := await claim(database, "work"):
        order.append((claims[0].job.workspace_id or "")[-1])
        await finish(database, claims[0])
    assert "".join(order) == "abcabcaaa"


async def test_jobs_of_one_workspace_start_in_the_order_they_were_queued(database: Database) -> None:
    engine = await workspaces(database, "ws_a")
    queued = await queue(database, engine, "work", "ws_a", 5)
    assert [each.job.id for each in await claim(database, "work", 5)] == queued


async def test_a_workspace_alone_never_fills_the_reserved_slot(database: Database) -> None:
    engine = await workspaces(database, "ws_a", "ws_b")
    await queue(database, engine, "work", "ws_a", 10)
    assert len(await claim(database, "work", 3, most_of_one=2)) == 2
    assert await claim(database, "work", 1, most_of_one=2) == []
    [single] = await queue(database, engine, "work", "ws_b", 1)
    assert [each.job.id for each in await claim(database, "work", 1, most_of_one=2)] == [single]


async def test_what_a_workspace_runs_elsewhere_counts(database: Database) -> None:
    engine = await workspaces(database, "ws_a", "ws_b")
    await queue(database, engine, "work", "ws_b", 1)
    await claim(database, "work", owner="run_elsewhere")
    await queue(database, engine, "work", "ws_b", 5)
    [single] = await queue(database, engine, "work", "ws_a", 1)
    assert [each.job.id for each in await claim(database, "work", owner="run_here")] == [single]


async def test_work_of_a_dead_process_is_taken_over_in_its_workspaces_turn(database: Database) -> None:
    engine = await workspaces(database, "ws_a", "ws_b")
    await queue(database, engine, "work", "ws_a", 3)
    [lost] = await database.write(lambda tx: turns.claim(tx, "work", "run_dead", [], -1, 1))
    [single] = await queue(database, engine, "work", "ws_b", 1)
    assert [each.job.id for each in await claim(database, "work", 2)] == [single, lost.job.id]


async def test_jobs_that_are_not_due_give_no_turn_away(database: Database) -> None:
    engine = await workspaces(database, "ws_a", "ws_b")
    await database.write(lambda tx: engine.enqueue(tx, "work", workspace_id="ws_b", delay_seconds=3600))
    queued = await queue(database, engine, "work", "ws_a", 2)
    assert [each.job.id for each in await claim(database, "work", 3)] == queued


async def test_old_turns_are_forgotten(database: Database) -> None:
    engine = await workspaces(database, "ws_a")
    await queue(database, engine, "work", "ws_a", 1)
    await claim(database, "work")
    await database.write(lambda tx: turns.trim(tx, 2**40))
    assert len(await database.read(lambda tx: tx.all("SELECT kind FROM job_turn"))) == 1
    await database.write(lambda tx: turns.trim(tx, 2**50))
    assert not await database.read(lambda tx: tx.all("SELECT kind FROM job_turn"))


_events = st.lists(
    st.one_of(
        st.tuples(st.just("queue"), st.integers(0, 3), st.integers(1, 6)),
        st.tuples(st.just("claim"), st.integers(0, 1), st.integers(1, 2)),
        st.tuples(st.just("finish"), st.integers(0, 9), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@given(events=_events)
@examples(40)
async def test_between_two_jobs_of_one_workspace_nobody_waits_for_a_slot_twice(
    database: Database, events: list[tuple[str, int, int]]
) -> None:
    """In any mixture: while a workspace waits, another starts at most one more job than it."""
    names = [f"ws_{number}" for number in range(4)]
    engine = await workspaces(database, *names)
    kind = f"work {next(_kinds)}"
    queued: Counter[str] = Counter()
    busy: list[Claim] = []
    # For each pair: how many jobs the second started since the first began to wait for its next.
    passed: dict[str, Counter[str]] = {name: Counter() for name in names}
    for event, which, number in [*events, *[("finish", 0, 0), ("claim", 0, 2)] * 30]:
        if event == "queue":
            await queue(database, engine, kind, names[which], number)
            queued[names[which]] += number
        elif event == "finish" and busy:
            await finish(database, busy.pop(which % len(busy)))
        elif event == "claim":
            runs = Counter(each.job.workspace_id for each in busy)
            for claimed in await claim(database, kind, number, owner=f"run_{which}"):
                started = claimed.job.workspace_id or ""
                waiting = [name for name in names if queued[name] and name != started]
                assert all(runs[started] <= runs[name] for name in waiting), "the one that runs fewest is next"
                for name in waiting:
                    if runs[name] == runs[started]:
                        passed[name][started] += 1
                        assert passed[name][started] <= 1, (name, started, events)
                passed[started].clear()
                queued[started] -= 1
                runs[started] += 1
                busy.append(claimed)
    assert +queued == Counter()


async def test_a_job_of_another_workspace_is_next_while_slow_ones_fill_every_slot(database: Database) -> None:
    engine = await workspaces(database, "ws_a", "ws_b")
    release: asyncio.Queue[None] = asyncio.Queue()
    order: list[str] = []

    async def slow(run: JobRun) -> object:
        order.append(run.workspace_id)
        if run.workspace_id == "ws_a":
            await release.get()
        return None

    engine.handle("work", slow, concurrency=2)
    await queue(database, engine, "work", "ws_a", 50)
    async with running(engine):
        async with asyncio.timeout(30):
            while len(order) < 2:
                await asyncio.sleep(0.01)
        [single] = await queue(database, engine, "work", "ws_b", 1)
        release.put_nowait(None)
        await engine.wait(single, timeout_seconds=30)
        # One slot came free, and the job that waited least got it.
        assert order[:3] == ["ws_a", "ws_a", "ws_b"]
        for _ in range(50):
            release.put_nowait(None)


def _all(sql: str, params: dict[str, object], tx: Tx) -> list[Row]:
    return tx.all(sql, params)


@pytest.mark.slow
async def test_a_claim_reads_the_queues_heads_and_not_ten_thousand_jobs(database: Database) -> None:
    engine = await workspaces(database, "ws_a", "ws_b")
    values = [
        {"id": f"job_{number:06}", "kind": "work", "workspace_id": "ws_a", "key": f"k{number}", "payload": "{}",
         "max_attempts": 5, "run_at": number, "now": 0}
        for number in range(10_000)
    ]  # fmt: skip
    await database.write(lambda tx: [store.insert(tx, each) for each in values])
    [single] = await queue(database, engine, "work", "ws_b", 1)
    explain, bad = ("EXPLAIN QUERY PLAN", "TEMP B-TREE") if database.dialect == "sqlite" else ("EXPLAIN", "Seq Scan")
    if database.dialect == "postgresql":
        await database.write(lambda tx: tx.execute("ANALYZE job"))
    params = {"kind": "work", "workspace": "ws_a", "now": 2**60}
    for sql in (turns.WAITING, f"{turns.NEXT_QUEUED} ORDER BY run_at, id LIMIT 1"):
        plan = await database.read(partial(_all, f"{explain} {sql}", params))
        told = json.dumps([dict(row) for row in plan])
        assert bad not in told and "Sort" not in told and "job_queued" in told, told
    claims = await claim(database, "work", 2)
    assert {each.job.id for each in claims} == {single, "job_000000"}
