"""Owns how records are seen by other features."""

from collections.abc import Sequence

from holdfast.features.collections import store
from holdfast.features.collections.model import PASSAGE, RECORD
from holdfast.registry.entities import EntityType, Source
from holdfast.storage.database import Tx


def _title(tx: Tx, workspace_id: str, id: str) -> str | None:
    found = store.record(tx, workspace_id, id)
    return None if found is None else found.title


def _recent(tx: Tx, workspace_id: str, limit: int) -> Sequence[Source]:
    rows = store.newest(tx, workspace_id, limit)
    return [Source(RECORD, row.id, row.title, row.text, row.updated_at, row.type) for row in rows]


ENTITIES = (
    EntityType(name=RECORD, title=_title, recent=_recent),
    # Found only by who names their collection: nobody wrote them to be read.
    EntityType(name=PASSAGE, searched=None),
)
