"""Owns the SQL of sessions: their rows, events, questions and messages."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from holdfast.core.principal import principal_from, principal_text
from holdfast.engines.runners.base import RunnerPin
from holdfast.features.agents.definitions.model import AgentLimits, NewAgent
from holdfast.features.agents.gate.base import FrozenAttachment
from holdfast.features.agents.sessions.model import (
    AgentSession,
    FrozenServer,
    FrozenStart,
    SessionEvent,
    SessionFilter,
    SessionMessage,
    SessionQuestion,
    SessionState,
)
from holdfast.storage.database import Row, Tx

_COLUMNS = (
    "id, workspace_id, agent_id, agent_slug, agent_version, state, prompt, frozen, principal, started_by, user_id, "
    "case_id, case_fence, parent_id, root_id, depth, job_id, key_ids, resume_token, stop_by, quiet_until, "
    "waited_millis, waiting_since, last_seq, tokens_in, tokens_out, cost, summary, result, error, created_at, "
    "started_at, ended_at"
)
_NAMES = [name.strip() for name in _COLUMNS.split(",")]
_OVER = "('completed', 'failed', 'cancelled')"
_QUESTION = (
    "id, session_id, workspace_id, request_id, kind, question, options, details, state, answer, grant_id, created_at, "
    "decided_at, decided_by"
)
_QUESTION_NAMES = [name.strip() for name in _QUESTION.split(",")]


def insert(tx: Tx, new: AgentSession) -> None:
    """Keep a new session."""
    values = {name: getattr(new, name) for name in _NAMES}
    values |= {
        "frozen": json.dumps(asdict(new.frozen)),
        "principal": principal_text(new.principal),
        "started_by": principal_text(new.started_by),
        "key_ids": json.dumps(new.key_ids),
        "result": None,
        "error": None,
    }
    tx.execute(f"INSERT INTO agent_session ({_COLUMNS}) VALUES ({', '.join(':' + name for name in _NAMES)})", values)


def find(tx: Tx, id: str) -> AgentSession | None:
    """A session, whoever's it is."""
    row = tx.one(f"SELECT {_COLUMNS} FROM agent_session WHERE id = :id", {"id": id})
    return _session(row) if row else None


def page(tx: Tx, workspace_id: str, wanted: SessionFilter, before: str | None, limit: int) -> list[AgentSession]:
    """A workspace's newest sessions, older than the id `before`."""
    clauses, params = ["workspace_id = :workspace_id"], {"workspace_id": workspace_id, "limit": limit}
    given: Mapping[str, tuple[str, Any]] = {
        "state": ("state = :state", wanted.state),
        "agent": ("(agent_id = :agent OR agent_slug = :agent)", wanted.agent),
        "case_id": ("case_id = :case_id", wanted.case_id),
        "parent_id": ("parent_id = :parent_id", wanted.parent_id),
        "before": ("id < :before", before),
    }
    for name, (clause, value) in given.items():
        if value is not None:
            clauses.append(clause)
            params[name] = value
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM agent_session WHERE {' AND '.join(clauses)} ORDER BY id DESC LIMIT :limit", params
    )
    return [_session(row) for row in rows]


def of_root(tx: Tx, root_id: str) -> list[AgentSession]:
    """Every session of a spawn tree, oldest first."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM agent_session WHERE root_id = :id ORDER BY id", {"id": root_id})
    return [_session(row) for row in rows]


def unfinished_of(tx: Tx, agent_id: str) -> int:
    """How many sessions of an agent have not ended."""
    row = tx.one(
        f"SELECT COUNT(*) AS many FROM agent_session WHERE agent_id = :id AND state NOT IN {_OVER}", {"id": agent_id}
    )
    return int(row["many"]) if row else 0


def ended_before(tx: Tx, moment: int, among: Sequence[str]) -> set[str]:
    """Which of these sessions ended before a moment, or are no longer there."""
    kept = {
        each
        for each in among
        if tx.one(
            f"SELECT 1 AS one FROM agent_session WHERE id = :id AND (state NOT IN {_OVER} OR ended_at > :moment)",
            {"id": each, "moment": moment},
        )
    }
    return set(among) - kept


def set_values(tx: Tx, id: str, values: Mapping[str, Any]) -> bool:
    """Change columns of a session that has not ended; False where it has."""
    assigned = ", ".join(f"{name} = :{name}" for name in values)
    sql = f"UPDATE agent_session SET {assigned} WHERE id = :id AND state NOT IN {_OVER}"
    return tx.execute(sql, {"id": id, **values}) == 1


def move(tx: Tx, id: str, to: SessionState, among: Iterable[SessionState], values: Mapping[str, Any]) -> bool:
    """Bring a session into a state from one of these; False where it is in another."""
    assigned = "".join(f", {name} = :{name}" for name in values)
    states = ", ".join(f"'{state}'" for state in among)
    sql = f"UPDATE agent_session SET state = :state{assigned} WHERE id = :id AND state IN ({states})"
    return tx.execute(sql, {"id": id, "state": to, **values}) == 1


def add_key(tx: Tx, id: str, key_id: str) -> None:
    """Note another key that a session's model is reached with."""
    row = tx.one("SELECT key_ids FROM agent_session WHERE id = :id", {"id": id})
    if row is not None:
        kept = json.dumps([*json.loads(row["key_ids"]), key_id])
        tx.execute("UPDATE agent_session SET key_ids = :kept WHERE id = :id", {"id": id, "kept": kept})


def count_tokens(tx: Tx, id: str, counted: Mapping[str, float]) -> None:
    """Keep what a session's model used, be the session over or not."""
    sql = "UPDATE agent_session SET tokens_in = :tokens_in, tokens_out = :tokens_out, cost = :cost WHERE id = :id"
    tx.execute(sql, {"id": id, **counted})


def append(tx: Tx, session_id: str, at: int, kind: str, data: Mapping[str, Any]) -> int | None:
    """Add an event; its number, or None where the session is gone."""
    # The row's lock gives each event its number in turn.
    tx.execute("UPDATE agent_session SET last_seq = last_seq + 1 WHERE id = :id", {"id": session_id})
    row = tx.one("SELECT last_seq FROM agent_session WHERE id = :id", {"id": session_id})
    if row is None:
        return None
    values = {"id": session_id, "seq": row["last_seq"], "at": at, "kind": kind, "data": json.dumps(dict(data))}
    tx.execute(
        "INSERT INTO session_event (session_id, seq, at, kind, data) VALUES (:id, :seq, :at, :kind, :data)", values
    )
    return int(row["last_seq"])


def events(tx: Tx, session_id: str, after: int, limit: int) -> list[SessionEvent]:
    """A session's events after a number, oldest first."""
    rows = tx.all(
        "SELECT seq, at, kind, data FROM session_event WHERE session_id = :id AND seq > :after ORDER BY seq "
        "LIMIT :limit",
        {"id": session_id, "after": after, "limit": limit},
    )
    return [SessionEvent(row["seq"], row["at"], row["kind"], json.loads(row["data"])) for row in rows]


def events_of(tx: Tx, session_id: str, kinds: Sequence[str], after: int, limit: int) -> list[SessionEvent]:
    """A session's events of some kinds after a number, oldest first."""
    names = {f"kind_{number}": kind for number, kind in enumerate(kinds)}
    rows = tx.all(
        "SELECT seq, at, kind, data FROM session_event WHERE session_id = :id AND seq > :after AND kind IN "
        f"({', '.join(':' + name for name in names)}) ORDER BY seq LIMIT :limit",
        {"id": session_id, "after": after, "limit": limit, **names},
    )
    return [SessionEvent(row["seq"], row["at"], row["kind"], json.loads(row["data"])) for row in rows]


def insert_question(tx: Tx, new: SessionQuestion) -> bool:
    """Keep a question; False where the same request was asked before."""
    values = {name: getattr(new, name) for name in _QUESTION_NAMES}
    values |= {"options": json.dumps(new.options), "details": json.dumps(dict(new.details))}
    names = ", ".join(":" + name for name in _QUESTION_NAMES)
    sql = f"INSERT INTO session_question ({_QUESTION}) VALUES ({names}) ON CONFLICT DO NOTHING"
    return tx.execute(sql, values) == 1


def question(tx: Tx, session_id: str, id: str) -> SessionQuestion | None:
    """A question of a session, by its id or by what the agent calls its request."""
    row = tx.one(
        f"SELECT {_QUESTION} FROM session_question WHERE session_id = :session_id AND (id = :id OR request_id = :id) "
        "ORDER BY CASE WHEN id = :id THEN 0 ELSE 1 END, CASE WHEN state = 'pending' THEN 0 ELSE 1 END LIMIT 1",
        {"session_id": session_id, "id": id},
    )
    return _asked(row) if row else None


def asked_before(tx: Tx, session_id: str, kind: str, request_id: str) -> SessionQuestion | None:
    """The question that a request already is."""
    row = tx.one(
        f"SELECT {_QUESTION} FROM session_question WHERE session_id = :session_id AND kind = :kind "
        "AND request_id = :request_id",
        {"session_id": session_id, "kind": kind, "request_id": request_id},
    )
    return _asked(row) if row else None


def questions(tx: Tx, session_id: str) -> list[SessionQuestion]:
    """Everything that a session asked, oldest first."""
    rows = tx.all(f"SELECT {_QUESTION} FROM session_question WHERE session_id = :id ORDER BY id", {"id": session_id})
    return [_asked(row) for row in rows]


def pending(tx: Tx, workspace_id: str, limit: int) -> list[SessionQuestion]:
    """What a workspace's sessions wait for, oldest first."""
    rows = tx.all(
        f"SELECT {_QUESTION} FROM session_question WHERE workspace_id = :id AND state = 'pending' ORDER BY id "
        "LIMIT :limit",
        {"id": workspace_id, "limit": limit},
    )
    return [_asked(row) for row in rows]


def decide(tx: Tx, id: str, values: Mapping[str, Any]) -> bool:
    """Answer a question that is pending; False where it is not."""
    assigned = ", ".join(f"{name} = :{name}" for name in values)
    sql = f"UPDATE session_question SET {assigned} WHERE id = :id AND state = 'pending'"
    return tx.execute(sql, {"id": id, **values}) == 1


def withdraw(tx: Tx, session_id: str, now: int) -> None:
    """End what a session that is over still asks."""
    tx.execute(
        "UPDATE session_question SET state = 'withdrawn', decided_at = :now WHERE session_id = :id "
        "AND state = 'pending'",
        {"id": session_id, "now": now},
    )


def insert_message(tx: Tx, new: SessionMessage) -> None:
    """Keep a message until the agent was told."""
    tx.execute(
        "INSERT INTO session_message (id, session_id, text, said_by, created_at) "
        "VALUES (:id, :session_id, :text, :said_by, :created_at)",
        asdict(new),
    )


def undelivered(tx: Tx, session_id: str) -> list[SessionMessage]:
    """What the agent was not told yet, oldest first."""
    rows = tx.all(
        "SELECT id, session_id, text, said_by, created_at FROM session_message WHERE session_id = :id "
        "AND delivered_at IS NULL ORDER BY id",
        {"id": session_id},
    )
    return [SessionMessage(**row) for row in rows]


def deliver(tx: Tx, id: str, now: int) -> None:
    """Note that the agent was told."""
    tx.execute("UPDATE session_message SET delivered_at = :now WHERE id = :id", {"id": id, "now": now})


def _session(row: Row) -> AgentSession:
    values = {name: row[name] for name in _NAMES}
    values |= {
        "frozen": _frozen(json.loads(row["frozen"])),
        "principal": principal_from(row["principal"]),
        "started_by": principal_from(row["started_by"]),
        "key_ids": tuple(json.loads(row["key_ids"])),
        "result": None if row["result"] is None else json.loads(row["result"]),
        "error": None if row["error"] is None else json.loads(row["error"]),
    }
    return AgentSession(**values)


def _frozen(kept: dict[str, Any]) -> FrozenStart:
    spec = kept["spec"] | {"limits": AgentLimits(**kept["spec"]["limits"])}
    servers = tuple(
        FrozenServer(FrozenAttachment(**each["attachment"]), each["shape"], each["image"]) for each in kept["servers"]
    )
    # Sessions that were started before runners were pinned have none.
    runner = RunnerPin(**kept["runner"]) if kept.get("runner") else None
    return FrozenStart(**kept | {"spec": NewAgent(**spec), "servers": servers, "runner": runner})


def _asked(row: Row) -> SessionQuestion:
    values = {name: row[name] for name in _QUESTION_NAMES}
    values |= {"options": tuple(json.loads(row["options"])), "details": json.loads(row["details"])}
    return SessionQuestion(**values)
