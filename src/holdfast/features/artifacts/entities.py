"""Owns how artifacts are seen by other features."""

from collections.abc import Sequence

from holdfast.features.artifacts import store
from holdfast.features.artifacts.model import ArtifactReference
from holdfast.features.artifacts.passages import TYPE
from holdfast.registry.entities import EntityType, Source
from holdfast.storage.database import Tx


def _title(tx: Tx, workspace_id: str, id: str) -> str | None:
    found = store.find(tx, workspace_id, ArtifactReference(artifact_id=id))
    return found.title if found and found.id == id else None


def _id_of(tx: Tx, workspace_id: str, identifier: str) -> str | None:
    found = store.find(tx, workspace_id, ArtifactReference(identifier=identifier))
    return found.id if found else None


def _recent(tx: Tx, workspace_id: str, limit: int) -> Sequence[Source]:
    rows = store.page(tx, workspace_id, chat_id=None, type=None, limit=limit)
    return [Source(TYPE, row.id, row.title, row.identifier, row.updated_at, row.type) for row in rows]


ENTITIES = (EntityType(name=TYPE, title=_title, id_of=_id_of, recent=_recent),)
