"""Owns the SQL of relations."""

from collections.abc import Sequence

from holdfast.features.intelligence.graph.vocabulary import fact
from holdfast.features.intelligence.model import Ref, Relation
from holdfast.features.intelligence.store import Position, in_list
from holdfast.storage.database import Row, Tx

_COLUMNS = "id, workspace_id, from_type, from_id, to_type, to_id, relation, note, author, created_at"
_CHUNK = 400


def add(tx: Tx, relation: Relation) -> bool:
    """Whether it is new: the same tie, told from either end, is kept once."""
    return bool(
        tx.execute(
            f"INSERT INTO relation ({_COLUMNS}, fact) VALUES (:id, :workspace_id, :from_type, :from_id, :to_type, "
            ":to_id, :relation, :note, :author, :created_at, :fact) ON CONFLICT (workspace_id, fact) DO NOTHING",
            {
                "id": relation.id,
                "workspace_id": relation.workspace_id,
                "from_type": relation.start.type,
                "from_id": relation.start.id,
                "to_type": relation.end.type,
                "to_id": relation.end.id,
                "relation": relation.relation,
                "note": relation.note,
                "author": relation.author,
                "created_at": relation.created_at,
                "fact": _fact(relation.start, relation.end, relation.relation),
            },
        )
    )


def same(tx: Tx, workspace_id: str, start: Ref, end: Ref, name: str) -> Relation | None:
    """The tie that says the same, from either end."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM relation WHERE workspace_id = :workspace_id AND fact = :fact",
        {"workspace_id": workspace_id, "fact": _fact(start, end, name)},
    )
    return None if row is None else _relation(row)


def get(tx: Tx, workspace_id: str, id: str) -> Relation | None:
    """One relation."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM relation WHERE workspace_id = :workspace_id AND id = :id",
        {"workspace_id": workspace_id, "id": id},
    )
    return None if row is None else _relation(row)


def remove(tx: Tx, workspace_id: str, ids: Sequence[str]) -> int:
    """How many there were to remove."""
    names, values = in_list(ids)
    return tx.execute(
        f"DELETE FROM relation WHERE workspace_id = :workspace_id AND id IN ({names})",
        {"workspace_id": workspace_id, **values},
    )


def of(tx: Tx, workspace_id: str, ids: Sequence[str], limit: int = 1_000_000) -> list[Relation]:
    """Relations with one of these entities at either end, oldest first; the newest where a limit cuts."""
    found: dict[str, Relation] = {}
    for begin in range(0, len(ids), _CHUNK):
        names, values = in_list(ids[begin : begin + _CHUNK])
        # Two indexes, one each; an OR across both columns would read the whole workspace.
        rows = tx.all(
            f"SELECT {_COLUMNS} FROM relation WHERE workspace_id = :workspace_id AND from_id IN ({names}) "
            f"UNION SELECT {_COLUMNS} FROM relation WHERE workspace_id = :workspace_id AND to_id IN ({names}) "
            "ORDER BY created_at DESC, id DESC LIMIT :limit",
            {"workspace_id": workspace_id, "limit": limit, **values},
        )
        found |= {row["id"]: _relation(row) for row in rows}
    return sorted(found.values(), key=lambda relation: (relation.created_at, relation.id))


def among(tx: Tx, workspace_id: str, ids: Sequence[str]) -> list[Relation]:
    """Relations with both ends among these entities, oldest first."""
    names, values = in_list(ids)
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM relation WHERE workspace_id = :workspace_id AND from_id IN ({names}) "
        f"AND to_id IN ({names}) ORDER BY created_at, id",
        {"workspace_id": workspace_id, **values},
    )
    return [_relation(row) for row in rows]


def newest(
    tx: Tx, workspace_id: str, limit: int, *, relation: str | None = None, after: Position | None = None
) -> list[Relation]:
    """Relations of the workspace, newest first."""
    conditions = ["workspace_id = :workspace_id"]
    values: dict[str, str | int] = {"workspace_id": workspace_id, "limit": limit}
    if relation is not None:
        conditions.append("relation = :relation")
        values["relation"] = relation
    if after is not None:
        conditions.append("(created_at, id) < (:after_moment, :after_id)")
        values |= {"after_moment": after[0], "after_id": after[1]}
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM relation WHERE {' AND '.join(conditions)} ORDER BY created_at DESC, id DESC "
        "LIMIT :limit",
        values,
    )
    return [_relation(row) for row in rows]


def _fact(start: Ref, end: Ref, name: str) -> str:
    return fact(f"{start.type}/{start.id}", f"{end.type}/{end.id}", name)


def _relation(row: Row) -> Relation:
    return Relation(
        id=row["id"],
        workspace_id=row["workspace_id"],
        start=Ref(row["from_type"], row["from_id"]),
        end=Ref(row["to_type"], row["to_id"]),
        relation=row["relation"],
        note=row["note"],
        author=row["author"],
        created_at=row["created_at"],
    )
