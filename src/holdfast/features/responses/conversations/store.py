"""Owns the SQL of conversations."""

import json
from collections.abc import Mapping, Sequence

from holdfast.core.text.jsontext import dumps
from holdfast.engines.llm.model import Json
from holdfast.features.responses.conversations.model import MAX_ITEMS, Conversation, full
from holdfast.storage.database import Row, Tx

_COLUMNS = "id, workspace_id, project_id, metadata, created_at"
_AT_ONCE = 500


def insert(tx: Tx, new: Conversation) -> None:
    """Keep a new conversation."""
    tx.execute(
        f"INSERT INTO conversation ({_COLUMNS}) VALUES (:id, :workspace_id, :project_id, :metadata, :created_at)",
        {
            "id": new.id,
            "workspace_id": new.workspace_id,
            "project_id": new.project_id,
            "metadata": _text(dict(new.metadata)),
            "created_at": new.created_at,
        },
    )


def find(tx: Tx, project_id: str, conversation_id: str) -> Conversation | None:
    """A project's conversation."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM conversation WHERE id = :id AND project_id = :project_id",
        {"id": conversation_id.replace("\0", ""), "project_id": project_id},
    )
    return _conversation(row) if row else None


def set_metadata(tx: Tx, conversation_id: str, metadata: Mapping[str, str]) -> None:
    """Keep other metadata."""
    tx.execute(
        "UPDATE conversation SET metadata = :metadata WHERE id = :id",
        {"id": conversation_id, "metadata": _text(dict(metadata))},
    )


def delete(tx: Tx, conversation_id: str) -> None:
    """Forget a conversation with its items."""
    tx.execute("DELETE FROM conversation WHERE id = :id", {"id": conversation_id})


def append(tx: Tx, conversation_id: str, items: Sequence[Json], *, most: int = MAX_ITEMS) -> None:
    """Add items at the end; one that is there already stays where it is. Nothing, where the conversation is gone."""
    # Holds its row, so that items are numbered one transaction at a time.
    if not tx.execute("UPDATE conversation SET metadata = metadata WHERE id = :id", {"id": conversation_id}):
        return
    row = tx.one(
        "SELECT COALESCE(MAX(number), 0) AS last, COUNT(*) AS items FROM conversation_item WHERE conversation_id = :id",
        {"id": conversation_id},
    )
    assert row is not None
    if int(row["items"]) + len(items) > most:
        raise full()
    for number, item in enumerate(items, int(row["last"]) + 1):
        tx.execute(
            "INSERT INTO conversation_item (conversation_id, id, number, item) VALUES (:conversation_id, :id, :number, "
            ":item) ON CONFLICT (conversation_id, id) DO NOTHING",
            {"conversation_id": conversation_id, "id": item["id"], "number": number, "item": _text(item)},
        )


def items(
    tx: Tx, conversation_id: str, *, after: str | None = None, descending: bool = False, limit: int = MAX_ITEMS
) -> list[Json]:
    """Items in their order, or from the last one back."""
    beyond, direction = ("<", "DESC") if descending else (">", "ASC")
    where, params = "conversation_id = :conversation_id", {"conversation_id": conversation_id}
    if after is not None:
        where += f" AND number {beyond} (SELECT number FROM conversation_item WHERE {where} AND id = :after)"
        params["after"] = after.replace("\0", "")
    rows = tx.all(
        f"SELECT item FROM conversation_item WHERE {where} ORDER BY number {direction} LIMIT :limit",
        {**params, "limit": limit},
    )
    return [json.loads(row["item"]) for row in rows]


def find_item(tx: Tx, conversation_id: str, item_id: str) -> Json | None:
    """One item of a conversation."""
    row = tx.one(
        "SELECT item FROM conversation_item WHERE conversation_id = :conversation_id AND id = :id",
        {"conversation_id": conversation_id, "id": item_id.replace("\0", "")},
    )
    return json.loads(row["item"]) if row else None


def referenced(tx: Tx, project_id: str, item_ids: Sequence[str]) -> list[tuple[str, Json]]:
    """The items of these ids in a project's conversations, each with its workspace."""
    found: list[tuple[str, Json]] = []
    for start in range(0, len(item_ids), _AT_ONCE):
        names = {f"id_{number}": id for number, id in enumerate(item_ids[start : start + _AT_ONCE])}
        rows = tx.all(
            "SELECT workspace_id, item FROM conversation_item JOIN conversation ON conversation.id = conversation_id "
            "WHERE project_id = :project_id AND conversation_item.id IN ("
            + ", ".join(f":{name}" for name in names)
            + ")",
            {"project_id": project_id, **names},
        )
        found += [(row["workspace_id"], json.loads(row["item"])) for row in rows]
    return found


def delete_item(tx: Tx, conversation_id: str, item_id: str) -> bool:
    """Take an item out; False where it is not there."""
    return bool(
        tx.execute(
            "DELETE FROM conversation_item WHERE conversation_id = :conversation_id AND id = :id",
            {"conversation_id": conversation_id, "id": item_id.replace("\0", "")},
        )
    )


def _conversation(row: Row) -> Conversation:
    return Conversation(
        row["id"], row["workspace_id"], row["project_id"], json.loads(row["metadata"]), row["created_at"]
    )


def _text(value: object) -> str:
    return dumps(value).decode()
