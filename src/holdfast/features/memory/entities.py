"""Owns how memories are seen by other features."""

from collections.abc import Sequence

from holdfast.features.memory import store
from holdfast.features.memory.model import ENTITY, Filters
from holdfast.registry.entities import EntityType, Source
from holdfast.storage.database import Tx


def _title(tx: Tx, workspace_id: str, id: str) -> str | None:
    found = store.find(tx, workspace_id, id)
    return found.title if found and found.id == id else None


def _id_of(tx: Tx, workspace_id: str, slug: str) -> str | None:
    found = store.find(tx, workspace_id, slug)
    return found.id if found else None


def _recent(tx: Tx, workspace_id: str, limit: int) -> Sequence[Source]:
    rows = store.page(tx, workspace_id, Filters(), None, limit)
    return [Source(ENTITY, row.id, row.title, row.content, row.learned_at, row.category) for row in rows]


ENTITIES = (EntityType(name=ENTITY, title=_title, id_of=_id_of, recent=_recent, other_names=("memories",)),)
