"""Owns the audit tables: appending, sealing and reading events on both dialects."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast.features.audit.model import AuditEvent, AuditFilter
from holdfast.storage.database import Row, Tx

_SEALER_KEY = 0x61756474
_COLUMNS = (
    "number, id, organization_id, project_id, workspace_id, at, actor, actor_name, proof, action, "
    "resource, resource_id, outcome, times, detail, key_id, mac, sequence, previous_hash, hash"
)
_HEAD = "organization_id, sequence, hash, sealed_at, key_id, mac"
_EXACT = ("actor", "resource", "resource_id", "workspace_id", "outcome")


def insert(tx: Tx, values: Mapping[str, Any]) -> None:
    """Append an event."""
    tx.execute(
        "INSERT INTO audit_event (id, organization_id, project_id, workspace_id, at, actor, actor_name, proof, "
        "action, resource, resource_id, outcome, times, detail, key_id, mac) VALUES (:id, :organization_id, "
        ":project_id, :workspace_id, :at, :actor, :actor_name, :proof, :action, :resource, :resource_id, :outcome, "
        ":times, :detail, :key_id, :mac)",
        values,
    )


def become_sealer(tx: Tx, *, wait: bool = False) -> bool:
    """Whether this transaction may seal: SQLite has one writer anyway; PostgreSQL's replicas take turns."""
    if tx.dialect == "sqlite":
        return True
    if wait:
        tx.one("SELECT pg_advisory_xact_lock(:key)", {"key": _SEALER_KEY})
        return True
    row = tx.one("SELECT pg_try_advisory_xact_lock(:key) AS mine", {"key": _SEALER_KEY})
    return bool(row and row["mine"])


def unsealed(tx: Tx, limit: int, *, without: Collection[str] = ()) -> list[Row]:
    """The oldest events without a seal, except those of some organizations."""
    clause, params = _without(without)
    return tx.all(
        f"SELECT {_COLUMNS} FROM audit_event WHERE hash IS NULL{clause} ORDER BY number LIMIT :limit",
        params | {"limit": limit},
    )


def has_unsealed(tx: Tx, *, without: Collection[str] = ()) -> bool:
    """Whether an event waits for its seal."""
    clause, params = _without(without)
    return tx.one(f"SELECT 1 AS waiting FROM audit_event WHERE hash IS NULL{clause} LIMIT 1", params) is not None


def unsealed_after(tx: Tx, organization_id: str, number: int, limit: int) -> list[Row]:
    """An organization's events that wait for their seal, in order."""
    return tx.all(
        f"SELECT {_COLUMNS} FROM audit_event WHERE hash IS NULL AND organization_id = :organization_id "
        "AND number > :number ORDER BY number LIMIT :limit",
        {"organization_id": organization_id, "number": number, "limit": limit},
    )


def has_sealed(tx: Tx, organization_id: str) -> bool:
    """Whether an organization has events in a chain."""
    sql = "SELECT 1 AS there FROM audit_event WHERE organization_id = :id AND sequence IS NOT NULL LIMIT 1"
    return tx.one(sql, {"id": organization_id}) is not None


def last(tx: Tx, organization_id: str) -> Row | None:
    """The event at the highest place of a chain."""
    number = "AND typeof(sequence) = 'integer' " if tx.dialect == "sqlite" else ""
    return tx.one(
        f"SELECT sequence, hash FROM audit_event WHERE organization_id = :id AND sequence >= 1 {number}"
        "ORDER BY sequence DESC LIMIT 1",
        {"id": organization_id},
    )


def seal_at(tx: Tx, organization_id: str, sequence: int) -> str | None:
    """The seal at a place of a chain."""
    row = tx.one(
        "SELECT hash FROM audit_event WHERE organization_id = :organization_id AND sequence = :sequence",
        {"organization_id": organization_id, "sequence": sequence},
    )
    return None if row is None else str(row["hash"])


def stands(tx: Tx, organization_id: str, head: Row) -> bool:
    """Whether the chain ends where its head says."""
    end = last(tx, organization_id)
    return end is not None and (end["sequence"], end["hash"]) == (head["sequence"], head["hash"])


def strays(tx: Tx, organization_id: str, limit: int) -> list[Row]:
    """Events that neither wait for a seal nor stand in the chain."""
    odd = "OR typeof(sequence) NOT IN ('integer', 'null')" if tx.dialect == "sqlite" else ""
    return tx.all(
        f"SELECT id, sequence FROM audit_event WHERE organization_id = :organization_id AND (sequence < 1 {odd} "
        "OR (sequence IS NULL AND (hash IS NOT NULL OR previous_hash IS NOT NULL))) ORDER BY number LIMIT :limit",
        {"organization_id": organization_id, "limit": limit},
    )


def count_sealed(tx: Tx, organization_id: str, last: int) -> int:
    """How many events stand at the places from 1 to `last`."""
    row = tx.one(
        "SELECT COUNT(*) AS standing FROM audit_event WHERE organization_id = :organization_id "
        "AND sequence >= 1 AND sequence <= :last",
        {"organization_id": organization_id, "last": last},
    )
    return int(row["standing"]) if row else 0


def repeated(tx: Tx, organization_id: str, limit: int) -> list[Row]:
    """Ids that more than one event has."""
    return tx.all(
        "SELECT id, COUNT(*) AS times FROM audit_event WHERE organization_id = :organization_id "
        "GROUP BY id HAVING COUNT(*) > 1 ORDER BY id LIMIT :limit",
        {"organization_id": organization_id, "limit": limit},
    )


def head(tx: Tx, organization_id: str) -> Row | None:
    """The newest seal of a chain."""
    sql = f"SELECT {_HEAD} FROM audit_head WHERE organization_id = :organization_id"
    return tx.one(sql, {"organization_id": organization_id})


def heads(tx: Tx) -> list[Row]:
    """The newest seal of every chain."""
    return tx.all(f"SELECT {_HEAD} FROM audit_head ORDER BY organization_id")


def seal(tx: Tx, seals: Sequence[Mapping[str, Any]]) -> None:
    """Write seals onto events."""
    tx.many(
        "UPDATE audit_event SET sequence = :sequence, previous_hash = :previous_hash, hash = :hash "
        "WHERE number = :number",
        seals,
    )


def move_head(tx: Tx, row: Mapping[str, Any]) -> None:
    """Remember the newest seal of a chain."""
    tx.execute(
        f"INSERT INTO audit_head ({_HEAD}) VALUES (:organization_id, :sequence, :hash, :sealed_at, :key_id, :mac) "
        "ON CONFLICT (organization_id) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash, "
        "sealed_at = excluded.sealed_at, key_id = excluded.key_id, mac = excluded.mac",
        row,
    )


def sealed_after(tx: Tx, organization_id: str, sequence: int, limit: int) -> list[Row]:
    """The next events of a chain, in the order of their seals."""
    # SQLite lets anything into a column; what is no number is a stray.
    number = "AND typeof(sequence) = 'integer' " if tx.dialect == "sqlite" else ""
    return tx.all(
        f"SELECT {_COLUMNS} FROM audit_event WHERE organization_id = :organization_id AND sequence > :sequence "
        f"{number}ORDER BY sequence, number LIMIT :limit",
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
            clauses.append(_is(name))
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


def _without(organizations: Collection[str]) -> tuple[str, dict[str, Any]]:
    if not organizations:
        return "", {}
    names = {f"without_{index}": value for index, value in enumerate(sorted(organizations))}
    return f" AND organization_id NOT IN ({', '.join(':' + name for name in names)})", names


def _is(name: str) -> str:
    """What a column has to be; projects and workspaces are also known by their slugs, as long as they are there."""
    table = {"project_id": "project", "workspace_id": "workspace"}.get(name)
    if table is None:
        return f"{name} = :{name}"
    called = f"SELECT id FROM {table} WHERE organization_id = :organization_id AND slug = :{name}"
    return f"({name} = :{name} OR {name} IN ({called}))"
