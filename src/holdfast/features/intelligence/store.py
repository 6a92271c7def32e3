"""Owns the SQL of decisions and milestones."""

import json
from collections.abc import Iterable
from typing import Any

from holdfast.features.intelligence.model import Decision, DecisionFilter, Milestone, MilestoneFilter
from holdfast.storage.database import Row, Tx

_DECISION = (
    "id, workspace_id, title, rationale, alternatives, status, blocking, decided_at, supersedes, superseded_by, "
    "superseded_at, author, author_name, created_at, updated_at"
)
_MILESTONE = "id, workspace_id, title, type, description, occurred_at, author, author_name, created_at, updated_at"
Position = tuple[int, str]
"""Where a page begins: after the entity with this moment and id, newest first."""


def put_decision(tx: Tx, decision: Decision) -> None:
    """Write the decision as it is now, new or not."""
    tx.execute(
        f"INSERT INTO decision ({_DECISION}) VALUES (:id, :workspace_id, :title, :rationale, :alternatives, :status, "
        ":blocking, :decided_at, :supersedes, :superseded_by, :superseded_at, :author, :author_name, :created_at, "
        ":updated_at) ON CONFLICT (id) DO UPDATE SET title = excluded.title, rationale = excluded.rationale, "
        "alternatives = excluded.alternatives, status = excluded.status, blocking = excluded.blocking, "
        "decided_at = excluded.decided_at, supersedes = excluded.supersedes, "
        "superseded_by = excluded.superseded_by, superseded_at = excluded.superseded_at, "
        "updated_at = excluded.updated_at",
        {
            "id": decision.id,
            "workspace_id": decision.workspace_id,
            "title": decision.title,
            "rationale": decision.rationale,
            "alternatives": json.dumps(decision.alternatives, ensure_ascii=False),
            "status": decision.status,
            "blocking": int(decision.blocking),
            "decided_at": decision.decided_at,
            "supersedes": decision.supersedes,
            "superseded_by": decision.superseded_by,
            "superseded_at": decision.superseded_at,
            "author": decision.author,
            "author_name": decision.author_name,
            "created_at": decision.created_at,
            "updated_at": decision.updated_at,
        },
    )


def get_decision(tx: Tx, workspace_id: str, id: str, *, for_update: bool = False) -> Decision | None:
    """One decision; `for_update` keeps other writers of it waiting until this transaction ends."""
    lock = " FOR UPDATE" if for_update and tx.dialect == "postgresql" else ""
    row = tx.one(
        f"SELECT {_DECISION} FROM decision WHERE workspace_id = :workspace_id AND id = :id{lock}",
        {"workspace_id": workspace_id, "id": id},
    )
    return None if row is None else _decision(row)


def get_decisions(tx: Tx, workspace_id: str, ids: Iterable[str]) -> dict[str, Decision]:
    """Those of the decisions that are here, by id."""
    names, values = in_list(ids)
    rows = tx.all(
        f"SELECT {_DECISION} FROM decision WHERE workspace_id = :workspace_id AND id IN ({names})",
        {"workspace_id": workspace_id, **values},
    )
    return {row["id"]: _decision(row) for row in rows}


def list_decisions(
    tx: Tx, workspace_id: str, wanted: DecisionFilter, limit: int, after: Position | None = None
) -> list[Decision]:
    """Decisions by the moment they were made, newest first."""
    conditions, values = _page(workspace_id, "decided_at", wanted.since, wanted.until, after)
    if wanted.status is not None:
        conditions.append("status = :status")
        values["status"] = wanted.status
    if wanted.blocking is not None:
        conditions.append("blocking = :blocking")
        values["blocking"] = int(wanted.blocking)
    if wanted.as_of is not None:
        conditions.append("created_at <= :as_of AND (superseded_at IS NULL OR superseded_at > :as_of)")
        values["as_of"] = wanted.as_of
    rows = tx.all(
        f"SELECT {_DECISION} FROM decision WHERE {' AND '.join(conditions)} ORDER BY decided_at DESC, id DESC "
        "LIMIT :limit",
        {**values, "limit": limit},
    )
    return [_decision(row) for row in rows]


def delete_decision(tx: Tx, workspace_id: str, id: str) -> bool:
    """Whether there was one to delete."""
    return bool(
        tx.execute(
            "DELETE FROM decision WHERE workspace_id = :workspace_id AND id = :id",
            {"workspace_id": workspace_id, "id": id},
        )
    )


def put_milestone(tx: Tx, milestone: Milestone) -> None:
    """Write the milestone as it is now, new or not; its decisions are relations."""
    tx.execute(
        f"INSERT INTO milestone ({_MILESTONE}) VALUES (:id, :workspace_id, :title, :type, :description, "
        ":occurred_at, :author, :author_name, :created_at, :updated_at) ON CONFLICT (id) DO UPDATE SET "
        "title = excluded.title, type = excluded.type, description = excluded.description, "
        "occurred_at = excluded.occurred_at, updated_at = excluded.updated_at",
        {
            "id": milestone.id,
            "workspace_id": milestone.workspace_id,
            "title": milestone.title,
            "type": milestone.type,
            "description": milestone.description,
            "occurred_at": milestone.occurred_at,
            "author": milestone.author,
            "author_name": milestone.author_name,
            "created_at": milestone.created_at,
            "updated_at": milestone.updated_at,
        },
    )


def get_milestone(tx: Tx, workspace_id: str, id: str, *, for_update: bool = False) -> Milestone | None:
    """One milestone; `for_update` keeps other writers of it waiting until this transaction ends."""
    lock = " FOR UPDATE" if for_update and tx.dialect == "postgresql" else ""
    row = tx.one(
        f"SELECT {_MILESTONE} FROM milestone WHERE workspace_id = :workspace_id AND id = :id{lock}",
        {"workspace_id": workspace_id, "id": id},
    )
    return None if row is None else _milestones(tx, workspace_id, [row])[0]


def get_milestones(tx: Tx, workspace_id: str, ids: Iterable[str]) -> dict[str, Milestone]:
    """Those of the milestones that are here, by id."""
    names, values = in_list(ids)
    rows = tx.all(
        f"SELECT {_MILESTONE} FROM milestone WHERE workspace_id = :workspace_id AND id IN ({names})",
        {"workspace_id": workspace_id, **values},
    )
    return {milestone.id: milestone for milestone in _milestones(tx, workspace_id, rows)}


def delete_milestone(tx: Tx, workspace_id: str, id: str) -> bool:
    """Whether there was one to delete."""
    return bool(
        tx.execute(
            "DELETE FROM milestone WHERE workspace_id = :workspace_id AND id = :id",
            {"workspace_id": workspace_id, "id": id},
        )
    )


def list_milestones(
    tx: Tx, workspace_id: str, wanted: MilestoneFilter, limit: int, after: Position | None = None
) -> list[Milestone]:
    """Milestones by the moment they were reached, newest first."""
    conditions, values = _page(workspace_id, "occurred_at", wanted.since, wanted.until, after)
    if wanted.type is not None:
        conditions.append("type = :type")
        values["type"] = wanted.type
    if wanted.decision is not None:
        conditions.append(
            "id IN (SELECT from_id FROM relation WHERE workspace_id = :workspace_id AND from_type = 'milestone' "
            "AND to_id = :decision UNION SELECT to_id FROM relation WHERE workspace_id = :workspace_id "
            "AND to_type = 'milestone' AND from_id = :decision)"
        )
        values["decision"] = wanted.decision
    rows = tx.all(
        f"SELECT {_MILESTONE} FROM milestone WHERE {' AND '.join(conditions)} ORDER BY occurred_at DESC, id DESC "
        "LIMIT :limit",
        {**values, "limit": limit},
    )
    return _milestones(tx, workspace_id, rows)


def decision_title(tx: Tx, workspace_id: str, id: str) -> str | None:
    """The title of a decision, None when it is not there."""
    found = get_decision(tx, workspace_id, id)
    return None if found is None else found.title


def milestone_title(tx: Tx, workspace_id: str, id: str) -> str | None:
    """The title of a milestone, None when it is not there."""
    found = get_milestone(tx, workspace_id, id)
    return None if found is None else found.title


def in_list(ids: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Parameters for `IN (…)`; matches nothing when there are no ids."""
    values = {f"id{number}": id for number, id in enumerate(ids)}
    return ", ".join(f":{name}" for name in values) or "NULL", values


def _page(
    workspace_id: str, moment: str, since: int | None, until: int | None, after: Position | None
) -> tuple[list[str], dict[str, Any]]:
    conditions = ["workspace_id = :workspace_id"]
    values: dict[str, Any] = {"workspace_id": workspace_id}
    if since is not None:
        conditions.append(f"{moment} >= :since")
        values["since"] = since
    if until is not None:
        conditions.append(f"{moment} <= :until")
        values["until"] = until
    if after is not None:
        conditions.append(f"({moment}, id) < (:after_moment, :after_id)")
        values |= {"after_moment": after[0], "after_id": after[1]}
    return conditions, values


def _milestones(tx: Tx, workspace_id: str, rows: list[Row]) -> list[Milestone]:
    names, values = in_list(row["id"] for row in rows)
    ties = tx.all(
        "SELECT from_id AS milestone, to_id AS decision, created_at, id FROM relation WHERE "
        f"workspace_id = :workspace_id AND from_id IN ({names}) AND to_type = 'decision' "
        "UNION ALL SELECT to_id, from_id, created_at, id FROM relation WHERE "
        f"workspace_id = :workspace_id AND to_id IN ({names}) AND from_type = 'decision' ORDER BY created_at, id",
        {"workspace_id": workspace_id, **values},
    )
    decisions: dict[str, dict[str, None]] = {}
    for tie in ties:
        decisions.setdefault(tie["milestone"], {})[tie["decision"]] = None
    return [_milestone(row, tuple(decisions.get(row["id"], ()))) for row in rows]


def _decision(row: Row) -> Decision:
    return Decision(
        id=row["id"],
        workspace_id=row["workspace_id"],
        title=row["title"],
        rationale=row["rationale"],
        alternatives=tuple(json.loads(row["alternatives"])),
        status=row["status"],
        blocking=bool(row["blocking"]),
        decided_at=row["decided_at"],
        supersedes=row["supersedes"],
        superseded_by=row["superseded_by"],
        superseded_at=row["superseded_at"],
        author=row["author"],
        author_name=row["author_name"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _milestone(row: Row, decisions: tuple[str, ...]) -> Milestone:
    return Milestone(
        id=row["id"],
        workspace_id=row["workspace_id"],
        title=row["title"],
        type=row["type"],
        description=row["description"],
        occurred_at=row["occurred_at"],
        decisions=decisions,
        author=row["author"],
        author_name=row["author_name"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
