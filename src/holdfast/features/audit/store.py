"""Owns the audit tables: appending, sealing and reading events on both dialects."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.features.audit.model import AuditEvent, AuditFilter
from holdfast.storage.database import Row, Tx

_SEALER_KEY = 0x61756474
_COLUMNS = (
    "number, id, organization_id, project_id, workspace_id, at, actor, actor_name, proof, action, "
    "resource, resource_id, outcome, times, detail, sequence, previous_hash, hash"
)
_EXACT = ("actor", "resource", "resource_id", "workspace_id", "outcome")


def insert(tx: Tx, values: Mapping[str, Any]) -> None:
    """Append an event."""
    tx.execute(
        "INSERT INTO audit_event (id, organization_id, project_id, workspace_id, at, actor, actor_name, proof, "
        "action, resource, resource_id, outcome, times, detail) VALUES (:id, :organization_id, :project_id, "
        ":workspace_id, :at, :actor, :actor_name, :proof, :action, :resource, :resource_id, :outcome, :times, :detail)",
        values,
    )


def become_sealer(tx: Tx) -> bool:
    """Whether this transaction may seal: SQLite has one writer anyway; PostgreSQL's replicas take turns."""
    if tx.dialect == "sqlite":
        return True
    row = tx.one("SELECT pg_try_advisory_xact_lock(:key) AS mine", {"key": _SEALER_KEY})
    return bool(row and row["mine"])


def unsealed(tx: Tx, limit: int) -> list[Row]:
    """The oldest events without a seal."""
    return tx.all(
        f"SELECT {_COLUMNS} FROM audit_event WHERE hash IS NULL ORDER BY number LIMIT :limit", {"limit": limit}
    )


def has_unsealed(tx: Tx) -> bool:
    """Whether an event waits for its seal."""
    return tx.one("SELECT 1 AS waiting FROM audit_event WHERE hash IS NULL LIMIT 1") is not None


def count_unsealed(tx: Tx, organization_id: str) -> int:
    """How many of an organization's events wait for their seal."""
    sql = "SELECT COUNT(*) AS waiting FROM audit_event WHERE hash IS NULL AND organization_id = :organization_id"
    row = tx.one(sql, {"organization_id": organization_id})
    return int(row["waiting"]) if row else 0


def head(tx: Tx, organization_id: str) -> Row | None:
    """The newest seal of a chain."""
    sql = "SELECT sequence, hash FROM audit_head WHERE organization_id = :organization_id"
    return tx.one(sql, {"organization_id": organization_id})


def seal(tx: Tx, seals: Sequence[Mapping[str, Any]]) -> None:
    """Write seals onto events."""
    tx.many(
        "UPDATE audit_event SET sequence = :sequence, previous_hash = :previous_hash, hash = :hash "
        "WHERE number = :number",
        seals,
    )


def move_head(tx: Tx, organization_id: str, sequence: int, hash: str, now: int) -> None:
    """Remember the newest seal of a chain."""
    tx.execute(
        "INSERT INTO audit_head (organization_id, sequence, hash, sealed_at) "
        "VALUES (:organization_id, :sequence, :hash, :now) ON CONFLICT (organization_id) "
        "DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash, sealed_at = excluded.sealed_at",
        {"organization_id": organization_id, "sequence": sequence, "hash": hash, "now": now},
    )


def sealed_after(tx: Tx, organization_id: str, sequence: int, limit: int) -> list[Row]:
    """The next events of a chain, in the order of their seals."""
    return tx.all(
        f"SELECT {_COLUMNS} FROM audit_event WHERE organization_id = :organization_id AND sequence > :sequence "
        "ORDER BY sequence LIMIT :limit",
        {"organization_id": organization_id, "sequence": sequence, "limit": limit},
    )


def organizations(tx: Tx) -> list[str]:
    """Every organization that has a chain or an event."""
    sql = "SELECT organization_id FROM audit_head UNION SELECT DISTINCT organization_id FROM audit_event ORDER BY 1"
    return [str(row["organization_id"]) for row in tx.all(sql)]


def page(
    tx: Tx,
    organization_id: str,
    wanted: AuditFilter,
    *,
    project_id: str | None,
    workspace_ids: frozenset[str] | None,
    before: int | None,
    limit: int,
) -> list[AuditEvent]:
    """The newest events that match, older than the number `before`, within the caller's project and workspaces."""
    clauses = ["organization_id = :organization_id"]
    params: dict[str, Any] = {"organization_id": organization_id, "limit": limit}
    for name in _EXACT:
        if (value := getattr(wanted, name)) is not None:
            clauses.append(f"{name} = :{name}")
            params[name] = value
    if wanted.action is not None:
        clauses.append("(action = :action OR substr(action, 1, :below_length) = :below)")
        params |= {"action": wanted.action, "below": f"{wanted.action}.", "below_length": len(wanted.action) + 1}
    for clause, name, value in (
        ("at >= :since", "since", wanted.since),
        ("at < :until", "until", wanted.until),
        ("number < :before", "before", before),
    ):
        if value is not None:
            clauses.append(clause)
            params[name] = value
    if project_id is not None:
        # An event is a project's when its credential did it, or when it happened in one of its workspaces.
        clauses.append(
            "(project_id = :project_id OR workspace_id IN (SELECT id FROM workspace WHERE project_id = :project_id))"
        )
        params["project_id"] = project_id
    if workspace_ids is not None:
        names = {f"workspace_{index}": value for index, value in enumerate(sorted(workspace_ids))}
        clauses.append(f"workspace_id IN ({', '.join(':' + name for name in names) or 'NULL'})")
        params |= names
    sql = f"SELECT {_COLUMNS} FROM audit_event WHERE {' AND '.join(clauses)} ORDER BY number DESC LIMIT :limit"
    return [event(row) for row in tx.all(sql, params)]


def event(row: Row) -> AuditEvent:
    """The event in a row."""
    values = {name: row[name] for name in AuditEvent.__dataclass_fields__ if name != "detail"}
    return AuditEvent(**values, detail=json.loads(row["detail"]))
