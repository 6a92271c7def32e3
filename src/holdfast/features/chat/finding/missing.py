"""Owns the SQL of taking into the index what was said in chats before there was one."""

import json

from holdfast.features.chat.finding import index
from holdfast.features.chat.turn.trail import text_of
from holdfast.storage.database import Tx

MESSAGES_AT_ONCE = 200


def fill(tx: Tx) -> int:
    """Take some of what a migration left into the index, the newest first; how many."""
    rows = tx.all(
        "SELECT x.workspace_id, x.chat_id, x.message_id, c.title, m.message, "
        "COALESCE(m.created_at, c.created_at) AS at FROM chat_words_missing x "
        "JOIN chat c ON c.workspace_id = x.workspace_id AND c.id = x.chat_id "
        "LEFT JOIN chat_message m ON m.id = x.message_id ORDER BY x.message_id DESC LIMIT :limit",
        {"limit": MESSAGES_AT_ONCE},
    )
    for row in rows:
        place = row["workspace_id"], row["chat_id"]
        if row["message_id"] == index.TITLE:
            index.put_title(tx, *place, row["title"], row["at"])
        elif row["message"] is not None:
            index.put_message(tx, *place, row["message_id"], text_of(json.loads(row["message"])), row["at"])
    tx.many(
        "DELETE FROM chat_words_missing WHERE workspace_id = :workspace_id AND chat_id = :chat_id "
        "AND message_id = :message_id",
        [{name: row[name] for name in ("workspace_id", "chat_id", "message_id")} for row in rows],
    )
    return len(rows)
