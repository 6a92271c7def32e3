"""Owns the SQL of signing in: links, sessions, and OIDC attempts, each kept as a digest."""

import hashlib
from dataclasses import dataclass

from holdfast.core.principal import Role
from holdfast.storage.database import Tx

# A used link says for a month that it was used; then it is unknown.
KEPT_MILLIS = 30 * 24 * 60 * 60 * 1000


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
class OwnSession:
    """One place where a person is signed in, as they see it."""

    created_at: int
    expires_at: int
    is_this: bool


@dataclass(frozen=True, slots=True)
class Account:
    """What sign-in by password needs to know."""

    user_id: str
    password_hash: str | None


@dataclass(frozen=True, slots=True)
class KeptLink:
    """A one-time link as it is remembered. Links from before organizations were noted lead to the first one."""

    user_id: str
    organization_id: str | None
    created_by: str | None
    expires_at: int
    used_at: int | None


def digest(secret: str) -> bytes:
    """What is kept of a link, a cookie or a state: each has 256 random bits, so one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).digest()


def account_by_email(tx: Tx, email: str) -> Account | None:
    """The account of an address."""
    row = tx.one("SELECT id, password_hash FROM user_account WHERE email = :email", {"email": email})
    return Account(row["id"], row["password_hash"]) if row else None


def account_by_subject(tx: Tx, subject: str) -> str | None:
    """The user who signed in before as this OIDC subject."""
    row = tx.one("SELECT id FROM user_account WHERE oidc_subject = :subject", {"subject": subject})
    return row["id"] if row else None


def link_subject(tx: Tx, user_id: str, subject: str) -> None:
    """Remember who an OIDC subject is; a password from before that proof stops working."""
    tx.execute(
        "UPDATE user_account SET oidc_subject = :subject, password_hash = NULL WHERE id = :id",
        {"subject": subject, "id": user_id},
    )


def is_somebodys(tx: Tx, user_id: str) -> bool:
    """Whether there is any way into the account, or any organization that it belongs to."""
    row = tx.one(
        "SELECT u.id FROM user_account u WHERE u.id = :id AND (u.password_hash IS NOT NULL "
        "OR u.oidc_subject IS NOT NULL OR EXISTS (SELECT 1 FROM membership m WHERE m.user_id = u.id))",
        {"id": user_id},
    )
    return row is not None


def first_membership(tx: Tx, user_id: str) -> str | None:
    """The organization a person lands in."""
    row = tx.one(
        "SELECT organization_id FROM membership WHERE user_id = :id ORDER BY created_at, organization_id LIMIT 1",
        {"id": user_id},
    )
    return row["organization_id"] if row else None


def insert_link(
    tx: Tx, digest: bytes, user_id: str, organization_id: str, created_by: str, now: int, expires_at: int
) -> None:
    """Keep a one-time link, and forget those that ended a month ago."""
    tx.execute("DELETE FROM sign_in_link WHERE expires_at < :old", {"old": now - KEPT_MILLIS})
    tx.execute(
        "INSERT INTO sign_in_link (hash, user_id, organization_id, created_by, expires_at) "
        "VALUES (:hash, :user_id, :organization_id, :created_by, :expires_at)",
        {
            "hash": digest,
            "user_id": user_id,
            "organization_id": organization_id,
            "created_by": created_by,
            "expires_at": expires_at,
        },
    )


def link(tx: Tx, digest: bytes) -> KeptLink | None:
    """The link of a digest, used or not."""
    row = tx.one(
        "SELECT user_id, organization_id, created_by, expires_at, used_at FROM sign_in_link WHERE hash = :hash",
        {"hash": digest},
    )
    if row is None:
        return None
    return KeptLink(row["user_id"], row["organization_id"], row["created_by"], row["expires_at"], row["used_at"])


def use_link(tx: Tx, digest: bytes, now: int) -> bool:
    """Use a link up; whether it was still to be used."""
    used = tx.execute(
        "UPDATE sign_in_link SET used_at = :now WHERE hash = :hash AND used_at IS NULL AND expires_at > :now",
        {"hash": digest, "now": now},
    )
    return used == 1


def end_sessions(tx: Tx, user_id: str, *, keep: bytes | None) -> None:
    """End every session of a person but one, and the links that would open another."""
    tx.execute(
        "DELETE FROM web_session WHERE user_id = :id AND (CAST(:all AS INTEGER) = 1 OR hash <> :keep)",
        {"id": user_id, "all": int(keep is None), "keep": keep or b""},
    )
    tx.execute("DELETE FROM sign_in_link WHERE user_id = :id AND used_at IS NULL", {"id": user_id})


def move_session(tx: Tx, digest: bytes, organization_id: str) -> None:
    """Let a session be in another of the person's organizations."""
    tx.execute(
        "UPDATE web_session SET organization_id = :organization_id WHERE hash = :hash",
        {"organization_id": organization_id, "hash": digest},
    )


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


def sessions_of(tx: Tx, user_id: str, digest: bytes, now: int) -> list[OwnSession]:
    """A person's open sessions, the newest first; `digest` is the one they look from."""
    rows = tx.all(
        "SELECT hash, created_at, expires_at FROM web_session WHERE user_id = :id AND expires_at > :now "
        "ORDER BY created_at DESC LIMIT 100",
        {"id": user_id, "now": now},
    )
    return [OwnSession(row["created_at"], row["expires_at"], bytes(row["hash"]) == digest) for row in rows]


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
