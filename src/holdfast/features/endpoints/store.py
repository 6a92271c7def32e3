"""Owns the SQL of endpoints."""

import json
from dataclasses import asdict

from holdfast.features.endpoints.model import Endpoint, EndpointUpstream
from holdfast.storage.database import Row, Tx

_COLUMNS = "project_id, name, upstreams, disabled_tools, created_at, updated_at"


def endpoint(row: Row) -> Endpoint:
    """An endpoint from its row."""
    return Endpoint(
        project_id=row["project_id"],
        name=row["name"],
        upstreams=tuple(EndpointUpstream(**spec) for spec in json.loads(row["upstreams"])),
        disabled_tools=frozenset(json.loads(row["disabled_tools"])),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def all_in(tx: Tx, project_id: str) -> list[Endpoint]:
    """The project's endpoints by name."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM endpoint WHERE project_id = :id ORDER BY name", {"id": project_id})
    return [endpoint(row) for row in rows]


def every(tx: Tx) -> list[Endpoint]:
    """The endpoints of every project."""
    return [endpoint(row) for row in tx.all(f"SELECT {_COLUMNS} FROM endpoint ORDER BY project_id, name")]


def find(tx: Tx, project_id: str, name: str) -> Endpoint | None:
    """The project's endpoint of this name."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM endpoint WHERE project_id = :project_id AND name = :name",
        {"project_id": project_id, "name": name},
    )
    return endpoint(row) if row else None


def changed_at(tx: Tx, project_id: str, name: str) -> int | None:
    """When the endpoint was last changed; None when there is no row."""
    row = tx.one(
        "SELECT updated_at FROM endpoint WHERE project_id = :project_id AND name = :name",
        {"project_id": project_id, "name": name},
    )
    return None if row is None else int(row["updated_at"])


def put(tx: Tx, new: Endpoint) -> None:
    """Keep an endpoint in place of an earlier one of the same name."""
    tx.execute(
        f"INSERT INTO endpoint ({_COLUMNS}) "
        "VALUES (:project_id, :name, :upstreams, :disabled_tools, :created_at, :updated_at) "
        "ON CONFLICT (project_id, name) DO UPDATE SET upstreams = excluded.upstreams, "
        "disabled_tools = excluded.disabled_tools, updated_at = excluded.updated_at",
        {
            "project_id": new.project_id,
            "name": new.name,
            "upstreams": json.dumps([asdict(spec) for spec in new.upstreams]),
            "disabled_tools": json.dumps(sorted(new.disabled_tools)),
            "created_at": new.created_at,
            "updated_at": new.updated_at,
        },
    )


def delete(tx: Tx, project_id: str, name: str) -> bool:
    """Remove an endpoint; whether there was one."""
    return bool(
        tx.execute(
            "DELETE FROM endpoint WHERE project_id = :project_id AND name = :name",
            {"project_id": project_id, "name": name},
        )
    )
