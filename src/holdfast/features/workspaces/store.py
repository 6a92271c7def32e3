"""Owns the SQL of workspaces."""

from holdfast.features.workspaces.model import Workspace
from holdfast.storage.database import Row, Tx

_COLUMNS = "id, project_id, organization_id, slug, name, created_at"


def workspace(row: Row) -> Workspace:
    """A workspace from its row."""
    return Workspace(
        id=row["id"],
        project_id=row["project_id"],
        organization_id=row["organization_id"],
        slug=row["slug"],
        name=row["name"],
        created_at=row["created_at"],
    )


def find(tx: Tx, organization_id: str, workspace_id: str) -> Workspace | None:
    """The organization's workspace of this id."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM workspace WHERE id = :id AND organization_id = :organization_id",
        {"id": workspace_id, "organization_id": organization_id},
    )
    return workspace(row) if row else None


def by_id(tx: Tx, workspace_id: str) -> Workspace | None:
    """A workspace, whoever asks: for work that nobody's request is behind."""
    row = tx.one(f"SELECT {_COLUMNS} FROM workspace WHERE id = :id", {"id": workspace_id})
    return None if row is None else workspace(row)


def called(tx: Tx, organization_id: str, slug: str) -> list[Workspace]:
    """The organization's workspaces of this slug, of which each project may have one, oldest first."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM workspace WHERE organization_id = :organization_id AND slug = :slug ORDER BY id",
        {"organization_id": organization_id, "slug": slug},
    )
    return [workspace(row) for row in rows]


def page(tx: Tx, organization_id: str, project_id: str | None, after: str, limit: int) -> list[Workspace]:
    """Up to `limit` workspaces in the order they were made, after an id."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM workspace WHERE organization_id = :organization_id AND id > :after "
        "AND (CAST(:project_id AS TEXT) IS NULL OR project_id = :project_id) ORDER BY id LIMIT :limit",
        {"organization_id": organization_id, "project_id": project_id, "after": after, "limit": limit},
    )
    return [workspace(row) for row in rows]


def slugs(tx: Tx, project_id: str) -> set[str]:
    """Every slug taken in the project."""
    return {row["slug"] for row in tx.all("SELECT slug FROM workspace WHERE project_id = :id", {"id": project_id})}


def insert(tx: Tx, new: Workspace) -> None:
    """Keep a new workspace."""
    tx.execute(
        f"INSERT INTO workspace ({_COLUMNS}) VALUES (:id, :project_id, :organization_id, :slug, :name, :created_at)",
        {
            "id": new.id,
            "project_id": new.project_id,
            "organization_id": new.organization_id,
            "slug": new.slug,
            "name": new.name,
            "created_at": new.created_at,
        },
    )


def rename(tx: Tx, workspace_id: str, name: str) -> None:
    """Give the workspace another name; its slug stays, links use it."""
    tx.execute("UPDATE workspace SET name = :name WHERE id = :id", {"name": name, "id": workspace_id})


def delete(tx: Tx, workspace_id: str) -> None:
    """Remove the workspace and, by cascade, everything in it."""
    tx.execute("DELETE FROM workspace WHERE id = :id", {"id": workspace_id})


def admins(tx: Tx, workspace_id: str) -> list[str]:
    """The people who administer this workspace beside the organization's admins."""
    rows = tx.all("SELECT user_id FROM workspace_admin WHERE workspace_id = :id ORDER BY user_id", {"id": workspace_id})
    return [row["user_id"] for row in rows]


def administered(tx: Tx, organization_id: str, user_id: str) -> frozenset[str]:
    """The workspaces of an organization that a person administers by themselves."""
    rows = tx.all(
        "SELECT workspace.id FROM workspace_admin JOIN workspace ON workspace.id = workspace_admin.workspace_id "
        "WHERE workspace.organization_id = :organization_id AND workspace_admin.user_id = :user_id",
        {"organization_id": organization_id, "user_id": user_id},
    )
    return frozenset(str(row["id"]) for row in rows)


def add_admin(tx: Tx, workspace_id: str, user_id: str) -> None:
    """Let a person administer the workspace; twice is once."""
    tx.execute(
        "INSERT INTO workspace_admin (workspace_id, user_id) VALUES (:workspace_id, :user_id) ON CONFLICT DO NOTHING",
        {"workspace_id": workspace_id, "user_id": user_id},
    )


def remove_admin(tx: Tx, workspace_id: str, user_id: str) -> None:
    """Take that away again."""
    tx.execute(
        "DELETE FROM workspace_admin WHERE workspace_id = :workspace_id AND user_id = :user_id",
        {"workspace_id": workspace_id, "user_id": user_id},
    )


def ids_behind(tx: Tx, organization_id: str, project_id: str | None, names: frozenset[str]) -> dict[str, str]:
    """The ids of the organization's workspaces, and of the project's where one is named, by their ids or slugs."""
    known: dict[str, str] = {}
    for name in sorted(names):
        by_id = find(tx, organization_id, name)
        rows = called(tx, organization_id, name) if by_id is None else [by_id]
        own = [row.id for row in rows if project_id in (None, row.project_id)]
        # A slug that several projects have names none of them.
        known |= {name: own[0]} if len(own) == 1 else {}
    return known


def ids_of_project(tx: Tx, organization_id: str, project_id: str) -> list[str]:
    """The workspaces of a project, oldest first."""
    return [found.id for found in page(tx, organization_id, project_id, "", 1000)]
