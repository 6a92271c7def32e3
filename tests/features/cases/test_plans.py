"""Owns the proof that what is asked of a large queue all the time goes by an index, on both stores."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from holdfast.features.cases import store
from holdfast.storage.database import Database, Row, Tx


class Explaining:
    """A transaction that tells how it would find rows, and finds none."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.dialect = tx.dialect
        self.plan = ""

    def all(self, sql: str, values: Mapping[str, Any]) -> list[Row]:
        word = "EXPLAIN" if self.dialect == "postgresql" else "EXPLAIN QUERY PLAN"
        for row in self._tx.all(f"{word} {sql}", values):
            self.plan += " ".join(str(value) for value in dict(row).values()) + "\n"
        return []

    def one(self, sql: str, values: Mapping[str, Any]) -> Row | None:
        self.all(sql, values)
        return None


async def plan_of(database: Database, ask: Callable[[Tx], object]) -> str:
    def work(tx: Tx) -> str:
        if tx.dialect == "postgresql":
            # A small table is read whole whatever indexes it has; what matters is that it need not be.
            for name in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
                tx.execute(f"SET LOCAL {name} = off", {})
        explaining = Explaining(tx)
        ask(cast(Tx, explaining))
        return explaining.plan

    return await database.write(work)


@pytest.mark.parametrize(
    ("ask", "indexes"),
    [
        (lambda tx: store.ready(tx, "ws", 5, 50), ["work_case_queue"]),
        (lambda tx: store.next_ready(tx, "ws", 5, ["ada"]), ["work_case_queue"]),
        (lambda tx: store.lane(tx, "ws", "OPEN", 50), ["work_case_lane"]),
        (lambda tx: store.lane(tx, "ws", "DONE", 50), ["work_case_state"]),
    ],
    ids=["ready", "claim-next", "board", "board of what is over"],
)
async def test_a_queue_is_read_in_its_order(
    database: Database, ask: Callable[[Tx], object], indexes: list[str]
) -> None:
    plan = await plan_of(database, ask)

    assert all(index in plan for index in indexes), plan
    assert "TEMP B-TREE" not in plan and "Sort Key" not in plan, plan


async def test_what_wants_somebody_is_found_without_looking_at_every_case(database: Database) -> None:
    plan = await plan_of(database, lambda tx: store.of_somebody(tx, "ws", "usr_1", ["usr_1", "ada"], 200))

    assert "SCAN c" not in plan and "Seq Scan" not in plan, plan
    # On an empty table PostgreSQL takes whichever of them comes first.
    if "cost=" not in plan:
        for index in ("work_case_assignee", "work_case_holder", "work_case_author"):
            assert index in plan, plan


async def test_held_cases_at_the_head_of_the_queue_are_passed_over_by_the_index(sqlite_database: Database) -> None:
    """Were each of them read to see its lease, taking the next would cost more with every case that is held."""

    def indexed(tx: Tx) -> list[str]:
        return [str(row["name"]) for row in tx.all("PRAGMA index_info('work_case_queue')")]

    columns = await sqlite_database.read(indexed)
    assert columns[:3] == ["workspace_id", "is_active", "open_blockers"] and "lease_until" in columns
