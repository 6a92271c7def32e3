"""Owns the SQL of organizations, people and projects."""

from holdfast.core.errors import Conflict
from holdfast.core.principal import Role
from holdfast.features.identity.model import Organization, Project, User
from holdfast.storage.database import Row, Tx

_USER = (
    "SELECT u.id, u.email, u.name, u.password_hash, u.created_at, m.role FROM user_account u "
    "JOIN membership m ON m.user_id = u.id AND m.organization_id = :organization_id"
)


def organization(tx: Tx, organization_id: str) -> Organization | None:
    """The organization of this id."""
    row = tx.one("SELECT id, name, created_at FROM organization WHERE id = :id", {"id": organization_id})
    return Organization(row["id"], row["name"], row["created_at"]) if row else None


def first_organization(tx: Tx) -> Organization | None:
    """The oldest organization, which `holdfast up` made."""
    row = tx.one("SELECT id, name, created_at FROM organization ORDER BY id LIMIT 1")
    return Organization(row["id"], row["name"], row["created_at"]) if row else None


def organizations(tx: Tx) -> list[Organization]:
    """Every organization, oldest first."""
    rows = tx.all("SELECT id, name, created_at FROM organization ORDER BY id")
    return [Organization(row["id"], row["name"], row["created_at"]) for row in rows]


def insert_organization(tx: Tx, new: Organization) -> None:
    """Keep a new organization."""
    tx.execute(
        "INSERT INTO organization (id, name, created_at) VALUES (:id, :name, :created_at)",
        {"id": new.id, "name": new.name, "created_at": new.created_at},
    )


def rename_organization(tx: Tx, organization_id: str, name: str) -> None:
    """Give it another name."""
    tx.execute("UPDATE organization SET name = :name WHERE id = :id", {"name": name, "id": organization_id})


def lock_organization(tx: Tx, organization_id: str) -> None:
    """Make changes that count members or keys wait for one another; SQLite has one writer anyway."""
    if tx.dialect == "postgresql":
        tx.one("SELECT id FROM organization WHERE id = :id FOR UPDATE", {"id": organization_id})


def project(tx: Tx, organization_id: str, project_id: str) -> Project | None:
    """The organization's project of this id."""
    row = tx.one(
        "SELECT id, organization_id, slug, name, created_at FROM project "
        "WHERE id = :id AND organization_id = :organization_id",
        {"id": project_id, "organization_id": organization_id},
    )
    return _project(row) if row else None


def project_called(tx: Tx, organization_id: str, slug: str) -> Project | None:
    """The organization's project of this slug."""
    row = tx.one(
        "SELECT id, organization_id, slug, name, created_at FROM project "
        "WHERE slug = :slug AND organization_id = :organization_id",
        {"slug": slug, "organization_id": organization_id},
    )
    return _project(row) if row else None


def project_exists(tx: Tx, organization_id: str, project_id: str) -> bool:
    """Whether the organization has that project."""
    return project(tx, organization_id, project_id) is not None


def projects(tx: Tx, organization_id: str, only: str | None, after: str, limit: int) -> list[Project]:
    """Projects in the order they were made, after an id."""
    rows = tx.all(
        "SELECT id, organization_id, slug, name, created_at FROM project WHERE organization_id = :organization_id "
        "AND id > :after AND (CAST(:only AS TEXT) IS NULL OR id = :only) ORDER BY id LIMIT :limit",
        {"organization_id": organization_id, "only": only, "after": after, "limit": limit},
    )
    return [_project(row) for row in rows]


def project_slugs(tx: Tx, organization_id: str) -> set[str]:
    """Every slug taken in the organization."""
    rows = tx.all("SELECT slug FROM project WHERE organization_id = :id", {"id": organization_id})
    return {row["slug"] for row in rows}


def insert_project(tx: Tx, new: Project) -> None:
    """Keep a new project."""
    tx.execute(
        "INSERT INTO project (id, organization_id, slug, name, created_at) "
        "VALUES (:id, :organization_id, :slug, :name, :created_at)",
        {
            "id": new.id,
            "organization_id": new.organization_id,
            "slug": new.slug,
            "name": new.name,
            "created_at": new.created_at,
        },
    )


def rename_project(tx: Tx, project_id: str, name: str) -> None:
    """Give it another name; the slug stays."""
    tx.execute("UPDATE project SET name = :name WHERE id = :id", {"name": name, "id": project_id})


def delete_project(tx: Tx, project_id: str) -> None:
    """Remove the project with its keys, workspaces and everything in them."""
    tx.execute("DELETE FROM project WHERE id = :id", {"id": project_id})


def user(tx: Tx, organization_id: str, user_id: str) -> User | None:
    """A member of the organization."""
    row = tx.one(f"{_USER} WHERE u.id = :id", {"organization_id": organization_id, "id": user_id})
    return _user(row) if row else None


def is_member(tx: Tx, organization_id: str, user_id: str) -> bool:
    """Whether the person belongs to the organization."""
    return user(tx, organization_id, user_id) is not None


def users(tx: Tx, organization_id: str, after: str, limit: int) -> list[User]:
    """Members in the order they were made, after an id."""
    rows = tx.all(
        f"{_USER} WHERE u.id > :after ORDER BY u.id LIMIT :limit",
        {"organization_id": organization_id, "after": after, "limit": limit},
    )
    return [_user(row) for row in rows]


def member_by_email(tx: Tx, organization_id: str, email: str) -> User | None:
    """The organization's member of this address."""
    row = tx.one(f"{_USER} WHERE u.email = :email", {"organization_id": organization_id, "email": email})
    return _user(row) if row else None


def memberships(tx: Tx, user_id: str) -> list[tuple[Organization, Role]]:
    """The organizations a person belongs to, oldest membership first, and as what."""
    rows = tx.all(
        "SELECT o.id, o.name, o.created_at, m.role FROM membership m JOIN organization o ON o.id = m.organization_id "
        "WHERE m.user_id = :id ORDER BY m.created_at, o.id",
        {"id": user_id},
    )
    return [(Organization(row["id"], row["name"], row["created_at"]), row["role"]) for row in rows]


def user_id_by_email(tx: Tx, email: str) -> str | None:
    """Whose address that is, in any organization."""
    row = tx.one("SELECT id FROM user_account WHERE email = :email", {"email": email})
    return row["id"] if row else None


def insert_user(tx: Tx, user_id: str, email: str, name: str, password_hash: str | None, now: int) -> None:
    """Keep a new person; Conflict when somebody made an account of that address in the same moment."""
    made = tx.execute(
        "INSERT INTO user_account (id, email, name, password_hash, created_at) "
        "VALUES (:id, :email, :name, :password_hash, :now) ON CONFLICT DO NOTHING",
        {"id": user_id, "email": email, "name": name, "password_hash": password_hash, "now": now},
    )
    if made != 1:
        raise Conflict("An account of this address was made just now; try again.")


def password_hash(tx: Tx, user_id: str) -> str | None:
    """What is kept of a person's password; None without one."""
    row = tx.one("SELECT password_hash FROM user_account WHERE id = :id", {"id": user_id})
    return row["password_hash"] if row else None


def set_password_hash(tx: Tx, user_id: str, password_hash: str) -> None:
    """Replace a person's password."""
    tx.execute("UPDATE user_account SET password_hash = :hash WHERE id = :id", {"hash": password_hash, "id": user_id})


def set_user_name(tx: Tx, user_id: str, name: str) -> None:
    """Correct how a person is called."""
    tx.execute("UPDATE user_account SET name = :name WHERE id = :id", {"name": name, "id": user_id})


def set_role(tx: Tx, organization_id: str, user_id: str, role: Role, now: int) -> None:
    """Make a person a member with this role."""
    tx.execute(
        "INSERT INTO membership (organization_id, user_id, role, created_at) "
        "VALUES (:organization_id, :user_id, :role, :now) "
        "ON CONFLICT (organization_id, user_id) DO UPDATE SET role = excluded.role",
        {"organization_id": organization_id, "user_id": user_id, "role": role, "now": now},
    )


def remove_member(tx: Tx, organization_id: str, user_id: str) -> None:
    """End a membership, its sessions and links here, and the workspaces it administered."""
    values = {"organization_id": organization_id, "user_id": user_id}
    tx.execute("DELETE FROM membership WHERE organization_id = :organization_id AND user_id = :user_id", values)
    tx.execute("DELETE FROM web_session WHERE organization_id = :organization_id AND user_id = :user_id", values)
    tx.execute(
        "DELETE FROM sign_in_link WHERE used_at IS NULL AND COALESCE(organization_id, :organization_id) = "
        ":organization_id AND (user_id = :user_id OR created_by = :user_id)",
        values,
    )
    tx.execute(
        "DELETE FROM workspace_admin WHERE user_id = :user_id AND workspace_id IN "
        "(SELECT id FROM workspace WHERE organization_id = :organization_id)",
        values,
    )


def owners(tx: Tx, organization_id: str) -> int:
    """How many owners the organization has."""
    row = tx.one(
        "SELECT COUNT(*) AS n FROM membership WHERE organization_id = :id AND role = 'owner'", {"id": organization_id}
    )
    return int(row["n"]) if row else 0


def first_owner(tx: Tx, organization_id: str) -> str | None:
    """The oldest owner's user id."""
    row = tx.one(
        "SELECT user_id FROM membership WHERE organization_id = :id AND role = 'owner' ORDER BY user_id LIMIT 1",
        {"id": organization_id},
    )
    return row["user_id"] if row else None


def _project(row: Row) -> Project:
    return Project(row["id"], row["organization_id"], row["slug"], row["name"], row["created_at"])


def _user(row: Row) -> User:
    return User(row["id"], row["email"], row["name"], row["role"], row["password_hash"] is not None, row["created_at"])
