"""Owns the SQL of logins at remote servers: kept ones, and those that have begun."""

from holdfast.engines.master_key import Sealed
from holdfast.storage.database import Tx


def put(tx: Tx, server_id: str, user_id: str, issuer: str, sealed: Sealed, now: int) -> None:
    """Keep a login in place of an earlier one."""
    tx.execute(
        "INSERT INTO mcp_login (server_id, user_id, issuer, key_id, nonce, ciphertext, updated_at) "
        "VALUES (:server_id, :user_id, :issuer, :key_id, :nonce, :ciphertext, :now) "
        "ON CONFLICT (server_id, user_id) DO UPDATE SET issuer = excluded.issuer, key_id = excluded.key_id, "
        "nonce = excluded.nonce, ciphertext = excluded.ciphertext, updated_at = excluded.updated_at",
        {"server_id": server_id, "user_id": user_id, "issuer": issuer, "now": now, **_values(sealed)},
    )


def find(tx: Tx, server_id: str, user_id: str) -> Sealed | None:
    """A person's login."""
    row = tx.one(
        "SELECT key_id, nonce, ciphertext FROM mcp_login WHERE server_id = :server_id AND user_id = :user_id",
        {"server_id": server_id, "user_id": user_id},
    )
    return Sealed(row["key_id"], bytes(row["nonce"]), bytes(row["ciphertext"])) if row else None


def delete(tx: Tx, server_id: str, user_id: str) -> None:
    """Forget a login."""
    tx.execute(
        "DELETE FROM mcp_login WHERE server_id = :server_id AND user_id = :user_id",
        {"server_id": server_id, "user_id": user_id},
    )


def people(tx: Tx, server_id: str) -> list[str]:
    """Who is connected."""
    rows = tx.all("SELECT user_id FROM mcp_login WHERE server_id = :id ORDER BY updated_at", {"id": server_id})
    return [str(row["user_id"]) for row in rows]


def begin(tx: Tx, state: str, server_id: str, user_id: str, sealed: Sealed, now: int) -> None:
    """Keep a login that has begun; forget those that nobody came back from."""
    tx.execute("DELETE FROM mcp_login_attempt WHERE created_at < :before", {"before": now - 600_000})
    tx.execute(
        "INSERT INTO mcp_login_attempt (state, server_id, user_id, key_id, nonce, ciphertext, created_at) "
        "VALUES (:state, :server_id, :user_id, :key_id, :nonce, :ciphertext, :now)",
        {"state": state, "server_id": server_id, "user_id": user_id, "now": now, **_values(sealed)},
    )


def take(tx: Tx, state: str, user_id: str, since: int) -> tuple[str, Sealed] | None:
    """A begun login of this person, once; its server."""
    row = tx.one(
        "DELETE FROM mcp_login_attempt WHERE state = :state AND user_id = :user_id AND created_at > :since "
        "RETURNING server_id, key_id, nonce, ciphertext",
        {"state": state, "user_id": user_id, "since": since},
    )
    if row is None:
        return None
    return str(row["server_id"]), Sealed(row["key_id"], bytes(row["nonce"]), bytes(row["ciphertext"]))


def _values(sealed: Sealed) -> dict[str, object]:
    return {"key_id": sealed.key_id, "nonce": sealed.nonce, "ciphertext": sealed.ciphertext}
