"""Owns the SQL of vector stores and of the files in them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.features.documents.vector_stores.model import (
    AttributeValue,
    FileCounts,
    FileStatus,
    ListPart,
    VectorStore,
    VectorStoreFile,
)
from holdfast.storage.database import Params, Row, Tx

_COLUMNS = "id, workspace_id, name, metadata, expires_after_days, created_by, created_at, last_active_at"
_FILE_COLUMNS = (
    "vector_store_id, document_id, attributes, vector_store_file.created_at AS added_at, state, reason_code, reason, "
    "size_bytes, filename"
)
_FILES = "vector_store_file JOIN document ON document.id = vector_store_file.document_id"
_STATUS: dict[str, FileStatus] = {"ready": "completed", "failed": "failed"}
# Which states a status is made of, as SQL says it.
_STATES = {
    "completed": "state = 'ready'",
    "failed": "state = 'failed'",
    "in_progress": "state NOT IN ('ready', 'failed')",
}


def insert(tx: Tx, new: VectorStore) -> None:
    """Keep a new store."""
    tx.execute(
        f"INSERT INTO vector_store ({_COLUMNS}) VALUES (:id, :workspace_id, :name, :metadata, :expires_after_days, "
        ":created_by, :created_at, :last_active_at)",
        _params(new),
    )


def update(tx: Tx, changed: VectorStore) -> None:
    """Keep what of a store is different now."""
    tx.execute(
        "UPDATE vector_store SET name = :name, metadata = :metadata, expires_after_days = :expires_after_days, "
        "last_active_at = :last_active_at WHERE id = :id",
        _params(changed),
    )


def touch(tx: Tx, vector_store_id: str, now: int) -> None:
    """It was used just now."""
    tx.execute("UPDATE vector_store SET last_active_at = :now WHERE id = :id", {"id": vector_store_id, "now": now})


def delete(tx: Tx, vector_store_id: str) -> None:
    """Remove the store; the documents stay."""
    tx.execute("DELETE FROM vector_store WHERE id = :id", {"id": vector_store_id})


def find(tx: Tx, workspace_id: str, vector_store_id: str) -> VectorStore | None:
    """The workspace's store of this id, with its counts."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM vector_store WHERE workspace_id = :workspace_id AND id = :id",
        {"workspace_id": workspace_id, "id": vector_store_id},
    )
    return _counted(tx, _vector_store(row)) if row else None


def page(tx: Tx, workspace_id: str, listing: ListPart) -> list[VectorStore]:
    """Stores by creation, one more than asked for if there are more."""
    where, params = "workspace_id = :workspace_id", {"workspace_id": workspace_id}
    for word, edge in (("after", listing.after), ("before", listing.before)):
        if edge is not None:
            where += f" AND id {_beyond(word, listing.descending)} :{word}"
            params[word] = edge
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM vector_store WHERE {where} ORDER BY id {_direction(listing)} LIMIT :limit",
        {**params, "limit": listing.limit + 1},
    )
    return [_counted(tx, _vector_store(row)) for row in rows]


def add_file(
    tx: Tx, vector_store_id: str, document_id: str, attributes: Mapping[str, AttributeValue], now: int
) -> None:
    """Put a document into the store; one that is in it already gets the new attributes."""
    tx.execute(
        "INSERT INTO vector_store_file (vector_store_id, document_id, attributes, created_at) "
        "VALUES (:vector_store_id, :document_id, :attributes, :now) "
        "ON CONFLICT (vector_store_id, document_id) DO UPDATE SET attributes = excluded.attributes",
        {
            "vector_store_id": vector_store_id,
            "document_id": document_id,
            "attributes": json.dumps(attributes),
            "now": now,
        },
    )


def remove_file(tx: Tx, vector_store_id: str, document_id: str) -> bool:
    """Take a document out of the store; False when it is not in it."""
    return (
        tx.execute(
            "DELETE FROM vector_store_file WHERE vector_store_id = :vector_store_id AND document_id = :document_id",
            {"vector_store_id": vector_store_id, "document_id": document_id},
        )
        == 1
    )


def find_file(tx: Tx, vector_store_id: str, document_id: str) -> VectorStoreFile | None:
    """One document of the store."""
    row = tx.one(
        f"SELECT {_FILE_COLUMNS} FROM {_FILES} WHERE vector_store_id = :vector_store_id AND document_id = :document_id",
        {"vector_store_id": vector_store_id, "document_id": document_id},
    )
    return _file(row) if row else None


def files(
    tx: Tx,
    vector_store_id: str,
    listing: ListPart,
    status: FileStatus | None,
    document_ids: Sequence[str] | None = None,
) -> list[VectorStoreFile]:
    """Documents of the store by when they were added, one more than asked for if there are more."""
    where, params = "vector_store_id = :vector_store_id", {"vector_store_id": vector_store_id}
    if document_ids is not None:
        names = {f"document_{number}": id for number, id in enumerate(document_ids)}
        where += f" AND document_id IN ({', '.join(f':{name}' for name in names)})"
        params |= names
    if status is not None:
        where += f" AND {_STATES[status]}"
    for word, edge in (("after", listing.after), ("before", listing.before)):
        if edge is not None:
            beyond = _beyond(word, listing.descending)
            where += (
                f" AND (vector_store_file.created_at, document_id) {beyond} (SELECT f.created_at, f.document_id "
                f"FROM vector_store_file f WHERE f.vector_store_id = :vector_store_id AND f.document_id = :{word})"
            )
            params[word] = edge
    direction = _direction(listing)
    rows = tx.all(
        f"SELECT {_FILE_COLUMNS} FROM {_FILES} WHERE {where} "
        f"ORDER BY vector_store_file.created_at {direction}, document_id {direction} LIMIT :limit",
        {**params, "limit": listing.limit + 1},
    )
    return [_file(row) for row in rows]


def attributes(tx: Tx, vector_store_id: str) -> dict[str, Mapping[str, AttributeValue]]:
    """The attributes of every document in the store."""
    rows = tx.all(
        "SELECT document_id, attributes FROM vector_store_file WHERE vector_store_id = :id", {"id": vector_store_id}
    )
    return {row["document_id"]: json.loads(row["attributes"]) for row in rows}


def statuses(tx: Tx, vector_store_id: str, document_ids: Sequence[str]) -> dict[str, FileStatus]:
    """How far those of the documents are that the store holds."""
    names = {f"document_{number}": id for number, id in enumerate(document_ids)}
    rows = tx.all(
        f"SELECT document_id, state FROM {_FILES} WHERE vector_store_id = :id AND document_id IN ("
        + ", ".join(f":{name}" for name in names)
        + ")",
        {"id": vector_store_id, **names},
    )
    return {row["document_id"]: _STATUS.get(row["state"], "in_progress") for row in rows}


def insert_batch(tx: Tx, id: str, vector_store_id: str, document_ids: Sequence[str], now: int) -> None:
    """Keep which documents were added together."""
    tx.execute(
        "INSERT INTO vector_store_batch (id, vector_store_id, document_ids, cancelled, created_at) "
        "VALUES (:id, :vector_store_id, :document_ids, 0, :now)",
        {"id": id, "vector_store_id": vector_store_id, "document_ids": json.dumps(list(document_ids)), "now": now},
    )


def find_batch(tx: Tx, vector_store_id: str, batch_id: str) -> tuple[list[str], bool, int] | None:
    """A batch's documents, whether it was cancelled, and when it was made."""
    row = tx.one(
        "SELECT document_ids, cancelled, created_at FROM vector_store_batch "
        "WHERE id = :id AND vector_store_id = :vector_store_id",
        {"id": batch_id, "vector_store_id": vector_store_id},
    )
    return (json.loads(row["document_ids"]), bool(row["cancelled"]), row["created_at"]) if row else None


def cancel_batch(tx: Tx, batch_id: str) -> None:
    """Say that the rest of a batch was taken out."""
    tx.execute("UPDATE vector_store_batch SET cancelled = 1 WHERE id = :id", {"id": batch_id})


def _counted(tx: Tx, store: VectorStore) -> VectorStore:
    rows = tx.all(
        f"SELECT state, COUNT(*) AS number, SUM(size_bytes) AS bytes FROM {_FILES} WHERE vector_store_id = :id "
        "GROUP BY state",
        {"id": store.id},
    )
    numbers = {"in_progress": 0, "completed": 0, "failed": 0}
    for row in rows:
        numbers[_STATUS.get(row["state"], "in_progress")] += int(row["number"])
    return replace(store, counts=FileCounts(**numbers), usage_bytes=sum(int(row["bytes"]) for row in rows))


def _vector_store(row: Row) -> VectorStore:
    return VectorStore(
        id=row["id"],
        workspace_id=row["workspace_id"],
        name=row["name"],
        metadata=json.loads(row["metadata"]),
        expires_after_days=row["expires_after_days"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        last_active_at=row["last_active_at"],
    )


def _file(row: Row) -> VectorStoreFile:
    return VectorStoreFile(
        vector_store_id=row["vector_store_id"],
        document_id=row["document_id"],
        attributes=json.loads(row["attributes"]),
        created_at=row["added_at"],
        status=_STATUS.get(row["state"], "in_progress"),
        reason_code=row["reason_code"],
        reason=row["reason"],
        usage_bytes=row["size_bytes"],
        filename=row["filename"],
    )


def _params(store: VectorStore) -> Params:
    return {
        "id": store.id,
        "workspace_id": store.workspace_id,
        "name": store.name,
        "metadata": json.dumps(dict(store.metadata)),
        "expires_after_days": store.expires_after_days,
        "created_by": store.created_by,
        "created_at": store.created_at,
        "last_active_at": store.last_active_at,
    }


def _direction(listing: ListPart) -> str:
    return "DESC" if listing.descending else "ASC"


def _beyond(word: str, descending: bool) -> str:
    return "<" if (word == "after") == descending else ">"
