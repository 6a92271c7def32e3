"""Owns the way of exported records into a workspace, and of what is said of the edges between them."""

from dataclasses import replace

from holdfast.features.collections import store as collections
from holdfast.features.collections.model import (
    MAX_DATA_BYTES,
    MAX_SOURCE,
    RECORD,
    EdgeFacts,
    checked_collection,
    checked_line,
    checked_object,
    checked_type,
    title_of,
)
from holdfast.features.collections.service import MAX_PROPERTIES_BYTES, ensure_collection, entry_of
from holdfast.features.collections.vectors import VectorCollections
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.interchange.model import KeptRecord, KeptRelation, KeptVector
from holdfast.features.interchange.restore import NotImported, Restore


def bring_record(restore: Restore, item: KeptRecord) -> None:
    """A record, in the collection that it was in."""
    kept = item.record
    checked_collection(kept.collection)
    checked_type(kept.type)
    checked_line(kept.source, "source", MAX_SOURCE)
    data = checked_object(kept.data, "data", MAX_DATA_BYTES)
    if not data:
        raise NotImported("it says nothing")
    if kept.confidence is not None and not 0 <= kept.confidence <= 1:
        raise NotImported("its confidence is not from 0 to 1")
    id, here = restore.local(RECORD, kept.id)
    made = replace(
        kept,
        id=id,
        workspace_id=restore.workspace_id,
        title=title_of(kept.type, data),
        author=restore.whose(kept.author),
        created_at=restore.past(kept.created_at),
        updated_at=restore.past(kept.updated_at),
    )
    if here:
        found = collections.record(restore.tx, restore.workspace_id, id)
        restore.compare(found is not None and replace(made, author=found.author) == found)
        return
    ensure_collection(restore.tx, restore.workspace_id, kept.collection, restore.now, restore.principal.actor)
    collections.put_record(restore.tx, made)
    restore.known(RECORD, kept.id, id)
    restore.entries.append(entry_of(made, restore.principal.name))
    restore.report.create(RECORD)


def bring_vector(vectors: VectorCollections, item: KeptVector, restore: Restore) -> None:
    """A text or a given vector, in the collection that it was in; texts are embedded here."""
    kept = replace(
        item.vector, author=restore.whose(item.vector.author), updated_at=restore.past(item.vector.updated_at)
    )
    made = vectors.bring(restore.tx, restore.principal, restore.workspace_id, kept)
    if made:
        restore.report.create("vector")
    else:
        restore.compare(made is not None)


def bring_relation(restore: Restore, item: KeptRelation) -> None:
    """A tie, and what was said of it as an edge; what is said of it here already stays."""
    edge = item.edge
    if edge is not None:
        _check(edge)
    made = restore.relation(item)
    if edge is None:
        return
    tie = relation_store.same(restore.tx, restore.workspace_id, made.start, made.end, made.relation)
    if tie is not None and not collections.facts_of_edges(restore.tx, restore.workspace_id, [tie.id]):
        ensure_collection(restore.tx, restore.workspace_id, edge.collection, restore.now, restore.principal.actor)
        collections.put_edge(restore.tx, tie.id, restore.workspace_id, edge.collection, edge.properties)


def _check(edge: EdgeFacts) -> None:
    checked_collection(edge.collection)
    checked_object(edge.properties, "properties", MAX_PROPERTIES_BYTES)
