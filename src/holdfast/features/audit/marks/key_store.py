"""Owns the SQL of audit keys and of checkpoints."""

from collections.abc import Mapping
from typing import Any

from holdfast.engines.master_key import Sealed
from holdfast.storage.database import Row, Tx


def every(tx: Tx) -> list[tuple[str, Sealed]]:
    """The id of each key with what is kept of it, newest first."""
    rows = tx.all("SELECT id, master_key_id, nonce, ciphertext FROM audit_key ORDER BY created_at DESC, id")
    return [
        (str(row["id"]), Sealed(str(row["master_key_id"]), _bytes(row["nonce"]), _bytes(row["ciphertext"])))
        for row in rows
    ]


def insert(tx: Tx, id: str, sealed: Sealed, created_at: int) -> None:
    """Keep a key as it is sealed under one master key."""
    tx.execute(
        "INSERT INTO audit_key (id, master_key_id, nonce, ciphertext, created_at) "
        "VALUES (:id, :master_key_id, :nonce, :ciphertext, :created_at) ON CONFLICT (id, master_key_id) "
        "DO UPDATE SET nonce = excluded.nonce, ciphertext = excluded.ciphertext",
        {
            "id": id,
            "master_key_id": sealed.key_id,
            "nonce": sealed.nonce,
            "ciphertext": sealed.ciphertext,
            "created_at": created_at,
        },
    )


def forget(tx: Tx, id: str, *, except_master: str) -> int:
    """Forget how a key is sealed, under all master keys but one; when the key was made."""
    row = tx.one("SELECT MIN(created_at) AS created_at FROM audit_key WHERE id = :id", {"id": id})
    params = {"id": id, "master_key_id": except_master}
    tx.execute("DELETE FROM audit_key WHERE id = :id AND master_key_id <> :master_key_id", params)
    return int(row["created_at"]) if row else 0


def checkpoints(tx: Tx, organization_id: str) -> list[Row]:
    """Up to where a chain is taken as it was found."""
    return tx.all(
        "SELECT organization_id, sequence, hash, reason, at, key_id, mac FROM audit_checkpoint "
        "WHERE organization_id = :organization_id ORDER BY sequence",
        {"organization_id": organization_id},
    )


def insert_checkpoint(tx: Tx, row: Mapping[str, Any]) -> None:
    """Fix a chain as it is found."""
    tx.execute(
        "INSERT INTO audit_checkpoint (organization_id, sequence, hash, reason, at, key_id, mac) "
        "VALUES (:organization_id, :sequence, :hash, :reason, :at, :key_id, :mac) "
        "ON CONFLICT (organization_id, sequence) DO UPDATE SET hash = excluded.hash, reason = excluded.reason, "
        "at = excluded.at, key_id = excluded.key_id, mac = excluded.mac",
        row,
    )


def _bytes(value: object) -> bytes:
    """What somebody put there that is no bytes opens no key either."""
    return bytes(value) if isinstance(value, (bytes, memoryview)) else b""
