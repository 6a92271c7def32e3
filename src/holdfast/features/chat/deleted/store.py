"""Owns the SQL of deleted chats."""

from holdfast.storage.database import Tx


def insert(tx: Tx, workspace_id: str, chat_id: str, content: str, now: int) -> None:
    """Keep what a chat was; one of the same id that was deleted before is not needed any more."""
    tx.execute(
        "INSERT INTO deleted_chat (workspace_id, id, content, deleted_at) VALUES (:workspace_id, :id, :content, :now) "
        "ON CONFLICT (workspace_id, id) DO UPDATE SET content = excluded.content, deleted_at = excluded.deleted_at",
        {"workspace_id": workspace_id, "id": chat_id, "content": content, "now": now},
    )


def take(tx: Tx, workspace_id: str, chat_id: str, since: int) -> str | None:
    """What a chat was that was deleted since then; it is not kept here any longer."""
    row = tx.one(
        "DELETE FROM deleted_chat WHERE workspace_id = :workspace_id AND id = :id AND deleted_at >= :since "
        "RETURNING content",
        # PostgreSQL takes no NUL, and no chat is named with one.
        {"workspace_id": workspace_id, "id": chat_id.replace("\x00", ""), "since": since},
    )
    return None if row is None else str(row["content"])


def purge(tx: Tx, before: int) -> int:
    """Remove what was deleted before then; how many."""
    return tx.execute("DELETE FROM deleted_chat WHERE deleted_at < :before", {"before": before})
