"""Owns the SQL of cases: rows, the queue, links, comments and history."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.core.ids import new_id
from holdfast.features.cases.model import (
    Case,
    CaseClaim,
    CaseFilter,
    CaseLink,
    Comment,
    Criterion,
    HistoryEntry,
    LinkType,
)
from holdfast.features.cases.states import OVER, State
from holdfast.registry.entities import Blocker, Source, Tie
from holdfast.storage.database import Row, Tx

Position = tuple[int, str]
"""Where a page begins: after the case with this moment and id, newest first."""
_COLUMNS = (
    *("id", "workspace_id", "title", "body", "kind", "state", "is_active", "blocked_from", "reason", "priority"),
    *("criteria", "labels", "assignee", "due_at", "repository", "base_commit", "head_commit", "environment"),
    *("parent", "source", "holder", "holder_name", "session_id", "lease_until", "fence", "version"),
    *("author", "author_name", "created_at", "updated_at"),
)
_SELECT = ", ".join(f"c.{name}" for name in _COLUMNS)
_FIXED = frozenset({"id", "workspace_id", "author", "author_name", "created_at"})
_PUT = (
    f"INSERT INTO work_case ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)}) "
    "ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in _FIXED)
)
_OVER = ", ".join(f"'{state}'" for state in OVER)
_OPEN_BLOCKERS = (
    "SELECT COUNT(*) FROM case_link l JOIN work_case b ON b.id = l.from_id WHERE l.to_id = work_case.id "
    f"AND l.type = 'blocks' AND b.state NOT IN ({_OVER})"
)
_READY = (
    "c.workspace_id = :workspace_id AND c.is_active = 1 AND c.open_blockers = 0 "
    "AND (c.lease_until IS NULL OR c.lease_until <= :now)"
)
_IN_TURN = "ORDER BY c.priority, c.created_at, c.id"


def put(tx: Tx, case: Case) -> None:
    """Write the case as it is now, new or not."""
    tx.execute(_PUT, _values(case))


def get(tx: Tx, workspace_id: str, id: str, *, for_update: bool = False) -> Case | None:
    """One case; `for_update` keeps other writers of it waiting until this transaction ends."""
    row = tx.one(
        f"SELECT {_SELECT} FROM work_case c WHERE c.workspace_id = :workspace_id AND c.id = :id{_lock(tx, for_update)}",
        {"workspace_id": workspace_id, "id": id},
    )
    return None if row is None else _case(row)


def place(tx: Tx, id: str) -> str | None:
    """The workspace that a case is in, whoever asks: who may see it is the caller's question."""
    row = tx.one("SELECT workspace_id FROM work_case WHERE id = :id", {"id": id})
    return None if row is None else str(row["workspace_id"])


def from_source(tx: Tx, workspace_id: str, source: str) -> str | None:
    """The case that was made from an issue."""
    row = tx.one(
        "SELECT id FROM work_case WHERE workspace_id = :workspace_id AND source = :source",
        {"workspace_id": workspace_id, "source": source},
    )
    return None if row is None else str(row["id"])


def page(
    tx: Tx, workspace_ids: Sequence[str], wanted: CaseFilter, limit: int, after: Position | None = None
) -> list[Case]:
    """Cases of some workspaces, newest first."""
    names, values = in_list(workspace_ids)
    conditions = [f"c.workspace_id IN ({names})"]
    if after is not None:
        conditions.append("(c.created_at, c.id) < (:after_moment, :after_id)")
        values |= {"after_moment": after[0], "after_id": after[1]}
    for name in ("state", "kind", "assignee", "parent", "repository"):
        value = getattr(wanted, name)
        if value is not None:
            conditions.append(f"c.{name} = :{name}")
            values[name] = value
    if wanted.label is not None:
        # Labels are a JSON list of plain words; none has a quote in it.
        conditions.append("c.labels LIKE :label ESCAPE '!'")
        values["label"] = f'%"{_escaped(wanted.label)}"%'
    rows = tx.all(
        f"SELECT {_SELECT} FROM work_case c WHERE {' AND '.join(conditions)} "
        "ORDER BY c.created_at DESC, c.id DESC LIMIT :limit",
        {**values, "limit": limit},
    )
    return [_case(row) for row in rows]


def ready(tx: Tx, workspace_id: str, now: int, limit: int, after: tuple[int, int, str] = (-1, 0, "")) -> list[Case]:
    """What nothing blocks and nobody holds, by priority, then age, after a place in that order."""
    priority, created_at, id = after
    rows = tx.all(
        f"SELECT {_SELECT} FROM work_case c WHERE {_READY} AND (c.priority > :priority OR (c.priority = :priority "
        f"AND (c.created_at > :created_at OR (c.created_at = :created_at AND c.id > :id)))) {_IN_TURN} LIMIT :limit",
        {
            "workspace_id": workspace_id,
            "now": now,
            "limit": limit,
            "priority": priority,
            "created_at": created_at,
            "id": id,
        },
    )
    return [_case(row) for row in rows]


def lane(tx: Tx, workspace_id: str, state: State, limit: int) -> list[Case]:
    """Cases in one state: what is left to do by priority, then age; what is over newest first."""
    if state in OVER:
        return page(tx, [workspace_id], CaseFilter(state), limit)
    rows = tx.all(
        f"SELECT {_SELECT} FROM work_case c WHERE c.workspace_id = :workspace_id AND c.state = :state "
        f"{_IN_TURN} LIMIT :limit",
        {"workspace_id": workspace_id, "state": state, "limit": limit},
    )
    return [_case(row) for row in rows]


def of_somebody(tx: Tx, workspace_id: str, actor: str, names: Sequence[str], limit: int) -> list[Case]:
    """What is not over and assigned to one of the names, held by the actor, or added by them and being verified; what
    is due first."""
    own, values = in_list(names)
    theirs = "SELECT id FROM work_case WHERE workspace_id = :workspace_id AND"
    rows = tx.all(
        f"SELECT {_SELECT} FROM work_case c WHERE c.state NOT IN ({_OVER}) AND c.id IN ({theirs} assignee IN ({own}) "
        f"UNION {theirs} holder = :actor UNION {theirs} author = :actor AND state = 'VERIFYING') "
        "ORDER BY CASE WHEN c.due_at IS NULL THEN 1 ELSE 0 END, c.due_at, c.priority, c.created_at, c.id LIMIT :limit",
        {**values, "workspace_id": workspace_id, "actor": actor, "limit": limit},
    )
    return [_case(row) for row in rows]


def next_ready(tx: Tx, workspace_id: str, now: int, names: Sequence[str]) -> Case | None:
    """The first that is ready and meant for nobody else, held against every other caller until `tx` ends."""
    # A row that another caller is just taking is passed over: nobody waits, and nobody gets it too.
    lock = " FOR UPDATE OF c SKIP LOCKED" if tx.dialect == "postgresql" else ""
    own, values = in_list(names)
    row = tx.one(
        f"SELECT {_SELECT} FROM work_case c WHERE {_READY} AND (c.assignee IS NULL OR c.assignee IN ({own})) "
        f"{_IN_TURN} LIMIT 1{lock}",
        {"workspace_id": workspace_id, "now": now, **values},
    )
    return None if row is None else _case(row)


def set_claim(tx: Tx, case: Case) -> None:
    """Write who holds the case, and nothing else of it."""
    claim = case.last_claim
    tx.execute(
        "UPDATE work_case SET holder = :holder, holder_name = :holder_name, session_id = :session_id, "
        "lease_until = :lease_until, fence = :fence, version = :version, updated_at = :updated_at WHERE id = :id",
        {
            "id": case.id,
            "holder": claim.holder if claim else None,
            "holder_name": claim.holder_name if claim else None,
            "session_id": claim.session_id if claim else None,
            "lease_until": claim.expires_at if claim else None,
            "fence": case.fence,
            "version": case.version,
            "updated_at": case.updated_at,
        },
    )


def children(tx: Tx, id: str, limit: int = 500) -> list[str]:
    """The cases that are parts of one, which are all in its workspace."""
    # Naming the workspace, too, would have the store read all of it in order of time.
    rows = tx.all(
        "SELECT id FROM work_case WHERE parent = :id ORDER BY created_at, id LIMIT :limit", {"id": id, "limit": limit}
    )
    return [str(row["id"]) for row in rows]


# Links


def add_link(tx: Tx, workspace_id: str, link: CaseLink, now: int) -> bool:
    """Whether it is new."""
    return bool(
        tx.execute(
            "INSERT INTO case_link (workspace_id, from_id, type, to_id, created_at) "
            "VALUES (:workspace_id, :from_id, :type, :to_id, :now) ON CONFLICT DO NOTHING",
            {
                "workspace_id": workspace_id,
                "from_id": link.from_id,
                "type": link.type,
                "to_id": link.to_id,
                "now": now,
            },
        )
    )


def remove_link(tx: Tx, link: CaseLink) -> bool:
    """Whether it was there."""
    return bool(
        tx.execute(
            "DELETE FROM case_link WHERE from_id = :from_id AND type = :type AND to_id = :to_id",
            {"from_id": link.from_id, "type": link.type, "to_id": link.to_id},
        )
    )


def links(tx: Tx, ids: Sequence[str]) -> list[CaseLink]:
    """The ties that cases have, told from either end, the first told first."""
    names, values = in_list(ids)
    rows = tx.all(
        f"SELECT from_id, type, to_id, created_at FROM case_link WHERE from_id IN ({names}) "
        f"UNION SELECT from_id, type, to_id, created_at FROM case_link WHERE to_id IN ({names}) "
        "ORDER BY created_at, from_id, to_id",
        values,
    )
    return [CaseLink(row["from_id"], row["type"], row["to_id"]) for row in rows]


def linked_from(tx: Tx, id: str, type: LinkType) -> list[str]:
    """Where a case's own ties of a type lead."""
    rows = tx.all("SELECT to_id FROM case_link WHERE from_id = :id AND type = :type", {"id": id, "type": type})
    return [str(row["to_id"]) for row in rows]


def count_blockers(tx: Tx, ids: Sequence[str]) -> None:
    """Count anew what these cases wait for, because a tie to them or the state of what blocks them has changed."""
    names, values = in_list(ids)
    if tx.dialect == "postgresql":
        # Held first, counted in a statement of its own: so that it sees what whoever held them before has changed.
        tx.all(f"SELECT id FROM work_case WHERE id IN ({names}) ORDER BY id FOR UPDATE", values)
    tx.execute(f"UPDATE work_case SET open_blockers = ({_OPEN_BLOCKERS}) WHERE id IN ({names})", values)


def blockers(tx: Tx, ids: Sequence[str]) -> dict[str, list[str]]:
    """The cases that each of these waits for."""
    names, values = in_list(ids)
    rows = tx.all(
        "SELECT l.to_id, l.from_id FROM case_link l JOIN work_case b ON b.id = l.from_id "
        f"WHERE l.to_id IN ({names}) AND l.type = 'blocks' AND b.state NOT IN ({_OVER}) ORDER BY b.created_at, b.id",
        values,
    )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["to_id"], []).append(row["from_id"])
    return found


def hold_links(tx: Tx, workspace_id: str) -> None:
    """Let nobody else tie cases of this workspace until `tx` ends: two ties could close a circle between them."""
    if tx.dialect == "postgresql":
        tx.one("SELECT id FROM workspace WHERE id = :id FOR NO KEY UPDATE", {"id": workspace_id})


# History and comments


def add_history(tx: Tx, case_id: str, entry: HistoryEntry) -> None:
    """Write down what happened."""
    tx.execute(
        "INSERT INTO case_history (id, case_id, version, at, actor, actor_name, action, from_state, to_state, reason, "
        "detail) VALUES (:id, :case_id, :version, :at, :actor, :actor_name, :action, :from_state, :to_state, :reason, "
        ":detail)",
        {
            "id": new_id("hist"),
            "case_id": case_id,
            "version": entry.version,
            "at": entry.at,
            "actor": entry.actor,
            "actor_name": entry.actor_name,
            "action": entry.action,
            "from_state": entry.from_state,
            "to_state": entry.to_state,
            "reason": entry.reason,
            "detail": json.dumps(entry.detail, ensure_ascii=False),
        },
    )


def history(tx: Tx, case_id: str) -> list[HistoryEntry]:
    """All that happened to a case, in order."""
    rows = tx.all("SELECT * FROM case_history WHERE case_id = :id ORDER BY version, id", {"id": case_id})
    return [
        HistoryEntry(
            row["version"],
            row["at"],
            row["actor"],
            row["actor_name"],
            row["action"],
            row["from_state"],
            row["to_state"],
            row["reason"],
            json.loads(row["detail"]),
        )
        for row in rows
    ]


def add_comment(tx: Tx, comment: Comment) -> None:
    """Write down a remark."""
    tx.execute(
        "INSERT INTO case_comment (id, case_id, at, author, author_name, text, mentions) "
        "VALUES (:id, :case_id, :at, :author, :author_name, :text, :mentions)",
        {
            "id": comment.id,
            "case_id": comment.case_id,
            "at": comment.at,
            "author": comment.author,
            "author_name": comment.author_name,
            "text": comment.text,
            "mentions": json.dumps(comment.mentions, ensure_ascii=False),
        },
    )


def comments(tx: Tx, case_id: str) -> list[Comment]:
    """All remarks on a case, the first first."""
    rows = tx.all("SELECT * FROM case_comment WHERE case_id = :id ORDER BY at, id", {"id": case_id})
    return [
        Comment(
            row["id"],
            row["case_id"],
            row["at"],
            row["author"],
            row["author_name"],
            row["text"],
            tuple(json.loads(row["mentions"])),
        )
        for row in rows
    ]


# How other features see cases


def title(tx: Tx, workspace_id: str, id: str) -> str | None:
    """The title of a case, None when it is not there."""
    row = tx.one(
        "SELECT title FROM work_case WHERE workspace_id = :workspace_id AND id = :id",
        {"workspace_id": workspace_id, "id": id},
    )
    return None if row is None else str(row["title"])


def recent(tx: Tx, workspace_id: str, limit: int) -> list[Source]:
    """The newest cases, as the graph and analyses show them."""
    return [
        Source("case", case.id, case.title, case.body, case.created_at, case.state)
        for case in page(tx, [workspace_id], CaseFilter(), limit)
    ]


def blocking(tx: Tx, workspace_id: str) -> list[Blocker]:
    """Blocked cases hold work up."""
    return [
        Blocker("case", case.id, case.title, case.reason, case.updated_at)
        for case in page(tx, [workspace_id], CaseFilter(state="BLOCKED"), 100)
    ]


def ties(tx: Tx, workspace_id: str, ids: Sequence[str], limit: int) -> list[Tie]:
    """How cases are tied to each other: by links, and as parts, told from either end."""
    names, values = in_list(ids)
    links = tx.all(
        "SELECT from_id, type, to_id, created_at FROM case_link WHERE workspace_id = :workspace_id "
        f"AND (from_id IN ({names}) OR to_id IN ({names})) ORDER BY created_at, from_id, to_id LIMIT :limit",
        {**values, "workspace_id": workspace_id, "limit": limit},
    )
    parts = tx.all(
        f"SELECT id, parent, created_at FROM work_case WHERE parent IN ({names}) UNION "
        f"SELECT id, parent, created_at FROM work_case WHERE id IN ({names}) AND parent IS NOT NULL "
        "ORDER BY created_at, id LIMIT :limit",
        {**values, "limit": limit},
    )
    return [
        *(Tie(row["from_id"], _told(str(row["type"])), row["to_id"], row["created_at"]) for row in links),
        *(Tie(row["id"], "part_of", str(row["parent"]), row["created_at"]) for row in parts),
    ]


def _told(link: str) -> str:
    return "related_to" if link == "related" else link


def in_list(ids: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """Parameters for `IN (…)`; matches nothing when there are no ids."""
    values: dict[str, Any] = {f"id{number}": id for number, id in enumerate(ids)}
    return ", ".join(f":{name}" for name in values) or "NULL", values


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1].replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _lock(tx: Tx, for_update: bool) -> str:
    return " FOR UPDATE" if for_update and tx.dialect == "postgresql" else ""


def _values(case: Case) -> dict[str, Any]:
    claim = case.last_claim
    return {
        **{name: getattr(case, name) for name in _COLUMNS if name in Case.__slots__},
        "is_active": int(case.is_active),
        "criteria": json.dumps([[each.id, each.text] for each in case.criteria], ensure_ascii=False),
        "labels": json.dumps(case.labels, ensure_ascii=False),
        "holder": claim.holder if claim else None,
        "holder_name": claim.holder_name if claim else None,
        "session_id": claim.session_id if claim else None,
        "lease_until": claim.expires_at if claim else None,
    }


def _case(row: Row) -> Case:
    same = {name: row[name] for name in _COLUMNS if name in Case.__slots__}
    claim = None
    if row["lease_until"] is not None:
        claim = CaseClaim(row["holder"], row["holder_name"], row["session_id"], row["lease_until"], row["fence"])
    return Case(
        **{
            **same,
            "criteria": tuple(Criterion(id, text) for id, text in json.loads(row["criteria"])),
            "labels": tuple(json.loads(row["labels"])),
            "last_claim": claim,
        }
    )
