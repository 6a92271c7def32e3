"""Owns the SQL of approvals: each is decided once, whoever comes first."""

from collections.abc import Sequence

from holdfast.features.execution.model import Approval, ApprovalState, Via
from holdfast.storage.database import Row, Tx

_COLUMNS = (
    "id, invocation_id, workspace_id, token, digest, state, created_at, expires_at, decided_at, decided_by, via, note"
)


def insert(tx: Tx, new: Approval) -> None:
    """Keep a question to a person."""
    names = [name.strip() for name in _COLUMNS.split(",")]
    values = {name: getattr(new, name) for name in names}
    tx.execute(f"INSERT INTO approval ({_COLUMNS}) VALUES ({', '.join(':' + name for name in names)})", values)


def of_invocation(tx: Tx, invocation_id: str) -> Approval | None:
    """The question that an invocation waits or waited for."""
    row = tx.one(f"SELECT {_COLUMNS} FROM approval WHERE invocation_id = :id", {"id": invocation_id})
    return approval(row) if row else None


def of_invocations(tx: Tx, invocation_ids: Sequence[str]) -> dict[str, Approval]:
    """The questions that these invocations wait or waited for, by invocation."""
    params = {f"in_{place}": id for place, id in enumerate(invocation_ids)}
    within = ", ".join(f":{name}" for name in params) or "NULL"
    rows = tx.all(f"SELECT {_COLUMNS} FROM approval WHERE invocation_id IN ({within})", params)
    return {row["invocation_id"]: approval(row) for row in rows}


def find(tx: Tx, id_or_token: str) -> Approval | None:
    """A question by its id, or by what stands in its link."""
    column = "id" if id_or_token.startswith("apr_") else "token"
    row = tx.one(f"SELECT {_COLUMNS} FROM approval WHERE {column} = :value", {"value": id_or_token})
    return approval(row) if row else None


def page(
    tx: Tx, workspace_ids: Sequence[str], *, state: ApprovalState | None, before: str | None, limit: int
) -> list[Approval]:
    """The newest questions of some workspaces, older than the id `before`."""
    params: dict[str, str] = {f"in_{place}": id for place, id in enumerate(workspace_ids)}
    within = ", ".join(f":{name}" for name in params) or "NULL"
    clauses = [f"workspace_id IN ({within})"]
    if state is not None:
        clauses.append("state = :state")
        params["state"] = state
    if before is not None:
        clauses.append("id < :before")
        params["before"] = before
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM approval WHERE {' AND '.join(clauses)} ORDER BY id DESC LIMIT :limit",
        {**params, "limit": limit},
    )
    return [approval(row) for row in rows]


def due(tx: Tx, now: int, limit: int = 200) -> list[Approval]:
    """Questions that nobody answered in time."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM approval WHERE state = 'pending' AND expires_at <= :now ORDER BY expires_at "
        "LIMIT :limit",
        {"now": now, "limit": limit},
    )
    return [approval(row) for row in rows]


def decide(
    tx: Tx, id: str, state: ApprovalState, now: int, *, by: str | None, via: Via | None, note: str | None = None
) -> bool:
    """Answer a question; False where it has been answered already."""
    return (
        tx.execute(
            "UPDATE approval SET state = :state, decided_at = :now, decided_by = :by, via = :via, note = :note "
            "WHERE id = :id AND state = 'pending'",
            {"id": id, "state": state, "now": now, "by": by, "via": via, "note": note},
        )
        == 1
    )


def approval(row: Row) -> Approval:
    """A question from its row."""
    return Approval(**{name: row[name] for name in Approval.__dataclass_fields__})
