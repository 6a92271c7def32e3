"""Owns the SQL that looks for chats over several workspaces."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.features.chat.model import Chat
from holdfast.features.chat.turn.trail import text_of
from holdfast.storage.database import Row, Tx

_CHAT = "c.workspace_id, c.id, c.title, c.endpoint, c.created_by, c.created_by_name, c.created_at, c.updated_at"


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A message that matches, or a chat whose title does before anything was said in it."""

    chat: Chat
    id: str
    role: str
    text: str
    at: int


def recent(tx: Tx, workspace_ids: Sequence[str], before: Sequence[str | int] | None, limit: int) -> list[Chat]:
    """Chats by their last message, newest first."""
    names = _names(workspace_ids)
    if not names:
        return []
    at, workspace_id, last = before or (2**62, "", "")
    rows = tx.all(
        f"SELECT {_CHAT}, (SELECT COUNT(*) FROM chat_message m WHERE m.workspace_id = c.workspace_id "
        f"AND m.chat_id = c.id) AS messages FROM chat c WHERE c.workspace_id IN ({_listed(names)}) "
        "AND (c.updated_at < :at OR (c.updated_at = :at AND (c.workspace_id < :workspace_id "
        "OR (c.workspace_id = :workspace_id AND c.id < :last)))) "
        "ORDER BY c.updated_at DESC, c.workspace_id DESC, c.id DESC LIMIT :limit",
        {**names, "at": at, "workspace_id": workspace_id, "last": last, "limit": limit},
    )
    return [_chat(row, int(row["messages"])) for row in rows]


def search(
    tx: Tx, workspace_ids: Sequence[str], words: Sequence[str], before: Sequence[str | int] | None, limit: int
) -> list[FoundRow]:
    """Messages that have every word, or stand below a title that has it, newest first."""
    names = _names(workspace_ids)
    if not names:
        return []
    wanted = {f"word_{number}": f"%{_plain(word)}%" for number, word in enumerate(words)}
    has = " AND ".join(
        f"(COALESCE(m.words, '') LIKE :{name} ESCAPE '\\' OR lower(c.title) LIKE :{name} ESCAPE '\\')"
        for name in wanted
    )
    at, last = before or (2**62, "")
    rows = tx.all(
        f"SELECT {_CHAT}, COALESCE(m.id, '') AS message_id, COALESCE(m.role, '') AS role, "
        "COALESCE(m.message, '{}') AS message, COALESCE(m.created_at, c.updated_at) AS said_at "
        "FROM chat c LEFT JOIN chat_message m ON m.workspace_id = c.workspace_id AND m.chat_id = c.id "
        f"AND m.role IN ('user', 'assistant') WHERE c.workspace_id IN ({_listed(names)}) AND {has} "
        "AND (COALESCE(m.created_at, c.updated_at) < :at OR (COALESCE(m.created_at, c.updated_at) = :at "
        "AND COALESCE(m.id, '') < :last)) ORDER BY said_at DESC, message_id DESC LIMIT :limit",
        {**names, **wanted, "at": at, "last": last, "limit": limit},
    )
    return [
        FoundRow(_chat(row), row["message_id"], row["role"], text_of(json.loads(row["message"])), row["said_at"])
        for row in rows
    ]


def _names(workspace_ids: Sequence[str]) -> dict[str, str]:
    return {f"in_{number}": id for number, id in enumerate(workspace_ids)}


def _listed(names: dict[str, str]) -> str:
    return ", ".join(f":{name}" for name in names)


def _plain(word: str) -> str:
    """A word for LIKE that stands for itself."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _chat(row: Row, messages: int = 0) -> Chat:
    return Chat(
        workspace_id=row["workspace_id"],
        id=row["id"],
        title=row["title"],
        endpoint=row["endpoint"],
        created_by=row["created_by"],
        created_by_name=row["created_by_name"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        messages=messages,
    )
