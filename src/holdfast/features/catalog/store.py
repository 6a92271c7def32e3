"""Owns the SQL of the catalog: entries, and the pinned tools of each."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from holdfast.features.catalog.manifest import manifest_json, manifest_of
from holdfast.features.catalog.model import CatalogEntry, NewEntry, PackagePin, PinnedTool, ToolDescription
from holdfast.features.catalog.pins import description_from, description_json
from holdfast.storage.database import Row, Tx

_COLUMNS = (
    "id, workspace_id, name, spec, enabled, revision, install, installed, job_id, problem, server_info, protocol, "
    "probed_at, created_at, updated_at, updated_by"
)
_TOOL = (
    "mcp_tool.server_id, mcp_tool.name, mcp_tool.pinned, mcp_tool.digest, mcp_tool.state, mcp_tool.waiting, "
    "mcp_tool.is_new, mcp_tool.flags, mcp_tool.policy, mcp_tool.destructive, mcp_tool.idempotent, mcp_tool.scope, "
    "mcp_server.name AS server, mcp_server.spec AS spec"
)
_TOOLS = f"SELECT {_TOOL} FROM mcp_tool JOIN mcp_server ON mcp_server.id = mcp_tool.server_id"


def all_in(tx: Tx, workspace_id: str) -> list[CatalogEntry]:
    """The workspace's entries by name."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM mcp_server WHERE workspace_id = :id ORDER BY name", {"id": workspace_id})
    return [entry(row) for row in rows]


def page_in(tx: Tx, workspace_id: str, after: str, limit: int) -> list[CatalogEntry]:
    """The workspace's entries by name, after a name."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM mcp_server WHERE workspace_id = :id AND name > :after ORDER BY name LIMIT :limit",
        {"id": workspace_id, "after": after, "limit": limit},
    )
    return [entry(row) for row in rows]


def find(tx: Tx, workspace_id: str, name: str) -> CatalogEntry | None:
    """The workspace's entry of this name."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM mcp_server WHERE workspace_id = :id AND name = :name",
        {"id": workspace_id, "name": name},
    )
    return entry(row) if row else None


def by_id(tx: Tx, id: str) -> CatalogEntry | None:
    """An entry, whoever's it is."""
    row = tx.one(f"SELECT {_COLUMNS} FROM mcp_server WHERE id = :id", {"id": id})
    return entry(row) if row else None


def every(tx: Tx) -> list[CatalogEntry]:
    """The entries of every workspace."""
    return [entry(row) for row in tx.all(f"SELECT {_COLUMNS} FROM mcp_server ORDER BY id")]


def insert(tx: Tx, new: CatalogEntry) -> bool:
    """Keep a new entry; False where the workspace has one of the name."""
    names = [name.strip() for name in _COLUMNS.split(",")]
    sql = (
        f"INSERT INTO mcp_server ({_COLUMNS}) VALUES ({', '.join(':' + name for name in names)}) ON CONFLICT DO NOTHING"
    )
    return tx.execute(sql, _values(new)) == 1


def update(tx: Tx, new: CatalogEntry) -> None:
    """Keep an entry in place of what it was."""
    names = [name.strip() for name in _COLUMNS.split(",") if name.strip() not in ("id", "workspace_id", "created_at")]
    tx.execute(
        f"UPDATE mcp_server SET {', '.join(f'{name} = :{name}' for name in names)} WHERE id = :id",
        {name: value for name, value in _values(new).items() if name not in ("workspace_id", "created_at")},
    )


def delete(tx: Tx, id: str) -> None:
    """Forget an entry and its tools."""
    tx.execute("DELETE FROM mcp_server WHERE id = :id", {"id": id})


def tools_of(tx: Tx, server_id: str) -> list[PinnedTool]:
    """The tools of an entry, in the server's order."""
    rows = tx.all(f"{_TOOLS} WHERE mcp_tool.server_id = :id ORDER BY position, mcp_tool.name", {"id": server_id})
    return [tool(row) for row in rows]


def tool_of(tx: Tx, server_id: str, name: str) -> PinnedTool | None:
    """One tool of an entry."""
    row = tx.one(f"{_TOOLS} WHERE mcp_tool.server_id = :id AND mcp_tool.name = :name", {"id": server_id, "name": name})
    return tool(row) if row else None


def usable_in(tx: Tx, workspace_id: str) -> list[PinnedTool]:
    """The tools that can be called in a workspace, by server, in each server's order."""
    rows = tx.all(
        f"{_TOOLS} WHERE mcp_server.workspace_id = :id AND mcp_server.enabled = 1 AND mcp_tool.state = 'active' "
        "ORDER BY mcp_server.name, position, mcp_tool.name",
        {"id": workspace_id},
    )
    return [tool(row) for row in rows]


def waiting_in(tx: Tx, workspace_id: str, limit: int) -> list[PinnedTool]:
    """The tools of a workspace that wait for a person, by server."""
    rows = tx.all(
        f"{_TOOLS} WHERE mcp_server.workspace_id = :id AND mcp_tool.state = 'quarantined' "
        "ORDER BY mcp_server.name, position, mcp_tool.name LIMIT :limit",
        {"id": workspace_id, "limit": limit},
    )
    return [tool(row) for row in rows]


def put_tool(tx: Tx, pin: PinnedTool, *, position: int, now: int) -> None:
    """Keep a tool in place of what it was; its place in the list stays once it has one."""
    tx.execute(
        "INSERT INTO mcp_tool (server_id, name, position, pinned, digest, state, waiting, is_new, flags, policy, "
        "destructive, idempotent, scope, updated_at) VALUES (:server_id, :name, :position, :pinned, :digest, :state, "
        ":waiting, :is_new, :flags, :policy, :destructive, :idempotent, :scope, :now) ON CONFLICT (server_id, name) "
        "DO UPDATE SET pinned = excluded.pinned, digest = excluded.digest, state = excluded.state, "
        "waiting = excluded.waiting, is_new = excluded.is_new, flags = excluded.flags, policy = excluded.policy, "
        "destructive = excluded.destructive, idempotent = excluded.idempotent, scope = excluded.scope, "
        "updated_at = excluded.updated_at",
        {
            "server_id": pin.server_id,
            "name": pin.name,
            "position": position,
            "pinned": json.dumps(description_json(pin.pinned)),
            "digest": pin.digest,
            "state": pin.state,
            "waiting": None if pin.waiting is None else json.dumps(description_json(pin.waiting)),
            "is_new": int(pin.is_new),
            "flags": json.dumps(list(pin.flags)),
            "policy": pin.set_policy,
            "destructive": None if pin.set_destructive is None else int(pin.set_destructive),
            "idempotent": int(pin.set_idempotent),
            "scope": pin.set_scope,
            "now": now,
        },
    )


def entry(row: Row) -> CatalogEntry:
    """An entry from its row."""
    return CatalogEntry(
        id=row["id"],
        workspace_id=row["workspace_id"],
        spec=_spec(row["name"], row["spec"], bool(row["enabled"])),
        revision=row["revision"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        updated_by=row["updated_by"],
        install=row["install"],
        installed=_installed(row["installed"]),
        job_id=row["job_id"],
        problem=row["problem"],
        server_info=None if row["server_info"] is None else _server_info(row["server_info"]),
        protocol=row["protocol"],
        probed_at=row["probed_at"],
    )


# Every call of a tool reads its entry and its pin, several times: what is the same text is the same value.
@lru_cache(maxsize=256)
def _spec(name: str, text: str, enabled: bool) -> NewEntry:
    return spec_from(name, json.loads(text), enabled=enabled)


@lru_cache(maxsize=256)
def _description(text: str) -> ToolDescription:
    return description_from(json.loads(text))


@lru_cache(maxsize=256)
def _scopes(text: str) -> Mapping[str, str]:
    scopes: Mapping[str, str] = json.loads(text).get("manifest", {}).get("tool_scopes", {})
    return scopes


@lru_cache(maxsize=256)
def _flags(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


@lru_cache(maxsize=256)
def _server_info(text: str) -> Mapping[str, Any]:
    info: Mapping[str, Any] = json.loads(text)
    return info


def spec_from(name: str, kept: Mapping[str, Any], *, enabled: bool) -> NewEntry:
    """What an admin said, from its JSON."""
    return NewEntry(
        name=name,
        shape=kept["shape"],
        image=kept.get("image"),
        command=kept.get("command"),
        args=tuple(kept.get("args", ())),
        url=kept.get("url"),
        headers=kept.get("headers", {}),
        manifest=manifest_of(kept.get("manifest")),
        env=kept.get("env", {}),
        allow=tuple(kept.get("allow", ())),
        paths=tuple(kept.get("paths", ())),
        enabled=enabled,
    )


def tool(row: Row) -> PinnedTool:
    """A tool from its row and its server's."""
    return PinnedTool(
        server_id=row["server_id"],
        server=row["server"],
        pinned=_description(row["pinned"]),
        digest=row["digest"],
        state=row["state"],
        waiting=None if row["waiting"] is None else description_from(json.loads(row["waiting"])),
        flags=_flags(row["flags"]),
        set_policy=row["policy"],
        set_destructive=None if row["destructive"] is None else bool(row["destructive"]),
        set_idempotent=bool(row["idempotent"]),
        set_scope=row["scope"],
        manifest_scope=_scopes(row["spec"]).get(row["name"]),
        is_new=bool(row["is_new"]),
    )


def _values(new: CatalogEntry) -> dict[str, Any]:
    spec = new.spec
    kept = {
        "shape": spec.shape,
        "image": spec.image,
        "command": spec.command,
        "args": list(spec.args),
        "url": spec.url,
        "headers": dict(spec.headers),
        "manifest": manifest_json(spec.manifest),
        "env": dict(spec.env),
        "allow": list(spec.allow),
        "paths": list(spec.paths),
    }
    return {
        "id": new.id,
        "workspace_id": new.workspace_id,
        "name": spec.name,
        "spec": json.dumps(kept),
        "enabled": int(spec.enabled),
        "revision": new.revision,
        "install": new.install,
        "installed": None if new.installed is None else json.dumps(asdict(new.installed)),
        "job_id": new.job_id,
        "problem": new.problem,
        "server_info": None if new.server_info is None else json.dumps(dict(new.server_info)),
        "protocol": new.protocol,
        "probed_at": new.probed_at,
        "created_at": new.created_at,
        "updated_at": new.updated_at,
        "updated_by": new.updated_by,
    }


def _installed(text: str | None) -> PackagePin | None:
    if text is None:
        return None
    return PackagePin(**json.loads(text))
