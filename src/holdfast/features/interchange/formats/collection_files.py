"""Owns the export files of records that agents keep, and what files of relations say of edges between them."""

from typing import Any

from holdfast.features.collections.model import (
    MAX_DATA_BYTES,
    MAX_DIMENSIONS,
    MAX_METADATA_BYTES,
    MAX_SOURCE,
    MAX_TEXT,
    CollectionVector,
    EdgeFacts,
    GraphRecord,
)
from holdfast.features.collections.service import MAX_PROPERTIES_BYTES
from holdfast.features.interchange.formats.fields import Fields
from holdfast.features.interchange.formats.records import RecordForm
from holdfast.features.interchange.model import Item, KeptRecord, KeptVector

RECORD = RecordForm(
    GraphRecord,
    {
        "workspace_id": "it is that of the workspace which takes it in",
        "title": "it is made from the type and the data",
    },
    most={"data": MAX_DATA_BYTES, "source": MAX_SOURCE},
)
EDGE = RecordForm(
    EdgeFacts,
    {"relation_id": "it stands in the line of that relation"},
    ids=frozenset(),
    most={"properties": MAX_PROPERTIES_BYTES},
)
_HALVES_BYTES = 4 * -(-2 * MAX_DIMENSIONS // 3)
VECTOR = RecordForm(
    CollectionVector,
    {},
    ids=frozenset(),
    most={"text": MAX_TEXT, "vector": _HALVES_BYTES, "metadata": MAX_METADATA_BYTES},
)
FORMS: tuple[RecordForm[Any], ...] = (RECORD, EDGE, VECTOR)


def read_record(file: str, fields: Fields, body: str) -> list[Item]:
    """What a file of ours says of a record."""
    record = RECORD.load(fields, workspace_id="", title="")
    return [KeptRecord(file, record)]


def read_edge(fields: Fields, relation_id: str) -> EdgeFacts | None:
    """What the line of a relation says beyond what every relation has."""
    return EDGE.load(fields, relation_id=relation_id) if fields.has("collection") else None


def read_vectors(file: str, fields: Fields, body: str) -> list[Item]:
    """What a file of ours says of texts and vectors."""
    return [KeptVector(file, VECTOR.load(each)) for each in fields.records("vectors")]
