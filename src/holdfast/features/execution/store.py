"""Owns the SQL of invocations: what was asked for, what was asked for already, and how each moves on."""

import json
from collections.abc import Mapping
from typing import Any

from holdfast.core.principal import principal_from, principal_text
from holdfast.features.execution.approvals import store as approval_store
from holdfast.features.execution.model import Approval, CallProgress, ExecutionSetting, Invocation, Status
from holdfast.storage.database import Row, Tx

_COLUMNS = (
    "id, workspace_id, server_id, tool_name, tool_digest, arguments, arguments_digest, status, requested_by, "
    "requested_name, principal, source, session_id, chat_id, once_key, job_id, granted_via, sent_at, done, total, "
    "message, result, error, created_at, started_at, ended_at"
)
_INSERTED = (
    "id, workspace_id, server_id, tool_name, tool_digest, arguments, arguments_digest, status, requested_by, "
    "requested_name, principal, source, session_id, chat_id, once_key, job_id, granted_via, sent_at, error, "
    "created_at, started_at, ended_at"
)
_UNFINISHED = "('queued', 'awaiting_approval', 'running')"


def insert(tx: Tx, new: Invocation) -> None:
    """Keep a new invocation."""
    names = [name.strip() for name in _INSERTED.split(",")]
    values = {name: getattr(new, name) for name in names}
    values |= {
        "arguments": json.dumps(dict(new.arguments)),
        "principal": principal_text(new.principal),
        "error": None if new.error is None else json.dumps(dict(new.error)),
    }
    tx.execute(f"INSERT INTO invocation ({_INSERTED}) VALUES ({', '.join(':' + name for name in names)})", values)


def find(tx: Tx, id: str) -> Invocation | None:
    """An invocation, whoever's it is, with the question to a person that belongs to it."""
    row = tx.one(f"SELECT {_COLUMNS} FROM invocation WHERE id = :id", {"id": id})
    return None if row is None else _invocation(row, approval_store.of_invocation(tx, row["id"]))


def unfinished(tx: Tx, id: str) -> Invocation | None:
    """The same, unless it has ended."""
    row = tx.one(f"SELECT {_COLUMNS} FROM invocation WHERE id = :id AND status IN {_UNFINISHED}", {"id": id})
    return None if row is None else _invocation(row, approval_store.of_invocation(tx, row["id"]))


def page(
    tx: Tx,
    workspace_id: str,
    *,
    status: Status | None,
    tool_name: str | None,
    requested_by: str | None,
    before: str | None,
    limit: int,
) -> list[Invocation]:
    """A workspace's newest invocations, older than the id `before`."""
    clauses, params = ["workspace_id = :workspace_id"], {"workspace_id": workspace_id, "limit": limit}
    wanted: Mapping[str, tuple[str, Any]] = {
        "status": ("status = :status", status),
        "tool_name": ("tool_name = :tool_name", tool_name),
        "requested_by": ("requested_by = :requested_by", requested_by),
        "before": ("id < :before", before),
    }
    for name, (clause, value) in wanted.items():
        if value is not None:
            clauses.append(clause)
            params[name] = value
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM invocation WHERE {' AND '.join(clauses)} ORDER BY id DESC LIMIT :limit", params
    )
    asked = approval_store.of_invocations(tx, [row["id"] for row in rows])
    return [_invocation(row, asked.get(row["id"])) for row in rows]


def callers(tx: Tx, workspace_id: str, limit: int) -> dict[str, str]:
    """Who asked for the workspace's newest invocations, by id, and what they are called."""
    rows = tx.all(
        "SELECT requested_by, requested_name FROM invocation WHERE workspace_id = :workspace_id ORDER BY id DESC "
        "LIMIT :limit",
        {"workspace_id": workspace_id, "limit": limit},
    )
    return {row["requested_by"]: row["requested_name"] for row in rows}


def last_approved(tx: Tx, like: Invocation) -> Invocation | None:
    """The last call of the same tool by the same asker before this one that a person let run."""
    row = tx.one(
        f"SELECT {', '.join('invocation.' + name.strip() for name in _COLUMNS.split(','))} FROM invocation "
        "JOIN approval ON approval.invocation_id = invocation.id WHERE invocation.workspace_id = :workspace_id "
        "AND invocation.tool_name = :tool_name AND invocation.requested_by = :requested_by "
        "AND invocation.id < :before AND approval.state = 'approved' ORDER BY invocation.id DESC LIMIT 1",
        {
            "workspace_id": like.workspace_id,
            "tool_name": like.tool_name,
            "requested_by": like.requested_by,
            "before": like.id,
        },
    )
    return None if row is None else _invocation(row, approval_store.of_invocation(tx, row["id"]))


def claim_once(tx: Tx, key: str, invocation_id: str, now: int, since: int) -> str | None:
    """Take a key for a new invocation; the id of the one that has it already, if that is young enough."""
    params = {"key": key, "id": invocation_id, "now": now}
    while True:
        made = tx.execute(
            "INSERT INTO invocation_once (once_key, invocation_id, created_at) VALUES (:key, :id, :now) "
            "ON CONFLICT DO NOTHING",
            params,
        )
        if made:
            return None
        row = tx.one("SELECT invocation_id, created_at FROM invocation_once WHERE once_key = :key", {"key": key})
        if row is None:
            continue
        if row["created_at"] > since:
            return str(row["invocation_id"])
        if take_once(tx, key, str(row["invocation_id"]), invocation_id, now):
            return None


def take_once(tx: Tx, key: str, old: str, new: str, now: int) -> bool:
    """Give a key that an invocation had to another; False where somebody else did meanwhile."""
    return (
        tx.execute(
            "UPDATE invocation_once SET invocation_id = :new, created_at = :now "
            "WHERE once_key = :key AND invocation_id = :old",
            {"key": key, "old": old, "new": new, "now": now},
        )
        == 1
    )


def release_once(tx: Tx, key: str, invocation_id: str) -> None:
    """Let the next equal request be a new one: of this one nothing ever reached the tool."""
    tx.execute(
        "DELETE FROM invocation_once WHERE once_key = :key AND invocation_id = :id", {"key": key, "id": invocation_id}
    )


def trim_once(tx: Tx, before: int) -> None:
    """Forget keys that are too old to matter."""
    tx.execute("DELETE FROM invocation_once WHERE created_at <= :before", {"before": before})


def queue(tx: Tx, id: str, job_id: str, granted_via: str | None) -> bool:
    """Let an invocation that waited for a person run; False where it no longer waits."""
    return (
        tx.execute(
            "UPDATE invocation SET status = 'queued', job_id = :job_id, granted_via = :granted_via "
            "WHERE id = :id AND status = 'awaiting_approval'",
            {"id": id, "job_id": job_id, "granted_via": granted_via},
        )
        == 1
    )


def send(tx: Tx, id: str, now: int) -> bool:
    """Note that bytes go to the tool from now on; False where it is not to run any more."""
    return (
        tx.execute(
            "UPDATE invocation SET status = 'running', started_at = COALESCE(started_at, :now), sent_at = :now "
            "WHERE id = :id AND status IN ('queued', 'running')",
            {"id": id, "now": now},
        )
        == 1
    )


def tell_progress(tx: Tx, id: str, progress: CallProgress) -> bool:
    """Keep how far a running call is."""
    params = {"id": id, "done": progress.done, "total": progress.total, "message": progress.message}
    sql = "UPDATE invocation SET done = :done, total = :total, message = :message WHERE id = :id AND status = 'running'"
    return tx.execute(sql, params) == 1


def end(
    tx: Tx,
    id: str,
    status: Status,
    now: int,
    *,
    result: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
    only: Status | None = None,
) -> Invocation | None:
    """End an invocation that has not ended; None where it has, or is not in the one state that was meant."""
    among = f"= '{only}'" if only is not None else f"IN {_UNFINISHED}"
    row = tx.one(
        f"UPDATE invocation SET status = :status, ended_at = :now, result = :result, error = :error "
        f"WHERE id = :id AND status {among} RETURNING {_COLUMNS}",
        {
            "id": id,
            "status": status,
            "now": now,
            "result": None if result is None else json.dumps(dict(result)),
            "error": None if error is None else json.dumps(dict(error)),
        },
    )
    return None if row is None else _invocation(row, approval_store.of_invocation(tx, row["id"]))


def setting(tx: Tx, workspace_id: str) -> ExecutionSetting:
    """What a workspace's admins switched on."""
    row = tx.one(
        "SELECT log_arguments, sampling_approvals, webhook_url, webhook_secret FROM execution_setting "
        "WHERE workspace_id = :id",
        {"id": workspace_id},
    )
    if row is None:
        return ExecutionSetting()
    return ExecutionSetting(
        bool(row["log_arguments"]), bool(row["sampling_approvals"]), row["webhook_url"], row["webhook_secret"]
    )


def put_setting(tx: Tx, workspace_id: str, new: ExecutionSetting, now: int) -> None:
    """Keep what a workspace's admins switched on."""
    tx.execute(
        "INSERT INTO execution_setting (workspace_id, log_arguments, sampling_approvals, webhook_url, webhook_secret, "
        "updated_at) VALUES (:id, :log_arguments, :sampling_approvals, :webhook_url, :webhook_secret, :now) "
        "ON CONFLICT (workspace_id) DO UPDATE SET log_arguments = excluded.log_arguments, "
        "sampling_approvals = excluded.sampling_approvals, webhook_url = excluded.webhook_url, "
        "webhook_secret = excluded.webhook_secret, updated_at = excluded.updated_at",
        {
            "id": workspace_id,
            "log_arguments": int(new.log_arguments),
            "sampling_approvals": int(new.sampling_approvals),
            "webhook_url": new.webhook_url,
            "webhook_secret": new.webhook_secret,
            "now": now,
        },
    )


def _invocation(row: Row, approval: Approval | None) -> Invocation:
    moved = row["done"] or row["total"] is not None or row["message"]
    return Invocation(
        id=row["id"],
        workspace_id=row["workspace_id"],
        server_id=row["server_id"],
        tool_name=row["tool_name"],
        tool_digest=row["tool_digest"],
        arguments=json.loads(row["arguments"]),
        arguments_digest=row["arguments_digest"],
        status=row["status"],
        requested_by=row["requested_by"],
        requested_name=row["requested_name"],
        principal=principal_from(row["principal"]),
        source=row["source"],
        session_id=row["session_id"],
        chat_id=row["chat_id"],
        once_key=row["once_key"],
        job_id=row["job_id"],
        granted_via=row["granted_via"],
        sent_at=row["sent_at"],
        progress=CallProgress(row["done"], row["total"], row["message"]) if moved else None,
        result=None if row["result"] is None else json.loads(row["result"]),
        error=None if row["error"] is None else json.loads(row["error"]),
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        approval=approval,
    )
