"""Owns the SQL of import and export: where things come from, and which ids are taken."""

from holdfast.storage.database import Tx

# Types with rows of their own here, and their tables.
_TABLES = {
    "memory": "memory",
    "decision": "decision",
    "milestone": "milestone",
    "artifact": "artifact",
    "document": "document",
    "relation": "relation",
    "case": "work_case",
    "proof": "case_proof",
    "record": "graph_record",
}
_COMMENTED = "SELECT c.workspace_id FROM case_comment x JOIN work_case c ON c.id = x.case_id WHERE x.id = :id"


def remember(tx: Tx, workspace_id: str, type: str, origin: str, id: str) -> None:
    """Keep that something of this origin is here under an id."""
    tx.execute(
        "INSERT INTO imported (workspace_id, type, origin, id) VALUES (:workspace_id, :type, :origin, :id) "
        "ON CONFLICT (workspace_id, type, origin) DO UPDATE SET id = excluded.id",
        {"workspace_id": workspace_id, "type": type, "origin": origin, "id": id},
    )


def recalled(tx: Tx, workspace_id: str, type: str, origin: str) -> str | None:
    """The id under which something of this origin is here still; None when it never came or was removed since."""
    row = tx.one(
        "SELECT id FROM imported WHERE workspace_id = :workspace_id AND type = :type AND origin = :origin",
        {"workspace_id": workspace_id, "type": type, "origin": origin},
    )
    if row is None or owner(tx, type, row["id"]) != workspace_id:
        return None
    return str(row["id"])


def owner(tx: Tx, type: str, id: str) -> str | None:
    """The workspace that has a thing with this id."""
    # A comment is where its case is.
    sql = _COMMENTED if type == "comment" else f"SELECT workspace_id FROM {_TABLES[type]} WHERE id = :id"
    row = tx.one(sql, {"id": id})
    return str(row["workspace_id"]) if row else None


def origins(tx: Tx, workspace_id: str, prefix: str) -> dict[str, str]:
    """Where each imported thing comes from, by its id here; of several origins the first by name."""
    rows = tx.all(
        "SELECT id, origin FROM imported WHERE workspace_id = :workspace_id AND origin LIKE :pattern "
        "ORDER BY origin DESC",
        {"workspace_id": workspace_id, "pattern": f"{prefix}%"},
    )
    return {row["id"]: row["origin"].removeprefix(prefix) for row in rows}


def redirect(tx: Tx, workspace_id: str, old: str, new: str) -> None:
    """Memories superseded by one id are superseded by another: the first was here already under the second."""
    tx.execute(
        "UPDATE memory SET superseded_by = :new WHERE workspace_id = :workspace_id AND superseded_by = :old",
        {"workspace_id": workspace_id, "old": old, "new": new},
    )
