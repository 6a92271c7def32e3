"""Owns the SQL of collections: their names, records, what is said of edges, and given vectors."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.features.collections.model import CollectionVector, EdgeFacts, GraphRecord, folded
from holdfast.features.intelligence.store import in_list
from holdfast.storage.database import Params, Row, Tx

_COLUMNS = (
    "id, workspace_id, collection, type, title, data, confidence, source, session_id, author, created_at, updated_at"
)
_CHUNK = 400


# Collections.


def ensure(tx: Tx, workspace_id: str, name: str, now: int, author: str) -> None:
    """Make a collection unless it is there."""
    sql = (
        "INSERT INTO knowledge_collection (workspace_id, name, dimensions, created_at, created_by) "
        "VALUES (:workspace_id, :name, NULL, :now, :author) ON CONFLICT DO NOTHING"
    )
    tx.execute(sql, {"workspace_id": workspace_id, "name": name, "now": now, "author": author})


def settle_dimensions(tx: Tx, workspace_id: str, name: str, dimensions: int) -> int:
    """Say what vectors a collection holds, unless that was said; what holds now."""
    given = {"workspace_id": workspace_id, "name": name, "dimensions": dimensions}
    where = "workspace_id = :workspace_id AND name = :name"
    tx.execute(f"UPDATE knowledge_collection SET dimensions = COALESCE(dimensions, :dimensions) WHERE {where}", given)
    row = tx.one(f"SELECT dimensions FROM knowledge_collection WHERE {where}", given)
    return dimensions if row is None else int(row["dimensions"])


def dimensions_of(tx: Tx, workspace_id: str, name: str) -> int | None:
    """What vectors a collection holds: None where it has none, 0 for texts."""
    sql = "SELECT dimensions FROM knowledge_collection WHERE workspace_id = :workspace_id AND name = :name"
    row = tx.one(sql, {"workspace_id": workspace_id, "name": name})
    return None if row is None else row["dimensions"]


def names(tx: Tx, workspace_id: str) -> list[tuple[str, int | None]]:
    """The collections of a workspace and what vectors each holds."""
    sql = "SELECT name, dimensions FROM knowledge_collection WHERE workspace_id = :id ORDER BY name"
    return [(row["name"], row["dimensions"]) for row in tx.all(sql, {"id": workspace_id})]


def count_collections(tx: Tx, workspace_id: str) -> int:
    """How many collections a workspace has."""
    row = tx.one("SELECT COUNT(*) AS many FROM knowledge_collection WHERE workspace_id = :id", {"id": workspace_id})
    return 0 if row is None else int(row["many"])


def counts(tx: Tx, workspace_id: str, table: str) -> Mapping[str, int]:
    """How many rows of a table each collection has."""
    assert table in ("graph_record", "graph_edge", "collection_vector")
    sql = f"SELECT collection, COUNT(*) AS many FROM {table} WHERE workspace_id = :id GROUP BY collection"
    return {row["collection"]: int(row["many"]) for row in tx.all(sql, {"id": workspace_id})}


# Records.


def put_record(tx: Tx, record: GraphRecord) -> None:
    """Keep a record, in place of what it said before."""
    names = [*(name.strip() for name in _COLUMNS.split(",")), "name", "email"]
    values: dict[str, Any] = {name: getattr(record, name) for name in names[:-2]}
    values |= {
        "data": json.dumps(dict(record.data), ensure_ascii=False),
        "name": folded(record.data.get("name"))[:300],
        "email": folded(record.data.get("email"))[:300],
    }
    kept = ", ".join(f"{name} = excluded.{name}" for name in names if name not in ("id", "workspace_id", "created_at"))
    tx.execute(
        f"INSERT INTO graph_record ({', '.join(names)}) VALUES ({', '.join(':' + name for name in names)}) "
        f"ON CONFLICT (id) DO UPDATE SET {kept}",
        values,
    )


def record(tx: Tx, workspace_id: str, id: str) -> GraphRecord | None:
    """One record."""
    sql = f"SELECT {_COLUMNS} FROM graph_record WHERE workspace_id = :workspace_id AND id = :id"
    row = tx.one(sql, {"workspace_id": workspace_id, "id": id})
    return None if row is None else _record(row)


def records(tx: Tx, workspace_id: str, ids: Sequence[str]) -> dict[str, GraphRecord]:
    """Those of these records that are there."""
    found: dict[str, GraphRecord] = {}
    for begin in range(0, len(ids), _CHUNK):
        listed, values = in_list(ids[begin : begin + _CHUNK])
        sql = f"SELECT {_COLUMNS} FROM graph_record WHERE workspace_id = :workspace_id AND id IN ({listed})"
        found |= {row["id"]: _record(row) for row in tx.all(sql, {"workspace_id": workspace_id, **values})}
    return found


def of_type(tx: Tx, workspace_id: str, *, type: str | None, collection: str | None, limit: int) -> list[GraphRecord]:
    """Records of a type and of a collection, the first made first; of any where none is named."""
    clauses, values = ["workspace_id = :workspace_id"], {"workspace_id": workspace_id, "limit": limit}
    if type is not None:
        clauses.append("type = :type")
        values["type"] = type
    if collection is not None:
        clauses.append("collection = :collection")
        values["collection"] = collection
    sql = f"SELECT {_COLUMNS} FROM graph_record WHERE {' AND '.join(clauses)} ORDER BY id LIMIT :limit"
    return [_record(row) for row in tx.all(sql, values)]


def page(
    tx: Tx, workspace_id: str, type: str | None, collection: str | None, after: str, limit: int
) -> list[GraphRecord]:
    """Records after an id, the first made first, of a type and a collection where one is named."""
    sql = (
        f"SELECT {_COLUMNS} FROM graph_record WHERE workspace_id = :workspace_id AND id > :after "
        "AND type = COALESCE(:type, type) AND collection = COALESCE(:collection, collection) ORDER BY id LIMIT :limit"
    )
    values = {"workspace_id": workspace_id, "after": after, "type": type, "collection": collection, "limit": limit}
    return [_record(row) for row in tx.all(sql, values)]


def recognised(
    tx: Tx, workspace_id: str, type: str, collection: str | None, name: str, email: str
) -> list[GraphRecord]:
    """Records of a type that have this e-mail address or this very name."""
    looked_for = {column: value for column, value in (("email", email), ("name", name)) if value}
    if not looked_for:
        return []
    values = {"workspace_id": workspace_id, "type": type, **looked_for}
    within = ""
    if collection is not None:
        within = "AND collection = :collection "
        values["collection"] = collection
    either = " OR ".join(f"{column} = :{column}" for column in looked_for)
    sql = (
        f"SELECT {_COLUMNS} FROM graph_record WHERE workspace_id = :workspace_id AND type = :type {within}"
        f"AND ({either}) ORDER BY id LIMIT 200"
    )
    return [_record(row) for row in tx.all(sql, values)]


def newest(tx: Tx, workspace_id: str, limit: int) -> list[GraphRecord]:
    """The records that changed last."""
    sql = f"SELECT {_COLUMNS} FROM graph_record WHERE workspace_id = :id ORDER BY updated_at DESC, id DESC LIMIT :limit"
    return [_record(row) for row in tx.all(sql, {"id": workspace_id, "limit": limit})]


# Edges.


def put_edge(tx: Tx, relation_id: str, workspace_id: str, collection: str, properties: Mapping[str, Any]) -> None:
    """Keep what is said of a relation, in place of what was."""
    tx.execute(
        "INSERT INTO graph_edge (relation_id, workspace_id, collection, properties) VALUES (:relation_id, "
        ":workspace_id, :collection, :properties) ON CONFLICT (relation_id) DO UPDATE SET "
        "collection = excluded.collection, properties = excluded.properties",
        {
            "relation_id": relation_id,
            "workspace_id": workspace_id,
            "collection": collection,
            "properties": json.dumps(dict(properties), ensure_ascii=False),
        },
    )


def properties_of(tx: Tx, relation_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """What is said of relations, by their ids."""
    found: dict[str, Mapping[str, Any]] = {}
    for begin in range(0, len(relation_ids), _CHUNK):
        listed, values = in_list(relation_ids[begin : begin + _CHUNK])
        sql = f"SELECT relation_id, properties FROM graph_edge WHERE relation_id IN ({listed})"
        found |= {row["relation_id"]: json.loads(row["properties"]) for row in tx.all(sql, values)}
    return found


def facts_of_edges(tx: Tx, workspace_id: str, relation_ids: Sequence[str]) -> dict[str, EdgeFacts]:
    """What is said of those of these relations that were told as edges, by their ids."""
    found: dict[str, EdgeFacts] = {}
    for begin in range(0, len(relation_ids), _CHUNK):
        listed, values = in_list(relation_ids[begin : begin + _CHUNK])
        sql = (
            "SELECT relation_id, collection, properties FROM graph_edge "
            f"WHERE workspace_id = :workspace_id AND relation_id IN ({listed})"
        )
        for row in tx.all(sql, {"workspace_id": workspace_id, **values}):
            said = json.loads(row["properties"])
            found[row["relation_id"]] = EdgeFacts(row["relation_id"], row["collection"], said)
    return found


# Vectors.


def put_vector(tx: Tx, values: Params) -> None:
    """Keep a vector, in place of the one that it replaces."""
    tx.execute(
        "INSERT INTO collection_vector (workspace_id, collection, id, vector, metadata, author, updated_at, "
        "session_id) VALUES (:workspace_id, :collection, :id, :vector, :metadata, :author, :updated_at, :session_id) "
        "ON CONFLICT (workspace_id, collection, id) DO UPDATE SET vector = excluded.vector, "
        "metadata = excluded.metadata, author = excluded.author, updated_at = excluded.updated_at, "
        "session_id = excluded.session_id",
        values,
    )


def vectors(tx: Tx, workspace_id: str, collection: str) -> list[Row]:
    """Every vector of a collection: `id`, `vector`, `metadata`."""
    sql = (
        "SELECT id, vector, metadata FROM collection_vector "
        "WHERE workspace_id = :workspace_id AND collection = :collection ORDER BY id"
    )
    return tx.all(sql, {"workspace_id": workspace_id, "collection": collection})


def vector_ids(tx: Tx, workspace_id: str, collection: str) -> list[str]:
    """The ids of a collection's vectors; in whichever order the store sorts texts."""
    sql = "SELECT id FROM collection_vector WHERE workspace_id = :workspace_id AND collection = :collection"
    return [row["id"] for row in tx.all(sql, {"workspace_id": workspace_id, "collection": collection})]


def kept_vectors(tx: Tx, workspace_id: str, collection: str, ids: Sequence[str]) -> dict[str, CollectionVector]:
    """Some of a collection's vectors with all that is known of them, by id."""
    names = {f"id_{number}": id for number, id in enumerate(ids)}
    rows = tx.all(
        "SELECT id, vector, metadata, author, updated_at, session_id FROM collection_vector "
        "WHERE workspace_id = :workspace_id AND collection = :collection "
        f"AND id IN ({', '.join(':' + name for name in names) or 'NULL'})",
        {"workspace_id": workspace_id, "collection": collection, **names},
    )
    return {
        row["id"]: CollectionVector(
            collection=collection,
            id=row["id"],
            vector=base64.b64encode(bytes(row["vector"])).decode(),
            metadata=json.loads(row["metadata"]),
            author=row["author"],
            updated_at=row["updated_at"],
            session_id=row["session_id"],
        )
        for row in rows
    }


def count_vectors(tx: Tx, workspace_id: str, collection: str) -> int:
    """How many vectors a collection holds."""
    sql = "SELECT COUNT(*) AS many FROM collection_vector WHERE workspace_id = :workspace_id AND collection = :name"
    row = tx.one(sql, {"workspace_id": workspace_id, "name": collection})
    return 0 if row is None else int(row["many"])


def delete_vector(tx: Tx, workspace_id: str, collection: str, id: str) -> bool:
    """Whether there was one to forget."""
    sql = "DELETE FROM collection_vector WHERE workspace_id = :workspace_id AND collection = :collection AND id = :id"
    return tx.execute(sql, {"workspace_id": workspace_id, "collection": collection, "id": id}) == 1


def _record(row: Row) -> GraphRecord:
    values = {name: row[name] for name in GraphRecord.__dataclass_fields__}
    return GraphRecord(**values | {"data": json.loads(row["data"])})
