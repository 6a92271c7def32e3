"""Owns the SQL of grants."""

import json
from collections.abc import Collection

from holdfast.features.execution.model import PermissionGrant
from holdfast.storage.database import Row, Tx

_COLUMNS = (
    "id, workspace_id, subject_type, subject_id, grant_type, details, scope, session_id, created_at, created_by, "
    "expires_at, used_at"
)
_HOLDS = "used_at IS NULL AND (expires_at IS NULL OR expires_at > :now)"


def insert(tx: Tx, new: PermissionGrant) -> None:
    """Keep a grant."""
    names = [name.strip() for name in _COLUMNS.split(",")]
    values = {name: getattr(new, name) for name in names} | {"details": json.dumps(dict(new.details))}
    tx.execute(f"INSERT INTO permission_grant ({_COLUMNS}) VALUES ({', '.join(':' + name for name in names)})", values)


def all_in(tx: Tx, workspace_id: str, now: int) -> list[PermissionGrant]:
    """A workspace's grants that hold, the newest first."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM permission_grant WHERE workspace_id = :id AND {_HOLDS} ORDER BY id DESC",
        {"id": workspace_id, "now": now},
    )
    return [_grant(row) for row in rows]


def page_in(tx: Tx, workspace_id: str, now: int, before: str | None, limit: int) -> list[PermissionGrant]:
    """The same before an id, some at a time."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM permission_grant WHERE workspace_id = :id AND {_HOLDS} "
        "AND (CAST(:before AS TEXT) IS NULL OR id < :before) ORDER BY id DESC LIMIT :limit",
        {"id": workspace_id, "now": now, "before": before, "limit": limit},
    )
    return [_grant(row) for row in rows]


def of_subjects(tx: Tx, workspace_id: str, subjects: Collection[str], now: int) -> list[PermissionGrant]:
    """Grants of a workspace that one of these holds."""
    names = {f"subject_{number}": subject for number, subject in enumerate(subjects)}
    if not names:
        return []
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM permission_grant WHERE workspace_id = :id AND {_HOLDS} "
        f"AND subject_id IN ({', '.join(':' + name for name in names)}) ORDER BY id",
        {"id": workspace_id, "now": now, **names},
    )
    return [_grant(row) for row in rows]


def find(tx: Tx, workspace_id: str, id: str) -> PermissionGrant | None:
    """One grant of a workspace."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM permission_grant WHERE workspace_id = :workspace_id AND id = :id",
        {"workspace_id": workspace_id, "id": id},
    )
    return _grant(row) if row else None


def spend(tx: Tx, id: str, now: int) -> bool:
    """Use up a grant; False where it was."""
    sql = "UPDATE permission_grant SET used_at = :now WHERE id = :id AND used_at IS NULL"
    return tx.execute(sql, {"id": id, "now": now}) == 1


def delete(tx: Tx, id: str) -> None:
    """Forget a grant."""
    tx.execute("DELETE FROM permission_grant WHERE id = :id", {"id": id})


def _grant(row: Row) -> PermissionGrant:
    values = {name: row[name] for name in PermissionGrant.__dataclass_fields__}
    return PermissionGrant(**values | {"details": json.loads(row["details"])})
