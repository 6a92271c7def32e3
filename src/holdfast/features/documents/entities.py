"""Owns how documents are seen by other features."""

from collections.abc import Sequence

from holdfast.features.documents import store
from holdfast.features.documents.ingest import TYPE
from holdfast.registry.entities import EntityType, Source
from holdfast.storage.database import Tx


def _title(tx: Tx, workspace_id: str, id: str) -> str | None:
    found = store.find(tx, workspace_id, id)
    return found.title if found else None


def _recent(tx: Tx, workspace_id: str, limit: int) -> Sequence[Source]:
    rows = store.page(tx, workspace_id, chat_id=None, state="ready", before=None, limit=limit)
    return [Source(TYPE, row.id, row.title, _beginning(tx, row.id), row.created_at, row.format) for row in rows]


def _beginning(tx: Tx, document_id: str) -> str:
    return "\n\n".join(chunk.text for chunk in store.chunks(tx, document_id, start=0, limit=1))


ENTITIES = (EntityType(name=TYPE, title=_title, recent=_recent),)
