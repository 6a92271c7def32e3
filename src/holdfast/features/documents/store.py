"""Owns the SQL of documents: their rows, their bytes in parts, and their passages."""

from collections.abc import Sequence

from holdfast.features.documents.model import Document, DocumentChunk, State
from holdfast.storage.database import Params, Row, Tx

_NAMES = (
    "id",
    "workspace_id",
    "filename",
    "title",
    "format",
    "language",
    "media_type",
    "size_bytes",
    "sha256",
    "state",
    "reason_code",
    "reason",
    "chunks",
    "characters",
    "truncated",
    "progress_done",
    "progress_total",
    "job_id",
    "created_by",
    "created_by_name",
    "created_at",
    "updated_at",
)
_COLUMNS = ", ".join(_NAMES)


def document(row: Row) -> Document:
    """A document from its row."""
    values = {name: row[name] for name in _NAMES}
    return Document(**{**values, "truncated": bool(row["truncated"])})


# Bytes


def begin_blob(tx: Tx, id: str, workspace_id: str, now: int) -> None:
    """Make room for the bytes of an upload."""
    tx.execute(
        "INSERT INTO document_blob (id, workspace_id, complete, touched_at) VALUES (:id, :workspace_id, 0, :now)",
        {"id": id, "workspace_id": workspace_id, "now": now},
    )


def add_part(tx: Tx, id: str, part: int, data: bytes, now: int) -> bool:
    """Keep the next bytes; False when the upload was given up meanwhile."""
    touched = tx.execute("UPDATE document_blob SET touched_at = :now WHERE id = :id", {"id": id, "now": now})
    if touched:
        tx.execute(
            "INSERT INTO document_blob_part (blob_id, part, data) VALUES (:id, :part, :data)",
            {"id": id, "part": part, "data": data},
        )
    return bool(touched)


def blob_workspace(tx: Tx, id: str) -> str | None:
    """The workspace that has bytes under this id, whole or not."""
    row = tx.one("SELECT workspace_id FROM document_blob WHERE id = :id", {"id": id})
    return str(row["workspace_id"]) if row else None


def complete_blob(tx: Tx, id: str) -> bool:
    """The upload is whole; False when it was given up meanwhile."""
    return tx.execute("UPDATE document_blob SET complete = 1 WHERE id = :id", {"id": id}) == 1


def delete_blob(tx: Tx, id: str) -> None:
    """Remove the bytes."""
    tx.execute("DELETE FROM document_blob WHERE id = :id", {"id": id})


def abandon_blob(tx: Tx, id: str) -> None:
    """Remove the bytes of an upload unless it became a document after all."""
    tx.execute("DELETE FROM document_blob WHERE id = :id AND complete = 0", {"id": id})


def delete_abandoned_blobs(tx: Tx, before: int) -> int:
    """Remove what uploads left that nobody has written to since; how many."""
    return tx.execute("DELETE FROM document_blob WHERE complete = 0 AND touched_at < :before", {"before": before})


def part(tx: Tx, id: str, number: int) -> bytes | None:
    """One part of the bytes; None after the last."""
    row = tx.one("SELECT data FROM document_blob_part WHERE blob_id = :id AND part = :part", {"id": id, "part": number})
    return bytes(row["data"]) if row else None


# Documents


def insert(tx: Tx, new: Document) -> bool:
    """Keep a new document; False when the workspace has these bytes already."""
    values = {name: getattr(new, name) for name in _NAMES}
    return (
        tx.execute(
            f"INSERT INTO document ({_COLUMNS}) VALUES ({', '.join(f':{name}' for name in _NAMES)}) "
            "ON CONFLICT (workspace_id, sha256) DO NOTHING",
            {**values, "truncated": int(new.truncated)},
        )
        == 1
    )


def find(tx: Tx, workspace_id: str, document_id: str) -> Document | None:
    """The workspace's document of this id."""
    return _one(tx, "workspace_id = :workspace_id AND id = :id", {"workspace_id": workspace_id, "id": document_id})


def find_by_hash(tx: Tx, workspace_id: str, sha256: str) -> Document | None:
    """The workspace's document with these bytes."""
    return _one(
        tx, "workspace_id = :workspace_id AND sha256 = :sha256", {"workspace_id": workspace_id, "sha256": sha256}
    )


def hold(tx: Tx, document_id: str) -> Document | None:
    """The document, which then cannot be deleted before the transaction ends."""
    row = tx.one(f"UPDATE document SET state = state WHERE id = :id RETURNING {_COLUMNS}", {"id": document_id})
    return document(row) if row else None


def page(
    tx: Tx, workspace_id: str, *, chat_id: str | None, state: State | None, before: str | None, limit: int
) -> list[Document]:
    """Documents, the last uploaded first."""
    where, params = "workspace_id = :workspace_id", {"workspace_id": workspace_id}
    if chat_id is not None:
        where += " AND id IN (SELECT document_id FROM document_chat WHERE chat_id = :chat_id)"
        params["chat_id"] = chat_id
    if state is not None:
        where += " AND state = :state"
        params["state"] = state
    if before is not None:
        where += " AND id < :before"
        params["before"] = before
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM document WHERE {where} ORDER BY id DESC LIMIT :limit", {**params, "limit": limit}
    )
    return [document(row) for row in rows]


def chat_documents(tx: Tx, workspace_id: str, chat_id: str) -> list[str]:
    """The ids of the documents uploaded to a chat."""
    rows = tx.all(
        "SELECT document_id FROM document_chat JOIN document ON document.id = document_id "
        "WHERE chat_id = :chat_id AND workspace_id = :workspace_id ORDER BY document_id",
        {"chat_id": chat_id, "workspace_id": workspace_id},
    )
    return [row["document_id"] for row in rows]


def link_chat(tx: Tx, document_id: str, chat_id: str) -> None:
    """The document belongs to this chat too."""
    tx.execute(
        "INSERT INTO document_chat (document_id, chat_id) VALUES (:document_id, :chat_id) ON CONFLICT DO NOTHING",
        {"document_id": document_id, "chat_id": chat_id},
    )


def queue(tx: Tx, document_id: str, job_id: str, now: int) -> None:
    """Have it read again from the beginning."""
    tx.execute(
        "UPDATE document SET state = 'queued', job_id = :job_id, reason_code = NULL, reason = NULL, "
        "progress_done = 0, progress_total = NULL, updated_at = :now WHERE id = :id",
        {"id": document_id, "job_id": job_id, "now": now},
    )


def advance(tx: Tx, document_id: str, state: State, *, done: int, total: int | None, now: int) -> None:
    """Say how far it is."""
    tx.execute(
        "UPDATE document SET state = :state, progress_done = :done, progress_total = :total, updated_at = :now "
        "WHERE id = :id",
        {"id": document_id, "state": state, "done": done, "total": total, "now": now},
    )


def describe(tx: Tx, document_id: str, *, title: str, chunks: int, characters: int, truncated: bool) -> None:
    """Keep what reading it found out."""
    tx.execute(
        "UPDATE document SET title = :title, chunks = :chunks, characters = :characters, truncated = :truncated "
        "WHERE id = :id",
        {
            "id": document_id,
            "title": title,
            "chunks": chunks,
            "characters": characters,
            "truncated": int(truncated),
        },
    )


def fail(tx: Tx, document_id: str, code: str, reason: str, now: int) -> None:
    """It cannot be read, and why."""
    tx.execute(
        "UPDATE document SET state = 'failed', reason_code = :code, reason = :reason, chunks = 0, characters = 0, "
        "updated_at = :now WHERE id = :id",
        {"id": document_id, "code": code, "reason": reason, "now": now},
    )


def delete(tx: Tx, document_id: str) -> None:
    """Remove the document with its passages, links and bytes."""
    tx.execute("DELETE FROM document WHERE id = :id", {"id": document_id})
    delete_blob(tx, document_id)


# Passages


def add_chunks(tx: Tx, document_id: str, chunks: Sequence[DocumentChunk]) -> None:
    """Keep passages; one kept already is replaced."""
    tx.many(
        "INSERT INTO document_chunk (document_id, number, heading, page, text) "
        "VALUES (:document_id, :number, :heading, :page, :text) "
        "ON CONFLICT (document_id, number) DO UPDATE SET heading = excluded.heading, page = excluded.page, "
        "text = excluded.text",
        [
            {
                "document_id": document_id,
                "number": chunk.number,
                "heading": chunk.heading,
                "page": chunk.page,
                "text": chunk.text,
            }
            for chunk in chunks
        ],
    )


def delete_chunks(tx: Tx, document_id: str) -> None:
    """Remove every passage."""
    tx.execute("DELETE FROM document_chunk WHERE document_id = :id", {"id": document_id})


def chunks(tx: Tx, document_id: str, *, start: int, limit: int) -> list[DocumentChunk]:
    """Passages in order, from a number on."""
    rows = tx.all(
        "SELECT number, heading, page, text FROM document_chunk WHERE document_id = :id AND number >= :start "
        "ORDER BY number LIMIT :limit",
        {"id": document_id, "start": start, "limit": limit},
    )
    return [DocumentChunk(row["number"], row["heading"], row["page"], row["text"]) for row in rows]


def _one(tx: Tx, where: str, params: Params) -> Document | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM document WHERE {where}", params)
    return document(row) if row else None
