"""Owns the SQL of repositories themselves and of the log of their syncs."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.features.repositories.model import Repository, Sync, SyncStatus
from holdfast.storage.database import Row, Tx

_NAMES = (
    "id",
    "organization_id",
    "workspace_id",
    "slug",
    "name",
    "location",
    "is_local",
    "host",
    "full_name",
    "key_from",
    "webhook_secret",
    "branch",
    "head",
    "state",
    "reason",
    "job_id",
    "ingested",
    "last_synced_at",
    "synthesis_status",
    "synthesis_progress",
    "synthesised_at",
    "synthesised_head",
    "keystone_files",
    "commits",
    "files",
    "items",
    "entries",
    "created_by",
    "created_by_name",
    "created_at",
    "updated_at",
)
_SELECT = (
    f"SELECT {', '.join(f'r.{name}' for name in _NAMES)}, w.project_id "
    "FROM repository r JOIN workspace w ON w.id = r.workspace_id"
)
_SYNC_NAMES = (
    "id",
    "repository_id",
    "job_id",
    "status",
    "started_at",
    "finished_at",
    "commits_added",
    "commits_removed",
    "files_changed",
    "files_removed",
    "items_changed",
    "error",
)


def _repository(row: Row) -> Repository:
    values = {name: row[name] for name in _NAMES}
    flags = {"is_local": bool(row["is_local"]), "ingested": bool(row["ingested"])}
    return Repository(**{**values, **flags, "project_id": row["project_id"]})


def insert(tx: Tx, new: Repository) -> bool:
    """Add a repository; False when its slug is taken."""
    values = {name: getattr(new, name) for name in _NAMES}
    values |= {"is_local": int(new.is_local), "ingested": int(new.ingested)}
    added = tx.execute(
        f"INSERT INTO repository ({', '.join(_NAMES)}) VALUES ({', '.join(f':{name}' for name in _NAMES)}) "
        "ON CONFLICT (organization_id, slug) DO NOTHING",
        values,
    )
    return bool(added)


def find(tx: Tx, organization_id: str, slug: str) -> Repository | None:
    """The organization's repository of that slug."""
    row = tx.one(f"{_SELECT} WHERE r.organization_id = :o AND r.slug = :slug", {"o": organization_id, "slug": slug})
    return _repository(row) if row else None


def by_id(tx: Tx, repository_id: str) -> Repository | None:
    """A repository by its id, for jobs and webhooks."""
    row = tx.one(f"{_SELECT} WHERE r.id = :id", {"id": repository_id})
    return _repository(row) if row else None


def find_in(tx: Tx, workspace_id: str, slug: str) -> Repository | None:
    """The workspace's repository of that slug."""
    row = tx.one(
        f"{_SELECT} WHERE r.workspace_id = :workspace AND r.slug = :slug", {"workspace": workspace_id, "slug": slug}
    )
    return _repository(row) if row else None


def page(
    tx: Tx, organization_id: str, *, workspace_id: str | None = None, after: str = "", limit: int = 50
) -> list[Repository]:
    """An organization's or a workspace's repositories by slug."""
    within = "" if workspace_id is None else " AND r.workspace_id = :workspace"
    rows = tx.all(
        f"{_SELECT} WHERE r.organization_id = :o AND r.slug > :after{within} ORDER BY r.slug LIMIT :limit",
        {"o": organization_id, "workspace": workspace_id, "after": after, "limit": limit}
        if workspace_id is not None
        else {"o": organization_id, "after": after, "limit": limit},
    )
    return [_repository(row) for row in rows]


def of_workspace(tx: Tx, workspace_id: str, limit: int = 200) -> list[Repository]:
    """A workspace's repositories, the last synced first."""
    rows = tx.all(
        f"{_SELECT} WHERE r.workspace_id = :workspace ORDER BY COALESCE(r.last_synced_at, 0) DESC, r.slug LIMIT :limit",
        {"workspace": workspace_id, "limit": limit},
    )
    return [_repository(row) for row in rows]


def with_keys(tx: Tx) -> list[Repository]:
    """The repositories of every workspace that are read with a secret."""
    return [_repository(row) for row in tx.all(f"{_SELECT} WHERE r.key_from IS NOT NULL ORDER BY r.id")]


def stale(tx: Tx, synced_before: int, limit: int) -> list[Repository]:
    """Remote repositories that nobody is syncing and that were synced (or tried) last before a moment."""
    rows = tx.all(
        f"{_SELECT} WHERE r.is_local = 0 AND r.state IN ('ready', 'failed') "
        "AND COALESCE(r.last_synced_at, 0) < :moment AND r.updated_at < :moment ORDER BY r.updated_at LIMIT :limit",
        {"moment": synced_before, "limit": limit},
    )
    return [_repository(row) for row in rows]


def at(tx: Tx, workspace_id: str, locations: Sequence[str], branch: str) -> str | None:
    """The slug under which a workspace remembers a place that may be written in several ways."""
    names = {f"place{number}": location for number, location in enumerate(locations)}
    row = tx.one(
        "SELECT slug FROM repository WHERE workspace_id = :workspace AND branch = :branch "
        f"AND location IN ({', '.join(f':{name}' for name in names)}) ORDER BY created_at LIMIT 1",
        {"workspace": workspace_id, "branch": branch, **names},
    )
    return None if row is None else str(row["slug"])


def ids(tx: Tx) -> set[str]:
    """Every repository there is."""
    return {str(row["id"]) for row in tx.all("SELECT id FROM repository")}


def slugs(tx: Tx, organization_id: str) -> set[str]:
    """Every slug that the organization has given."""
    rows = tx.all("SELECT slug FROM repository WHERE organization_id = :o", {"o": organization_id})
    return {str(row["slug"]) for row in rows}


def update(tx: Tx, repository_id: str, now: int, values: Mapping[str, Any]) -> bool:
    """Set some columns; False when it is gone."""
    unknown = values.keys() - set(_NAMES)
    if unknown:
        raise ValueError(f"no such columns: {sorted(unknown)}")
    changes = ", ".join(f"{name} = :{name}" for name in values)
    return bool(
        tx.execute(
            f"UPDATE repository SET {changes}, updated_at = :now WHERE id = :repository",
            {**values, "now": now, "repository": repository_id},
        )
    )


def hold(tx: Tx, repository_id: str) -> Repository | None:
    """The repository, kept from being removed until this transaction ends; None when it is gone."""
    tx.execute("UPDATE repository SET updated_at = updated_at WHERE id = :id", {"id": repository_id})
    return by_id(tx, repository_id)


def delete(tx: Tx, repository_id: str) -> bool:
    """Remove it with everything that is kept of it."""
    return bool(tx.execute("DELETE FROM repository WHERE id = :id", {"id": repository_id}))


# Syncs


def insert_sync(tx: Tx, new: Sync) -> None:
    """Log that a sync began; a job that is tried again goes on with the entry it has."""
    tx.execute(
        "INSERT INTO repository_sync (id, repository_id, job_id, cause, status, started_at) "
        "VALUES (:id, :repository, :job, :cause, :status, :started_at) ON CONFLICT (id) DO UPDATE SET status = :status",
        {
            "id": new.id,
            "repository": new.repository_id,
            "job": new.job_id,
            "cause": new.trigger,
            "status": new.status,
            "started_at": new.started_at,
        },
    )


def count_sync(
    tx: Tx,
    sync_id: str,
    *,
    commits_added: int = 0,
    commits_removed: int = 0,
    files_changed: int = 0,
    files_removed: int = 0,
    items_changed: int = 0,
) -> None:
    """Add to what a sync did."""
    tx.execute(
        "UPDATE repository_sync SET commits_added = commits_added + :commits_added, "
        "commits_removed = commits_removed + :commits_removed, files_changed = files_changed + :files_changed, "
        "files_removed = files_removed + :files_removed, items_changed = items_changed + :items_changed WHERE id = :id",
        {
            "id": sync_id,
            "commits_added": commits_added,
            "commits_removed": commits_removed,
            "files_changed": files_changed,
            "files_removed": files_removed,
            "items_changed": items_changed,
        },
    )


def end_sync(tx: Tx, sync_id: str, status: SyncStatus, now: int, error: str | None = None) -> None:
    """Log how a sync ended."""
    tx.execute(
        "UPDATE repository_sync SET status = :status, finished_at = :now, error = :error WHERE id = :id",
        {"id": sync_id, "status": status, "now": now, "error": error},
    )


def left_unfinished(tx: Tx, repository_id: str) -> bool:
    """Whether a sync after the last completed one changed something and did not come to its end."""
    row = tx.one(
        "SELECT 1 AS found FROM repository_sync s WHERE s.repository_id = :repository AND s.status <> 'COMPLETED' "
        "AND s.commits_added + s.commits_removed + s.files_changed + s.files_removed > 0 "
        "AND NOT EXISTS (SELECT 1 FROM repository_sync later WHERE later.repository_id = s.repository_id "
        "AND later.status = 'COMPLETED' AND (later.started_at, later.id) > (s.started_at, s.id)) LIMIT 1",
        {"repository": repository_id},
    )
    return row is not None


def syncs(tx: Tx, repository_id: str, *, before: tuple[int, str] | None = None, limit: int = 50) -> Sequence[Sync]:
    """The log, newest first."""
    older = "" if before is None else " AND (started_at, id) < (:moment, :last)"
    params: dict[str, Any] = {"repository": repository_id, "limit": limit}
    if before is not None:
        params |= {"moment": before[0], "last": before[1]}
    rows = tx.all(
        f"SELECT {', '.join(_SYNC_NAMES)}, cause FROM repository_sync WHERE repository_id = :repository{older} "
        "ORDER BY started_at DESC, id DESC LIMIT :limit",
        params,
    )
    return [_sync(row) for row in rows]


def find_sync(tx: Tx, sync_id: str) -> Sync | None:
    """One entry of the log."""
    row = tx.one(f"SELECT {', '.join(_SYNC_NAMES)}, cause FROM repository_sync WHERE id = :id", {"id": sync_id})
    return _sync(row) if row else None


def _sync(row: Row) -> Sync:
    return Sync(**{name: row[name] for name in _SYNC_NAMES}, trigger=row["cause"])
