"""Owns the SQL of signing in: links, sessions, and OIDC attempts, each kept as a digest."""

from dataclasses import dataclass

from holdfast.core.principal import Role
from holdfast.storage.database import Tx


@dataclass(frozen=True, slots=True)
class WebSession:
    """A person who is signed in."""

    user_id: str
    organization_id: str
    name: str
    email: str
    role: Role
    csrf: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Account:
    """What sign-in by password needs to know."""

    user_id: str
    password_hash: str | None


def account_by_email(tx: Tx, email: str) -> Account | None:
    """The account of an address."""
    row = tx.one("SELECT id, password_hash FROM user_account WHERE email = :email", {"email": email})
    return Account(row["id"], row["password_hash"]) if row else None


def account_by_subject(tx: Tx, subject: str) -> str | None:
    """The user who signed in before as this OIDC subject."""
    row = tx.one("SELECT id FROM user_account WHERE oidc_subject = :subject", {"subject": subject})
    return row["id"] if row else None


def link_subject(tx: Tx, user_id: str, subject: str) -> None:
    """Remember who an OIDC subject is."""
    tx.execute("UPDATE user_account SET oidc_subject = :subject WHERE id = :id", {"subject": subject, "id": user_id})


def first_membership(tx: Tx, user_id: str) -> str | None:
    """The organization a person lands in."""
    row = tx.one(
        "SELECT organization_id FROM membership WHERE user_id = :id ORDER BY created_at, organization_id LIMIT 1",
        {"id": user_id},
    )
    return row["organization_id"] if row else None


def insert_link(tx: Tx, digest: bytes, user_id: str, expires_at: int) -> None:
    """Keep a one-time link."""
    tx.execute(
        "INSERT INTO sign_in_link (hash, user_id, expires_at) VALUES (:hash, :user_id, :expires_at)",
        {"hash": digest, "user_id": user_id, "expires_at": expires_at},
    )


def use_link(tx: Tx, digest: bytes, now: int) -> str | None:
    """The link's user, once, before it expires."""
    row = tx.one(
        "UPDATE sign_in_link SET used_at = :now WHERE hash = :hash AND used_at IS NULL AND expires_at > :now "
        "RETURNING user_id",
        {"hash": digest, "now": now},
    )
    return row["user_id"] if row else None


def insert_session(
    tx: Tx, digest: bytes, user_id: str, organization_id: str, csrf: str, now: int, expires_at: int
) -> None:
    """Keep a session, and forget those that ended."""
    tx.execute("DELETE FROM web_session WHERE expires_at <= :now", {"now": now})
    tx.execute(
        "INSERT INTO web_session (hash, user_id, organization_id, csrf, created_at, expires_at) "
        "VALUES (:hash, :user_id, :organization_id, :csrf, :now, :expires_at)",
        {
            "hash": digest,
            "user_id": user_id,
            "organization_id": organization_id,
            "csrf": csrf,
            "now": now,
            "expires_at": expires_at,
        },
    )


def session(tx: Tx, digest: bytes, now: int) -> WebSession | None:
    """The session of a cookie, while it and the membership last."""
    row = tx.one(
        "SELECT s.user_id, s.organization_id, s.csrf, s.expires_at, u.name, u.email, m.role FROM web_session s "
        "JOIN user_account u ON u.id = s.user_id "
        "JOIN membership m ON m.user_id = s.user_id AND m.organization_id = s.organization_id "
        "WHERE s.hash = :hash AND s.expires_at > :now",
        {"hash": digest, "now": now},
    )
    if row is None:
        return None
    return WebSession(
        row["user_id"],
        row["organization_id"],
        row["name"],
        row["email"],
        row["role"],
        row["csrf"],
        row["expires_at"],
    )


def delete_session(tx: Tx, digest: bytes) -> None:
    """End a session."""
    tx.execute("DELETE FROM web_session WHERE hash = :hash", {"hash": digest})


def insert_attempt(tx: Tx, digest: bytes, verifier: str, nonce: str, now: int, expires_at: int) -> None:
    """Keep what an OIDC sign-in needs when the browser comes back."""
    tx.execute("DELETE FROM oidc_attempt WHERE expires_at <= :now", {"now": now})
    tx.execute(
        "INSERT INTO oidc_attempt (hash, verifier, nonce, expires_at) VALUES (:hash, :verifier, :nonce, :expires_at)",
        {"hash": digest, "verifier": verifier, "nonce": nonce, "expires_at": expires_at},
    )


def take_attempt(tx: Tx, digest: bytes, now: int) -> tuple[str, str] | None:
    """The attempt's verifier and nonce, once."""
    row = tx.one("DELETE FROM oidc_attempt WHERE hash = :hash RETURNING verifier, nonce, expires_at", {"hash": digest})
    return (row["verifier"], row["nonce"]) if row and row["expires_at"] > now else None
