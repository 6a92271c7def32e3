"""Owns the SQL of agents: what each is now, what it was, and which secrets it was granted."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from holdfast.features.agents.definitions.model import AgentDefinition, AgentLimits, Attachment, NewAgent, SecretGrant
from holdfast.storage.database import Row, Tx

_COLUMNS = "id, workspace_id, slug, version, definition, created_at, updated_at, updated_by"


def insert(tx: Tx, new: AgentDefinition) -> bool:
    """Keep a new agent and its first version; False where its slug is taken."""
    made = tx.execute(
        f"INSERT INTO agent ({_COLUMNS}) VALUES (:id, :workspace_id, :slug, :version, :definition, :created_at, "
        ":updated_at, :updated_by) ON CONFLICT DO NOTHING",
        _values(new),
    )
    if made:
        _keep_version(tx, new)
    return made == 1


def update(tx: Tx, new: AgentDefinition) -> bool:
    """Keep an agent's next version; False where another change came first."""
    made = tx.execute(
        "UPDATE agent SET slug = :slug, version = :version, definition = :definition, updated_at = :updated_at, "
        "updated_by = :updated_by WHERE id = :id AND version = :version - 1",
        _values(new),
    )
    if made:
        _keep_version(tx, new)
    return made == 1


def delete(tx: Tx, id: str) -> None:
    """Forget an agent with its versions; its sessions stay."""
    tx.execute("DELETE FROM agent WHERE id = :id", {"id": id})


def by_id(tx: Tx, id: str) -> AgentDefinition | None:
    """An agent, whoever's it is."""
    row = tx.one(f"SELECT {_COLUMNS} FROM agent WHERE id = :id", {"id": id})
    return _agent(tx, row) if row else None


def find(tx: Tx, workspace_id: str, name: str) -> AgentDefinition | None:
    """A workspace's agent by its id or its slug."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM agent WHERE workspace_id = :workspace_id AND (id = :name OR slug = :name)",
        {"workspace_id": workspace_id, "name": name},
    )
    return _agent(tx, row) if row else None


def all_in(tx: Tx, workspace_id: str) -> list[AgentDefinition]:
    """A workspace's agents, by slug."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM agent WHERE workspace_id = :id ORDER BY slug", {"id": workspace_id})
    return [_agent(tx, row) for row in rows]


def versions(tx: Tx, agent_id: str) -> list[Mapping[str, Any]]:
    """What an agent was, the newest first."""
    rows = tx.all(
        "SELECT version, definition, created_at, created_by FROM agent_version WHERE agent_id = :id "
        "ORDER BY version DESC LIMIT 500",
        {"id": agent_id},
    )
    return [{**row, "definition": json.loads(row["definition"])} for row in rows]


def grant_secret(tx: Tx, agent_id: str, new: SecretGrant) -> bool:
    """Let an agent have a secret; False where it does already."""
    sql = (
        "INSERT INTO agent_secret (agent_id, name, granted_at, granted_by) "
        "VALUES (:agent_id, :name, :granted_at, :granted_by) ON CONFLICT DO NOTHING"
    )
    return tx.execute(sql, {"agent_id": agent_id, **asdict(new)}) == 1


def take_secret(tx: Tx, agent_id: str, name: str) -> bool:
    """End that; False where it was not so."""
    sql = "DELETE FROM agent_secret WHERE agent_id = :agent_id AND name = :name"
    return tx.execute(sql, {"agent_id": agent_id, "name": name}) == 1


def definition_json(spec: NewAgent, attachments: tuple[Attachment, ...]) -> dict[str, Any]:
    """A definition as it is kept."""
    return {**asdict(spec), "attachments": [asdict(each) for each in attachments]}


def definition_from(kept: Mapping[str, Any]) -> tuple[NewAgent, tuple[Attachment, ...]]:
    """A definition as it was kept."""
    said = dict(kept)
    attached = tuple(Attachment(**each) for each in said.pop("attachments"))
    return NewAgent(**said | {"limits": AgentLimits(**said["limits"])}), attached


def _keep_version(tx: Tx, new: AgentDefinition) -> None:
    tx.execute(
        "INSERT INTO agent_version (agent_id, version, definition, created_at, created_by) "
        "VALUES (:id, :version, :definition, :updated_at, :updated_by)",
        _values(new),
    )


def _values(agent: AgentDefinition) -> dict[str, Any]:
    return {
        "id": agent.id,
        "workspace_id": agent.workspace_id,
        "slug": agent.slug,
        "version": agent.version,
        "definition": json.dumps(definition_json(agent.spec, agent.attachments)),
        "created_at": agent.created_at,
        "updated_at": agent.updated_at,
        "updated_by": agent.updated_by,
    }


def _agent(tx: Tx, row: Row) -> AgentDefinition:
    spec, attachments = definition_from(json.loads(row["definition"]))
    granted = tx.all(
        "SELECT name, granted_at, granted_by FROM agent_secret WHERE agent_id = :id ORDER BY name", {"id": row["id"]}
    )
    return AgentDefinition(
        id=row["id"],
        workspace_id=row["workspace_id"],
        slug=row["slug"],
        version=row["version"],
        spec=spec,
        attachments=attachments,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        updated_by=row["updated_by"],
        secrets=tuple(SecretGrant(each["name"], each["granted_at"], each["granted_by"]) for each in granted),
    )
