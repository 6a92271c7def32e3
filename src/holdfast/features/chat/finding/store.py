"""Owns the SQL that looks for chats over several workspaces."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.features.chat.finding import index
from holdfast.features.chat.model import Chat
from holdfast.features.chat.turn.trail import text_of
from holdfast.storage.database import Row, Tx

_CHAT = "c.workspace_id, c.id, c.title, c.endpoint, c.created_by, c.created_by_name, c.created_at, c.updated_at"


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A message that matches, or with an empty id a chat whose title does."""

    place: int
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
    tx: Tx, workspace_ids: Sequence[str], words: Sequence[str], before: int | None, limit: int
) -> list[FoundRow]:
    """Messages with every word, some perhaps in their chat's title, and chats whose title has all; newest first."""
    places = index.find(tx, workspace_ids, words, index.MOST_PLACE if before is None else before, limit)
    if not places:
        return []
    # What is found is of these workspaces by its words already; a row of another would be left out here once more.
    names, numbers = _names(workspace_ids), {f"place_{number}": place for number, place in enumerate(places)}
    rows = tx.all(
        f"SELECT {_CHAT}, w.place, w.message_id, COALESCE(m.role, '') AS role, COALESCE(m.message, '') AS message, "
        "COALESCE(m.created_at, c.created_at) AS said_at FROM chat_words w "
        "JOIN chat c ON c.workspace_id = w.workspace_id AND c.id = w.chat_id "
        "LEFT JOIN chat_message m ON m.id = w.message_id "
        f"WHERE w.place IN ({_listed(numbers)}) AND w.workspace_id IN ({_listed(names)}) ORDER BY w.place DESC",
        {**names, **numbers},
    )
    return [
        FoundRow(
            place=row["place"],
            chat=_chat(row),
            id=row["message_id"],
            role=row["role"],
            text=text_of(json.loads(row["message"])) if row["message"] else row["title"],
            at=row["said_at"],
        )
        for row in rows
    ]


def _names(workspace_ids: Sequence[str]) -> dict[str, str]:
    return {f"in_{number}": id for number, id in enumerate(workspace_ids)}


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(f":{name}" for name in names)


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
