"""Owns the SQL of secrets."""

import json
from collections.abc import Sequence

from holdfast.engines.master_key import Sealed
from holdfast.features.secrets.model import Secret
from holdfast.storage.database import Row, Tx

_COLUMNS = "id, workspace_id, name, key_id, created_at, updated_at, updated_by, hosts, k8s_secret_ref, k8s_secret_uid"


def secret(row: Row) -> Secret:
    """A secret's metadata from its row."""
    return Secret(
        id=row["id"],
        workspace_id=row["workspace_id"],
        name=row["name"],
        is_set=row["key_id"] is not None or row["k8s_secret_ref"] is not None,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        updated_by=row["updated_by"],
        hosts=tuple(json.loads(row["hosts"] or "[]")),
        is_sealed=row["key_id"] is not None,
        k8s_secret_ref=row["k8s_secret_ref"],
        k8s_secret_uid=row["k8s_secret_uid"],
    )


def all_in(tx: Tx, workspace_id: str) -> list[Secret]:
    """The workspace's secrets by name."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM secret WHERE workspace_id = :id ORDER BY name", {"id": workspace_id})
    return [secret(row) for row in rows]


def page_in(tx: Tx, workspace_id: str, after: str, limit: int) -> list[Secret]:
    """The workspace's secrets by name, after a name."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM secret WHERE workspace_id = :id AND name > :after ORDER BY name LIMIT :limit",
        {"id": workspace_id, "after": after, "limit": limit},
    )
    return [secret(row) for row in rows]


def find(tx: Tx, workspace_id: str, name: str) -> Secret | None:
    """The workspace's secret of this name."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM secret WHERE workspace_id = :workspace_id AND name = :name",
        {"workspace_id": workspace_id, "name": name},
    )
    return secret(row) if row else None


def every_set(tx: Tx) -> list[Secret]:
    """Every secret of the server that has a value somewhere."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM secret WHERE key_id IS NOT NULL OR k8s_secret_ref IS NOT NULL "
        "ORDER BY workspace_id, name"
    )
    return [secret(row) for row in rows]


def only_in_cluster(tx: Tx) -> int:
    """How many values a copy of the database lacks."""
    row = tx.one("SELECT count(*) AS n FROM secret WHERE key_id IS NULL AND k8s_secret_ref IS NOT NULL")
    return int(row["n"]) if row else 0


def by_id(tx: Tx, id: str) -> Secret | None:
    """The secret of this id."""
    row = tx.one(f"SELECT {_COLUMNS} FROM secret WHERE id = :id", {"id": id})
    return secret(row) if row else None


def sealed(tx: Tx, id: str) -> Sealed | None:
    """What is kept of the value; None for a cleared one."""
    row = tx.one("SELECT key_id, nonce, ciphertext FROM secret WHERE id = :id", {"id": id})
    return _sealed(row) if row and row["key_id"] is not None else None


def every_sealed(tx: Tx) -> list[tuple[Secret, Sealed]]:
    """Every value of the server, for changing the master key."""
    rows = tx.all(f"SELECT {_COLUMNS}, nonce, ciphertext FROM secret WHERE key_id IS NOT NULL ORDER BY id")
    return [(secret(row), _sealed(row)) for row in rows]


def other_key(tx: Tx, key_id: str) -> str | None:
    """The id of another master key that something is sealed under."""
    row = tx.one("SELECT key_id FROM secret WHERE key_id IS NOT NULL AND key_id <> :key_id LIMIT 1", {"key_id": key_id})
    return str(row["key_id"]) if row else None


def put(tx: Tx, new: Secret, value: Sealed | None) -> None:
    """Keep a value, in place of an earlier one of the same id; none where only a cluster has it."""
    tx.execute(
        f"INSERT INTO secret ({_COLUMNS}, nonce, ciphertext) "
        "VALUES (:id, :workspace_id, :name, :key_id, :created_at, :updated_at, :updated_by, :hosts, "
        ":k8s_secret_ref, :k8s_secret_uid, :nonce, :ciphertext) "
        "ON CONFLICT (id) DO UPDATE SET key_id = excluded.key_id, nonce = excluded.nonce, "
        "ciphertext = excluded.ciphertext, updated_at = excluded.updated_at, updated_by = excluded.updated_by, "
        "hosts = excluded.hosts, k8s_secret_ref = excluded.k8s_secret_ref, k8s_secret_uid = excluded.k8s_secret_uid",
        {
            "id": new.id,
            "workspace_id": new.workspace_id,
            "name": new.name,
            "key_id": value and value.key_id,
            "nonce": value and value.nonce,
            "ciphertext": value and value.ciphertext,
            "k8s_secret_ref": new.k8s_secret_ref,
            "k8s_secret_uid": new.k8s_secret_uid,
            "created_at": new.created_at,
            "updated_at": new.updated_at,
            "updated_by": new.updated_by,
            "hosts": json.dumps(new.hosts),
        },
    )


def bind(tx: Tx, id: str, hosts: Sequence[str]) -> bool:
    """Bind a secret that is bound to no host; False when somebody was faster."""
    return bool(
        tx.execute(
            "UPDATE secret SET hosts = :hosts WHERE id = :id AND (hosts IS NULL OR hosts = '[]')",
            {"id": id, "hosts": json.dumps(list(hosts))},
        )
    )


def from_before_hosts(tx: Tx) -> list[tuple[str, Secret]]:
    """Secrets that no version with hosts has seen yet, each with its organization."""
    columns = ", ".join(f"s.{name}" for name in _COLUMNS.split(", "))
    rows = tx.all(
        f"SELECT w.organization_id, {columns} FROM secret s JOIN workspace w ON w.id = s.workspace_id "
        "WHERE s.hosts IS NULL ORDER BY s.id"
    )
    return [(row["organization_id"], secret(row)) for row in rows]


def reseal(tx: Tx, id: str, value: Sealed) -> None:
    """The same value under another key; its history stays."""
    tx.execute(
        "UPDATE secret SET key_id = :key_id, nonce = :nonce, ciphertext = :ciphertext WHERE id = :id",
        {"id": id, "key_id": value.key_id, "nonce": value.nonce, "ciphertext": value.ciphertext},
    )


def clear(tx: Tx, id: str, now: int, actor: str) -> None:
    """Forget the value and keep the name."""
    tx.execute(
        "UPDATE secret SET key_id = NULL, nonce = NULL, ciphertext = NULL, k8s_secret_ref = NULL, "
        "k8s_secret_uid = NULL, updated_at = :now, updated_by = :actor WHERE id = :id",
        {"id": id, "now": now, "actor": actor},
    )


def delete(tx: Tx, id: str) -> None:
    """Forget the name too."""
    tx.execute("DELETE FROM secret WHERE id = :id", {"id": id})


def unseal(tx: Tx, id: str) -> None:
    """Forget what the database has of a value; a cluster has it."""
    tx.execute(
        "UPDATE secret SET key_id = NULL, nonce = NULL, ciphertext = NULL "
        "WHERE id = :id AND k8s_secret_ref IS NOT NULL",
        {"id": id},
    )


def refer(tx: Tx, id: str, ref: str | None, uid: str | None) -> None:
    """Where a cluster has the same value from now on."""
    tx.execute(
        "UPDATE secret SET k8s_secret_ref = :ref, k8s_secret_uid = :uid WHERE id = :id",
        {"id": id, "ref": ref, "uid": uid},
    )


def plan_object(tx: Tx, ref: str, now: int) -> None:
    """A cluster is about to be asked for an object."""
    tx.execute("INSERT INTO secret_object (ref, made_at) VALUES (:ref, :now)", {"ref": ref, "now": now})


def drop_object(tx: Tx, ref: str, now: int) -> None:
    """Nobody refers to the object any more."""
    tx.execute("UPDATE secret_object SET dropped_at = :now WHERE ref = :ref", {"ref": ref, "now": now})


def left_objects(tx: Tx, before: int) -> list[str]:
    """Objects that are to be deleted: given up, or made before that moment and referred to by nobody."""
    rows = tx.all(
        "SELECT o.ref FROM secret_object o LEFT JOIN secret s ON s.k8s_secret_ref = o.ref "
        "WHERE s.id IS NULL AND (o.dropped_at IS NOT NULL OR o.made_at < :before) ORDER BY o.ref",
        {"before": before},
    )
    return [str(row["ref"]) for row in rows]


def forget_object(tx: Tx, ref: str) -> None:
    """The cluster has the object no more."""
    tx.execute("DELETE FROM secret_object WHERE ref = :ref", {"ref": ref})


def _sealed(row: Row) -> Sealed:
    return Sealed(str(row["key_id"]), bytes(row["nonce"]), bytes(row["ciphertext"]))
