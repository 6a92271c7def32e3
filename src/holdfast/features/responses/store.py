"""Owns the SQL of responses."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from holdfast.core.principal import Principal
from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.model import Json
from holdfast.features.responses.model import ResponseRequest, Status, Stored
from holdfast.storage.database import Row, Tx

_COLUMNS = (
    "id, workspace_id, project_id, endpoint, previous_id, status, request, input, response, principal, job_id, "
    "created_at, updated_at"
)


_AT_ONCE = 500
_BATCHES = 50


def insert(tx: Tx, stored: Stored) -> None:
    """Keep a new response."""
    asked = stored.asked
    values = {
        "id": asked.id,
        "workspace_id": asked.workspace_id,
        "project_id": asked.project_id,
        "endpoint": asked.endpoint,
        "previous_id": asked.previous_id,
        "status": stored.status,
        # The input is kept on its own.
        "request": _text({key: value for key, value in asked.request.items() if key != "input"}),
        "input": _text(asked.items),
        "response": _text(stored.response),
        "principal": _principal_text(stored.principal),
        "job_id": stored.job_id,
        "created_at": asked.created_at,
        "updated_at": asked.created_at,
    }
    tx.execute(
        f"INSERT INTO response ({_COLUMNS}) VALUES ({', '.join(f':{name.strip()}' for name in _COLUMNS.split(','))})",
        values,
    )


def find(tx: Tx, response_id: str, project_id: str) -> Stored | None:
    """A project's response."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM response WHERE id = :id AND project_id = :project_id",
        {"id": response_id, "project_id": project_id},
    )
    return _stored(row) if row else None


def links(tx: Tx, response_id: str, project_id: str) -> tuple[str | None, str, list[Json], list[Json]] | None:
    """What a conversation needs of a response: the one before it, its workspace, its input and its output."""
    row = tx.one(
        "SELECT previous_id, workspace_id, input, response FROM response WHERE id = :id AND project_id = :project_id",
        {"id": response_id, "project_id": project_id},
    )
    if row is None:
        return None
    return row["previous_id"], row["workspace_id"], json.loads(row["input"]), json.loads(row["response"])["output"]


def index_items(tx: Tx, stored: Stored) -> None:
    """Let the response's items be referred to. The first of an id stays what it is: others may send any id."""
    for id in dict.fromkeys(item["id"] for item in (*stored.asked.items, *stored.response["output"])):
        tx.execute(
            "INSERT INTO response_item (workspace_id, id, response_id) VALUES (:workspace_id, :id, :response_id) "
            "ON CONFLICT (workspace_id, id) DO NOTHING",
            {"workspace_id": stored.asked.workspace_id, "id": id, "response_id": stored.asked.id},
        )


def referenced(tx: Tx, project_id: str, item_ids: Sequence[str]) -> list[tuple[str, Json]]:
    """The items of these ids in a project's responses, each with its workspace."""
    found: list[tuple[str, Json]] = []
    for start in range(0, len(item_ids), _AT_ONCE):
        wanted = item_ids[start : start + _AT_ONCE]
        names = {f"id_{number}": id for number, id in enumerate(wanted)}
        rows = tx.all(
            "SELECT workspace_id, input, response FROM response WHERE project_id = :project_id AND id IN ("
            "SELECT response_id FROM response_item WHERE id IN (" + ", ".join(f":{name}" for name in names) + "))",
            {"project_id": project_id, **names},
        )
        for row in rows:
            items = (*json.loads(row["input"]), *json.loads(row["response"])["output"])
            found += [(row["workspace_id"], item) for item in items if item["id"] in wanted]
    return found


def end(tx: Tx, response_id: str, status: Status, response: Mapping[str, Any], now: int) -> bool:
    """Write how an open response goes on; False where it is over already."""
    return bool(
        tx.execute(
            "UPDATE response SET status = :status, response = :response, updated_at = :now "
            "WHERE id = :id AND status IN ('queued', 'in_progress')",
            {"id": response_id, "status": status, "response": _text(response), "now": now},
        )
    )


def add_events(tx: Tx, response_id: str, events: Sequence[Json]) -> None:
    """Write down what an open response told; nothing, where it is over or gone."""
    tx.execute(
        "INSERT INTO response_event (response_id, first, events) SELECT id, :first, :events FROM response "
        "WHERE id = :id AND status IN ('queued', 'in_progress')",
        {"id": response_id, "first": events[0]["sequence_number"], "events": _text(events)},
    )


def all_events(tx: Tx, response_id: str) -> Iterator[Json]:
    """Everything that a response told so far."""
    for row in tx.all("SELECT events FROM response_event WHERE response_id = :id", {"id": response_id}):
        yield from json.loads(row["events"])


def events_after(tx: Tx, response_id: str, number: int) -> list[Json]:
    """What a response told after an event, as much as was written down in the next few transactions."""
    rows = tx.all(
        "SELECT events FROM response_event WHERE response_id = :id AND first >= COALESCE((SELECT MAX(first) "
        "FROM response_event WHERE response_id = :id AND first <= :next), 0) ORDER BY first LIMIT :limit",
        {"id": response_id, "next": number + 1, "limit": _BATCHES},
    )
    return [event for row in rows for event in json.loads(row["events"]) if event["sequence_number"] > number]


def last_events(tx: Tx, response_id: str) -> list[Json]:
    """What a response told last."""
    row = tx.one(
        "SELECT events FROM response_event WHERE response_id = :id ORDER BY first DESC LIMIT 1", {"id": response_id}
    )
    return list(json.loads(row["events"])) if row else []


def delete(tx: Tx, response_id: str) -> None:
    """Forget a response."""
    tx.execute("DELETE FROM response WHERE id = :id", {"id": response_id})


def delete_before(tx: Tx, workspace_id: str, moment: int) -> None:
    """Forget what is old."""
    tx.execute(
        "DELETE FROM response WHERE workspace_id = :workspace_id AND created_at < :moment",
        {"workspace_id": workspace_id, "moment": moment},
    )


def _stored(row: Row) -> Stored:
    asked = ResponseRequest(
        id=row["id"],
        project_id=row["project_id"],
        workspace_id=row["workspace_id"],
        endpoint=row["endpoint"],
        request=json.loads(row["request"]),
        items=json.loads(row["input"]),
        history=[],
        created_at=row["created_at"],
    )
    return Stored(asked, row["status"], json.loads(row["response"]), _principal(row["principal"]), row["job_id"])


def _principal_text(principal: Principal) -> str:
    fields = asdict(principal)
    ids = principal.workspace_ids
    return _text({**fields, "scopes": sorted(principal.scopes), "workspace_ids": None if ids is None else sorted(ids)})


def _principal(text: str) -> Principal:
    fields = json.loads(text)
    ids = fields["workspace_ids"]
    return Principal(
        **{
            **fields,
            "scopes": frozenset(fields["scopes"]),
            "workspace_ids": None if ids is None else frozenset(ids),
        }
    )


def _text(value: Any) -> str:
    return dumps(value).decode()
