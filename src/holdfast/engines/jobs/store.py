"""Owns the job tables: enqueueing, leases, steps and endings, on both dialects."""

import json
import time
from collections.abc import Collection, Mapping
from typing import Any

from holdfast.engines.jobs.model import Fence, Job, JobState
from holdfast.storage.database import Row, Tx

COLUMNS = (
    "id, kind, workspace_id, key, payload, state, attempts, max_attempts, run_at, done, total, message, result, "
    "error, created_at, updated_at, finished_at"
)
_MINE = "id = :id AND lease_owner = :owner AND claims = :claim AND state = 'running'"


def now(tx: Tx) -> int:
    """The store's time, so that replicas with different clocks agree on when a lease ends."""
    if tx.dialect == "sqlite":
        return time.time_ns() // 1_000_000
    row = tx.one("SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint AS millis")
    return int(row["millis"]) if row else 0


def insert(tx: Tx, values: Mapping[str, Any]) -> bool:
    """Add a queued job; False when the same keyed work already waits."""
    sql = (
        "INSERT INTO job (id, kind, workspace_id, key, payload, state, max_attempts, run_at, created_at, updated_at) "
        "VALUES (:id, :kind, :workspace_id, :key, :payload, 'queued', :max_attempts, :run_at, :now, :now) "
        "ON CONFLICT DO NOTHING"
    )
    return tx.execute(sql, values) == 1


def insert_running(tx: Tx, values: Mapping[str, Any]) -> Job:
    """Add a job that its maker runs from the first moment on."""
    row = tx.one(
        "INSERT INTO job (id, kind, workspace_id, payload, state, attempts, claims, max_attempts, lease_owner, "
        "lease_until, run_at, created_at, updated_at) VALUES (:id, :kind, :workspace_id, :payload, 'running', 1, 1, "
        f":max_attempts, :owner, :until, :now, :now, :now) RETURNING {COLUMNS}",
        values,
    )
    assert row is not None
    return job(row)


def waiting(tx: Tx, kind: str, workspace_id: str | None, key: str) -> str | None:
    """The keyed job that waits and has not been tried yet."""
    row = tx.one(
        "SELECT id FROM job WHERE kind = :kind AND COALESCE(workspace_id, '') = :workspace_id AND key = :key "
        "AND state = 'queued' AND attempts = 0",
        {"kind": kind, "workspace_id": workspace_id or "", "key": key},
    )
    return str(row["id"]) if row else None


def active(tx: Tx, kind: str, key: str) -> bool:
    """Whether a keyed job waits or runs."""
    sql = "SELECT 1 AS found FROM job WHERE kind = :kind AND key = :key AND state IN ('queued', 'running')"
    return tx.one(sql, {"kind": kind, "key": key}) is not None


def keyed(tx: Tx, kind: str, key: str) -> list[Job]:
    """The keyed jobs that wait or run, oldest first."""
    sql = f"SELECT {COLUMNS} FROM job WHERE kind = :kind AND key = :key AND state IN ('queued', 'running') ORDER BY id"
    return [job(row) for row in tx.all(sql, {"kind": kind, "key": key})]


def extend(tx: Tx, fences: Collection[Fence], lease_millis: int) -> dict[str, bool]:
    """Prolong leases; of those still ours, whether a cancellation was asked for. Missing ones are lost."""
    until = now(tx) + lease_millis
    kept = {}
    # In one order everywhere, so that replicas never wait for each other in a circle.
    for fence in sorted(fences, key=lambda fence: fence.job_id):
        row = tx.one(
            f"UPDATE job SET lease_until = :until WHERE {_MINE} RETURNING cancel_requested",
            {**fence.params(), "until": until},
        )
        if row is not None:
            kept[fence.job_id] = bool(row["cancel_requested"])
    return kept


def hold(tx: Tx, fence: Fence) -> bool:
    """Whether the job is still ours; PostgreSQL keeps it so until the transaction ends."""
    return tx.execute(f"UPDATE job SET updated_at = :now WHERE {_MINE}", {**fence.params(), "now": now(tx)}) == 1


def progress(tx: Tx, fence: Fence, done: float, total: float | None, message: str) -> bool:
    """Keep progress, if the job is still ours."""
    params = {**fence.params(), "done": done, "total": total, "message": message, "now": now(tx)}
    sql = f"UPDATE job SET done = :done, total = :total, message = :message, updated_at = :now WHERE {_MINE}"
    return tx.execute(sql, params) == 1


def step(tx: Tx, job_id: str, name: str) -> Row | None:
    """What a step left when it finished."""
    return tx.one("SELECT result FROM job_step WHERE job_id = :id AND name = :name", {"id": job_id, "name": name})


def finish_step(tx: Tx, job_id: str, name: str, result: str) -> None:
    """Keep what a step left."""
    tx.execute(
        "INSERT INTO job_step (job_id, name, result, finished_at) VALUES (:id, :name, :result, :now)",
        {"id": job_id, "name": name, "result": result, "now": now(tx)},
    )


def finish(tx: Tx, fence: Fence, state: JobState, *, result: str | None = None, error: str | None = None) -> Job | None:
    """End a job that is still ours."""
    row = tx.one(
        "UPDATE job SET state = :state, result = :result, error = :error, lease_owner = NULL, lease_until = NULL, "
        f"finished_at = :now, updated_at = :now WHERE {_MINE} RETURNING {COLUMNS}",
        {**fence.params(), "state": state, "result": result, "error": error, "now": now(tx)},
    )
    return job(row) if row else None


def requeue(tx: Tx, fence: Fence, *, delay_millis: int, error: str | None, free_attempt: bool) -> Job | None:
    """Give a job back, to be tried again after a while; `free_attempt` when it was no fault of its own.

    A job that was tried stays apart from untried ones of its key, so the first attempt is never given back.
    """
    moment = now(tx)
    row = tx.one(
        "UPDATE job SET state = 'queued', run_at = :run_at, error = :error, lease_owner = NULL, lease_until = NULL, "
        "attempts = CASE WHEN attempts > 1 THEN attempts - :back ELSE attempts END, updated_at = :now "
        f"WHERE {_MINE} RETURNING {COLUMNS}",
        {**fence.params(), "run_at": moment + delay_millis, "error": error, "back": int(free_attempt), "now": moment},
    )
    return job(row) if row else None


def request_cancel(tx: Tx, job_id: str) -> Job | None:
    """Cancel a queued job at once, ask a running one to stop, leave a finished one."""
    row = tx.one(
        "UPDATE job SET cancel_requested = 1, updated_at = :now, "
        "finished_at = CASE WHEN state = 'queued' THEN CAST(:now AS BIGINT) ELSE finished_at END, "
        "state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END "
        f"WHERE id = :id AND state IN ('queued', 'running') RETURNING {COLUMNS}",
        {"id": job_id, "now": now(tx)},
    )
    return job(row) if row else None


def get(tx: Tx, job_id: str) -> Job | None:
    """One job."""
    row = tx.one(f"SELECT {COLUMNS} FROM job WHERE id = :id", {"id": job_id})
    return job(row) if row else None


def page(
    tx: Tx, workspace_id: str, *, state: JobState | None, kind: str | None, before: str | None, limit: int
) -> list[Job]:
    """A workspace's newest jobs, older than the id `before`."""
    clauses = ["workspace_id = :workspace_id"]
    params: dict[str, Any] = {"workspace_id": workspace_id, "limit": limit}
    for clause, name, value in (
        ("state = :state", "state", state),
        ("kind = :kind", "kind", kind),
        ("id < :before", "before", before),
    ):
        if value is not None:
            clauses.append(clause)
            params[name] = value
    sql = f"SELECT {COLUMNS} FROM job WHERE {' AND '.join(clauses)} ORDER BY id DESC LIMIT :limit"
    return [job(row) for row in tx.all(sql, params)]


def trim(tx: Tx, before: int) -> int:
    """Forget jobs that ended before a moment."""
    return tx.execute("DELETE FROM job WHERE finished_at < :before", {"before": before})


def job(row: Row) -> Job:
    """The job in a row."""
    values = {name: row[name] for name in Job.__dataclass_fields__}
    values["payload"] = json.loads(row["payload"])
    values["result"] = json.loads(row["result"]) if row["result"] is not None else None
    return Job(**values)
