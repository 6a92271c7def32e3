"""Owns the SQL of logins at remote servers: kept ones, those that have begun, and as whom we are registered there."""

from holdfast.engines.master_key import Sealed
from holdfast.features.catalog.model import LoginStanding
from holdfast.storage.database import Row, Tx

_STANDING = "server_id, user_id, issuer, updated_at, expires_at, renewable, ended_at"


def put(tx: Tx, standing: LoginStanding, sealed: Sealed) -> None:
    """Keep a login in place of an earlier one."""
    tx.execute(
        f"INSERT INTO mcp_login ({_STANDING}, key_id, nonce, ciphertext) "
        "VALUES (:server_id, :user_id, :issuer, :updated_at, :expires_at, :renewable, :ended_at, :key_id, :nonce, "
        ":ciphertext) ON CONFLICT (server_id, user_id) DO UPDATE SET issuer = excluded.issuer, "
        "updated_at = excluded.updated_at, expires_at = excluded.expires_at, renewable = excluded.renewable, "
        "ended_at = NULL, key_id = excluded.key_id, nonce = excluded.nonce, ciphertext = excluded.ciphertext",
        {
            "server_id": standing.server_id,
            "user_id": standing.user_id,
            "issuer": standing.issuer,
            "updated_at": standing.updated_at,
            "expires_at": standing.expires_at,
            "renewable": int(standing.renewable),
            "ended_at": None,
            **_values(sealed),
        },
    )


def find(tx: Tx, server_id: str, user_id: str) -> Sealed | None:
    """A person's login that has not ended."""
    row = tx.one(
        "SELECT key_id, nonce, ciphertext FROM mcp_login WHERE server_id = :server_id AND user_id = :user_id "
        "AND ended_at IS NULL",
        {"server_id": server_id, "user_id": user_id},
    )
    return _sealed(row) if row else None


def end(tx: Tx, server_id: str, user_id: str, now: int) -> None:
    """A login ended: its tokens go, and that there was one stays, so that people see who has to sign in again."""
    tx.execute(
        "UPDATE mcp_login SET ended_at = :now, key_id = '', nonce = :nothing, ciphertext = :nothing "
        "WHERE server_id = :server_id AND user_id = :user_id AND ended_at IS NULL",
        {"server_id": server_id, "user_id": user_id, "now": now, "nothing": b""},
    )


def delete(tx: Tx, server_id: str, user_id: str) -> bool:
    """Forget a login and that there was one; False where there was none."""
    sql = "DELETE FROM mcp_login WHERE server_id = :server_id AND user_id = :user_id"
    return tx.execute(sql, {"server_id": server_id, "user_id": user_id}) == 1


def begin_renewal(tx: Tx, server_id: str, user_id: str, holder: str, now: int, until: int) -> bool:
    """Let one process renew a login until a moment; False while another one does."""
    sql = (
        "INSERT INTO mcp_login_renewal (server_id, user_id, holder, until) VALUES (:server_id, :user_id, :holder, "
        ":until) ON CONFLICT (server_id, user_id) DO UPDATE SET holder = excluded.holder, until = excluded.until "
        "WHERE mcp_login_renewal.until <= :now"
    )
    params = {"server_id": server_id, "user_id": user_id, "holder": holder, "now": now, "until": until}
    return tx.execute(sql, params) == 1


def end_renewal(tx: Tx, server_id: str, user_id: str, holder: str) -> None:
    """Whoever renewed a login is done, unless another took over meanwhile."""
    tx.execute(
        "DELETE FROM mcp_login_renewal WHERE server_id = :server_id AND user_id = :user_id AND holder = :holder",
        {"server_id": server_id, "user_id": user_id, "holder": holder},
    )


def standings(tx: Tx, server_id: str) -> list[LoginStanding]:
    """Who has a login at a server, or had one that ended; the earliest first."""
    rows = tx.all(
        f"SELECT {_STANDING} FROM mcp_login WHERE server_id = :id ORDER BY updated_at, user_id", {"id": server_id}
    )
    return [_standing(row) for row in rows]


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
    return None if row is None else (str(row["server_id"]), _sealed(row))


def put_client(tx: Tx, server_id: str, url: str, issuer: str, redirect_uri: str, sealed: Sealed, now: int) -> None:
    """Keep as whom we are registered at an entry's authorization server."""
    tx.execute(
        "INSERT INTO mcp_oauth (server_id, url, issuer, redirect_uri, key_id, nonce, ciphertext, updated_at) "
        "VALUES (:server_id, :url, :issuer, :redirect_uri, :key_id, :nonce, :ciphertext, :now) "
        "ON CONFLICT (server_id) DO UPDATE SET url = excluded.url, issuer = excluded.issuer, "
        "redirect_uri = excluded.redirect_uri, key_id = excluded.key_id, nonce = excluded.nonce, "
        "ciphertext = excluded.ciphertext, updated_at = excluded.updated_at",
        {
            "server_id": server_id,
            "url": url,
            "issuer": issuer,
            "redirect_uri": redirect_uri,
            "now": now,
            **_values(sealed),
        },
    )


def client(tx: Tx, server_id: str, url: str, redirect_uri: str) -> Sealed | None:
    """As whom we are registered for an address of theirs and one of ours; None where that was for others."""
    row = tx.one(
        "SELECT key_id, nonce, ciphertext FROM mcp_oauth WHERE server_id = :server_id AND url = :url "
        "AND redirect_uri = :redirect_uri",
        {"server_id": server_id, "url": url, "redirect_uri": redirect_uri},
    )
    return _sealed(row) if row else None


def drop_client(tx: Tx, server_id: str) -> None:
    """Nobody has to sign in for an entry any more."""
    tx.execute("DELETE FROM mcp_oauth WHERE server_id = :id", {"id": server_id})


def every_login(tx: Tx) -> list[tuple[str, str, Sealed]]:
    """Every login that has not ended: server, person, what is kept."""
    rows = tx.all(
        "SELECT server_id, user_id, key_id, nonce, ciphertext FROM mcp_login WHERE ended_at IS NULL "
        "ORDER BY server_id, user_id"
    )
    return [(str(row["server_id"]), str(row["user_id"]), _sealed(row)) for row in rows]


def every_client(tx: Tx) -> list[tuple[str, Sealed]]:
    """As whom we are registered anywhere."""
    rows = tx.all("SELECT server_id, key_id, nonce, ciphertext FROM mcp_oauth ORDER BY server_id")
    return [(str(row["server_id"]), _sealed(row)) for row in rows]


def reseal_login(tx: Tx, server_id: str, user_id: str, sealed: Sealed) -> None:
    """The same login under another key."""
    tx.execute(
        "UPDATE mcp_login SET key_id = :key_id, nonce = :nonce, ciphertext = :ciphertext "
        "WHERE server_id = :server_id AND user_id = :user_id",
        {"server_id": server_id, "user_id": user_id, **_values(sealed)},
    )


def reseal_client(tx: Tx, server_id: str, sealed: Sealed) -> None:
    """The same registration under another key."""
    tx.execute(
        "UPDATE mcp_oauth SET key_id = :key_id, nonce = :nonce, ciphertext = :ciphertext WHERE server_id = :server_id",
        {"server_id": server_id, **_values(sealed)},
    )


def other_keys(tx: Tx, key_id: str) -> list[str]:
    """The ids of other master keys that something here is sealed under."""
    rows = tx.all(
        "SELECT key_id FROM mcp_login WHERE ended_at IS NULL AND key_id <> :key_id "
        "UNION SELECT key_id FROM mcp_oauth WHERE key_id <> :key_id",
        {"key_id": key_id},
    )
    return [str(row["key_id"]) for row in rows]


def _standing(row: Row) -> LoginStanding:
    values = {name: row[name] for name in LoginStanding.__dataclass_fields__}
    return LoginStanding(**values | {"renewable": bool(row["renewable"])})


def _sealed(row: Row) -> Sealed:
    return Sealed(str(row["key_id"]), bytes(row["nonce"]), bytes(row["ciphertext"]))


def _values(sealed: Sealed) -> dict[str, object]:
    return {"key_id": sealed.key_id, "nonce": sealed.nonce, "ciphertext": sealed.ciphertext}
