"""Owns the index of what was said in chats: on both stores a table that is searched through its words."""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from holdfast.features.chat.finding.words import fts_query, indexed, retitled, tsquery
from holdfast.storage.database import Tx

TITLE = ""
"""What stands for a message's id where a chat is found by its title."""
_PLACES_A_MILLISECOND = 1 << 20
MOST_PLACE = 2**63 - 1
WORKSPACES_AT_ONCE = 50
_SQLITE = """
SELECT rowid AS place FROM chat_words_index WHERE chat_words_index MATCH :query AND rowid < :before
ORDER BY rowid DESC LIMIT :limit
"""
# What is said often is among the newest already; what is not is looked up. Left to choose, the planner reads all
# messages in order for a word of which it knows nothing.
_NEWEST = """
SELECT place FROM (SELECT place, lexemes FROM chat_words WHERE workspace_id = :workspace_id AND place < :before
ORDER BY place DESC LIMIT 500) newest WHERE lexemes @@ :query::tsquery ORDER BY place DESC LIMIT :limit
"""
_LOOKED_UP = """
WITH found AS MATERIALIZED (SELECT place FROM chat_words WHERE lexemes @@ :query::tsquery AND place < :before)
SELECT place FROM found ORDER BY place DESC LIMIT :limit
"""


def put_title(tx: Tx, workspace_id: str, chat_id: str, title: str, at: int) -> None:
    """Find the chat by its title."""
    _put(tx, workspace_id, chat_id, TITLE, indexed(workspace_id, title, ""), at)


def put_message(tx: Tx, workspace_id: str, chat_id: str, message_id: str, said: str, at: int) -> None:
    """Find the message by its words, and by those of its chat's title beside them."""
    if not said.strip():
        return
    row = tx.one(
        "SELECT title FROM chat WHERE workspace_id = :workspace_id AND id = :chat_id",
        {"workspace_id": workspace_id, "chat_id": chat_id},
    )
    words = indexed(workspace_id, said, str(row["title"]) if row else "")
    _put(tx, workspace_id, chat_id, message_id, words, at)


def retitle(tx: Tx, workspace_id: str, chat_id: str, title: str) -> None:
    """Find the chat and its messages by another title."""
    rows = tx.all(
        "SELECT place, message_id, words FROM chat_words WHERE workspace_id = :workspace_id AND chat_id = :chat_id",
        {"workspace_id": workspace_id, "chat_id": chat_id},
    )
    alone = indexed(workspace_id, title, "")
    tx.many(
        "UPDATE chat_words SET words = :words WHERE place = :place",
        [
            {
                "place": row["place"],
                "words": alone if row["message_id"] == TITLE else retitled(workspace_id, row["words"], title),
            }
            for row in rows
        ],
    )


def find(tx: Tx, workspace_ids: Sequence[str], words: Sequence[str], before: int, limit: int) -> list[int]:
    """The places of what has these words, newest first."""
    within: dict[str, Any] = {"before": before, "limit": limit}
    if tx.dialect == "postgresql" and len(workspace_ids) == 1:
        query = tsquery(workspace_ids, words)
        rows = tx.all(_NEWEST, {**within, "workspace_id": workspace_ids[0], "query": query})
        if len(rows) == limit:
            return [int(row["place"]) for row in rows]
    statement, asked = (_SQLITE, fts_query) if tx.dialect == "sqlite" else (_LOOKED_UP, tsquery)
    found: list[int] = []
    for start in range(0, len(workspace_ids), WORKSPACES_AT_ONCE):
        query = asked(workspace_ids[start : start + WORKSPACES_AT_ONCE], words)
        found += [int(row["place"]) for row in tx.all(statement, {**within, "query": query})]
    return sorted(found, reverse=True)[:limit]


def _put(tx: Tx, workspace_id: str, chat_id: str, message_id: str, words: str, at: int) -> None:
    """Keep a row of the index; one that is there already stays."""
    key = {"workspace_id": workspace_id, "chat_id": chat_id, "message_id": message_id}
    place = (
        at * _PLACES_A_MILLISECOND + crc32(f"{workspace_id} {chat_id} {message_id}".encode()) % _PLACES_A_MILLISECOND
    )
    while not tx.execute(
        "INSERT INTO chat_words (place, workspace_id, chat_id, message_id, words) "
        "VALUES (:place, :workspace_id, :chat_id, :message_id, :words) ON CONFLICT DO NOTHING",
        {**key, "place": place, "words": words},
    ):
        if tx.one(
            "SELECT 1 AS found FROM chat_words WHERE workspace_id = :workspace_id AND chat_id = :chat_id "
            "AND message_id = :message_id",
            key,
        ):
            return
        place += 1
