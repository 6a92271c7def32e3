"""Owns the SQL of invitations; the secret of an invitation's link is kept as a digest."""

from holdfast.features.identity.model import Invitation
from holdfast.storage.database import Row, Tx

_SELECT = (
    "SELECT i.id, i.organization_id, i.email, i.name, i.role, i.created_by, i.created_at, i.expires_at, i.ended_at, "
    "i.outcome, o.name AS organization_name FROM invitation i JOIN organization o ON o.id = i.organization_id"
)
_OPEN = "i.ended_at IS NULL AND i.expires_at > :now"


def insert(tx: Tx, new: Invitation, digest: bytes) -> None:
    """Keep an invitation by the digest of its link."""
    tx.execute(
        "INSERT INTO invitation (id, organization_id, email, name, role, hash, created_by, created_at, expires_at) "
        "VALUES (:id, :organization_id, :email, :name, :role, :hash, :created_by, :created_at, :expires_at)",
        {
            "id": new.id,
            "organization_id": new.organization_id,
            "email": new.email,
            "name": new.name,
            "role": new.role,
            "hash": digest,
            "created_by": new.created_by,
            "created_at": new.created_at,
            "expires_at": new.expires_at,
        },
    )


def by_hash(tx: Tx, digest: bytes) -> Invitation | None:
    """The invitation of a link, whether or not it is still open."""
    row = tx.one(f"{_SELECT} WHERE i.hash = :hash", {"hash": digest})
    return _invitation(row) if row else None


def find(tx: Tx, organization_id: str, invitation_id: str) -> Invitation | None:
    """The organization's invitation of this id."""
    row = tx.one(
        f"{_SELECT} WHERE i.id = :id AND i.organization_id = :organization_id",
        {"id": invitation_id, "organization_id": organization_id},
    )
    return _invitation(row) if row else None


def open_page(tx: Tx, organization_id: str, after: str, limit: int, now: int) -> list[Invitation]:
    """The organization's open invitations, oldest first."""
    rows = tx.all(
        f"{_SELECT} WHERE i.organization_id = :organization_id AND i.id > :after AND {_OPEN} "
        "ORDER BY i.id LIMIT :limit",
        {"organization_id": organization_id, "after": after, "limit": limit, "now": now},
    )
    return [_invitation(row) for row in rows]


def open_for(tx: Tx, email: str, now: int) -> list[Invitation]:
    """Open invitations of an address, of any organization."""
    rows = tx.all(f"{_SELECT} WHERE i.email = :email AND {_OPEN} ORDER BY i.id", {"email": email, "now": now})
    return [_invitation(row) for row in rows]


def end(tx: Tx, invitation_id: str, outcome: str, now: int) -> bool:
    """Close an invitation, once; whether it was still open."""
    ended = tx.execute(
        "UPDATE invitation SET ended_at = :now, outcome = :outcome "
        "WHERE id = :id AND ended_at IS NULL AND expires_at > :now",
        {"id": invitation_id, "outcome": outcome, "now": now},
    )
    return ended == 1


def withdraw_all(tx: Tx, organization_id: str, email: str, created_by: str, now: int) -> None:
    """Close what is open for an address, and what this person had sent out, in one organization."""
    tx.execute(
        "UPDATE invitation SET ended_at = :now, outcome = 'withdrawn' WHERE organization_id = :organization_id "
        "AND ended_at IS NULL AND (email = :email OR created_by = :created_by)",
        {"organization_id": organization_id, "email": email, "created_by": created_by, "now": now},
    )


def _invitation(row: Row) -> Invitation:
    return Invitation(
        id=row["id"],
        organization_id=row["organization_id"],
        organization_name=row["organization_name"],
        email=row["email"],
        name=row["name"],
        role=row["role"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        ended_at=row["ended_at"],
        outcome=row["outcome"],
    )
