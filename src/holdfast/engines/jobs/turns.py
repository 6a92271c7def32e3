"""Owns who is next: due jobs are claimed so that no workspace's queue holds up another's, on both dialects."""

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.engines.jobs import store
from holdfast.engines.jobs.model import Claim, Fence
from holdfast.storage.database import Tx

_WORKSPACE = "COALESCE(workspace_id, '')"
_DUE = "((state = 'queued' AND run_at <= :now) OR (state = 'running' AND lease_until < :now))"
_FIRST_OF_KEY = (
    "(key IS NULL OR NOT EXISTS (SELECT 1 FROM job older WHERE older.kind = job.kind AND older.key = job.key "
    "AND COALESCE(older.workspace_id, '') = COALESCE(job.workspace_id, '') "
    "AND older.state IN ('queued', 'running') AND older.id < job.id))"
)
# From one workspace to the next along the index: the cost grows with the workspaces that wait, not with their jobs.
WAITING = f"""
    WITH RECURSIVE waiting (workspace) AS (
        SELECT (SELECT {_WORKSPACE} FROM job WHERE kind = :kind AND state = 'queued' ORDER BY {_WORKSPACE} LIMIT 1)
        UNION ALL
        SELECT (SELECT {_WORKSPACE} FROM job WHERE kind = :kind AND state = 'queued'
            AND {_WORKSPACE} > waiting.workspace ORDER BY {_WORKSPACE} LIMIT 1)
        FROM waiting WHERE waiting.workspace IS NOT NULL
    )
    SELECT workspace, (SELECT run_at FROM job WHERE kind = :kind AND state = 'queued'
        AND {_WORKSPACE} = waiting.workspace ORDER BY run_at, id LIMIT 1) AS due_at
    FROM waiting WHERE workspace IS NOT NULL
"""
_OF_WORKSPACE = f"SELECT id FROM job WHERE kind = :kind AND {_WORKSPACE} = :workspace AND {_FIRST_OF_KEY}"
_NEXT_LOST = f"{_OF_WORKSPACE} AND state = 'running' AND lease_until < :now"
NEXT_QUEUED = f"{_OF_WORKSPACE} AND state = 'queued' AND run_at <= :now"


@dataclass(slots=True)
class _Turn:
    """A workspace with something to start."""

    workspace: str
    due_at: int
    running: int = 0
    """How many it runs, in all processes."""
    here: int = 0
    """How many of them this process runs."""
    served_at: int = 0
    """When it was last given a slot, in microseconds; 0 when that is long ago."""


def due_kinds(tx: Tx, kinds: Sequence[str], holding: Collection[str]) -> list[str]:
    """Those of these kinds that have a job to start or to take over, besides the jobs that we hold."""
    others, params = _others(holding)
    params["now"] = store.now(tx)
    sql = f"SELECT 1 AS found FROM job WHERE kind = :kind AND {_DUE}{others} LIMIT 1"
    return [kind for kind in kinds if tx.one(sql, {**params, "kind": kind}) is not None]


def claim(
    tx: Tx,
    kind: str,
    owner: str,
    holding: Collection[str],
    lease_millis: int,
    limit: int,
    *,
    most_of_one: int | None = None,
) -> list[Claim]:
    """Take due jobs of a kind, with the steps that they have finished before.

    The next slot goes to the workspace that runs the fewest, then to the one that was served longest ago: one that
    asks for a single job waits until one slot is free, however many jobs another has queued. `most_of_one` is how many
    of this process' slots one workspace may fill. Within a workspace the oldest is first; of jobs with the same key
    only the oldest is due, so that they run one after another.
    """
    moment = store.now(tx)
    turns = _turns(tx, kind, owner, moment, holding)
    next_turn = max(_micros(tx), *(turn.served_at + 1 for turn in turns), 0)
    claims: list[Claim] = []
    served: dict[str, int] = {}
    while turns and len(claims) < limit:
        turn = min(turns, key=lambda turn: (turn.running, turn.served_at, turn.due_at, turn.workspace))
        full = most_of_one is not None and turn.here >= most_of_one
        job_id = None if full else _next(tx, kind, turn.workspace, moment, holding)
        if job_id is None:
            turns.remove(turn)
            continue
        claims.append(_lease(tx, job_id, owner, moment, lease_millis))
        turn.running += 1
        turn.here += 1
        turn.served_at = served[turn.workspace] = next_turn
        next_turn += 1
    # In one order everywhere, so that replicas never wait for each other in a circle.
    for workspace in sorted(served):
        _serve(tx, kind, workspace, served[workspace])
    return claims


def trim(tx: Tx, before_millis: int) -> None:
    """Forget turns so old that nobody can be told from one who never had any."""
    tx.execute("DELETE FROM job_turn WHERE served_at < :before", {"before": before_millis * 1000})


def _turns(tx: Tx, kind: str, owner: str, moment: int, holding: Collection[str]) -> list[_Turn]:
    """The workspaces with a due job of this kind, how many they run everywhere, and when they were last served."""
    found = {
        str(row["workspace"]): _Turn(str(row["workspace"]), int(row["due_at"]))
        for row in tx.all(WAITING, {"kind": kind})
        if row["due_at"] is not None and row["due_at"] <= moment
    }
    running = tx.all(
        f"SELECT id, {_WORKSPACE} AS workspace, lease_owner, lease_until, run_at FROM job "
        "WHERE kind = :kind AND state = 'running'",
        {"kind": kind},
    )
    lost = [row for row in running if row["lease_until"] < moment and row["id"] not in holding]
    for row in lost:
        found.setdefault(str(row["workspace"]), _Turn(str(row["workspace"]), int(row["run_at"])))
    for row in running:
        if row not in lost and (turn := found.get(str(row["workspace"]))) is not None:
            turn.running += 1
            turn.here += row["lease_owner"] == owner
    for row in tx.all("SELECT workspace, served_at FROM job_turn WHERE kind = :kind", {"kind": kind}):
        if (turn := found.get(str(row["workspace"]))) is not None:
            turn.served_at = int(row["served_at"])
    return list(found.values())


def _next(tx: Tx, kind: str, workspace: str, moment: int, holding: Collection[str]) -> str | None:
    """The job that a workspace starts next: one whose process died, else the oldest that is due."""
    others, params = _others(holding)
    params |= {"kind": kind, "workspace": workspace, "now": moment}
    suffix = " FOR UPDATE SKIP LOCKED" if tx.dialect == "postgresql" else ""
    # One after the other: a condition for both at once would sort all that waits.
    for due in (_NEXT_LOST, NEXT_QUEUED):
        row = tx.one(f"{due}{others} ORDER BY run_at, id LIMIT 1{suffix}", params)
        if row is not None:
            return str(row["id"])
    return None


def _serve(tx: Tx, kind: str, workspace: str, served_at: int) -> None:
    tx.execute(
        "INSERT INTO job_turn (kind, workspace, served_at) VALUES (:kind, :workspace, :served_at) "
        "ON CONFLICT (kind, workspace) DO UPDATE SET served_at = excluded.served_at",
        {"kind": kind, "workspace": workspace, "served_at": served_at},
    )


def _micros(tx: Tx) -> int:
    """The store's time, finer than jobs come."""
    if tx.dialect == "sqlite":
        return time.time_ns() // 1_000
    row = tx.one("SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint AS micros")
    return int(row["micros"]) if row else 0


def _lease(tx: Tx, job_id: str, owner: str, moment: int, lease_millis: int) -> Claim:
    row = tx.one(
        "UPDATE job SET state = 'running', attempts = attempts + 1, claims = claims + 1, lease_owner = :owner, "
        f"lease_until = :until, updated_at = :now WHERE id = :id RETURNING claims, cancel_requested, {store.COLUMNS}",
        {"id": job_id, "owner": owner, "until": moment + lease_millis, "now": moment},
    )
    assert row is not None
    steps = tx.all("SELECT name, result FROM job_step WHERE job_id = :id", {"id": job_id})
    finished = {str(step["name"]): json.loads(step["result"]) for step in steps}
    return Claim(store.job(row), Fence(job_id, owner, int(row["claims"])), finished, bool(row["cancel_requested"]))


def _others(holding: Collection[str]) -> tuple[str, dict[str, Any]]:
    """The condition that leaves out jobs that this process runs itself, though their leases may have run out."""
    names = {f"held_{index}": job_id for index, job_id in enumerate(holding)}
    clause = f" AND id NOT IN ({', '.join(':' + name for name in names)})" if names else ""
    return clause, dict(names)
