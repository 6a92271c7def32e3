"""Owns what organizations, people, projects and keys are."""

from dataclasses import dataclass
from typing import Literal

from holdfast.core.principal import Role, Scope, Tier

KeyKind = Literal["project", "organization"]


@dataclass(frozen=True, slots=True)
class Organization:
    """A team: the boundary of tenancy."""

    id: str
    name: str
    created_at: int


@dataclass(frozen=True, slots=True)
class User:
    """A person, as a member of one organization."""

    id: str
    email: str
    name: str
    role: Role
    has_password: bool
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """An offer to join an organization. `outcome` is accepted, declined or withdrawn once it ended."""

    id: str
    organization_id: str
    organization_name: str
    email: str
    name: str
    role: Role
    created_by: str
    created_at: int
    expires_at: int
    ended_at: int | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Invited:
    """A new invitation with the secret of its link, which is shown once and kept nowhere."""

    invitation: Invitation
    secret: str

    def __repr__(self) -> str:
        return f"Invited({self.invitation.id})"


@dataclass(frozen=True, slots=True)
class SignInLink:
    """A fresh one-time link; its secret is shown once and kept nowhere."""

    user_id: str
    secret: str
    expires_at: int

    def __repr__(self) -> str:
        return f"SignInLink({self.user_id})"


@dataclass(frozen=True, slots=True)
class Project:
    """The boundary of API keys within an organization."""

    id: str
    organization_id: str
    slug: str
    name: str
    created_at: int


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is remembered: everything but the key itself."""

    id: str
    organization_id: str
    project_id: str | None
    name: str
    prefix: str
    scopes: frozenset[Scope]
    tier: Tier
    workspace_ids: frozenset[str] | None
    allow_destructive: bool
    catalog_search: bool
    created_by: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None

    @property
    def kind(self) -> KeyKind:
        return "organization" if self.project_id is None else "project"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """What somebody asks for when they make a key."""

    name: str
    kind: KeyKind = "project"
    project_id: str | None = None
    scopes: frozenset[Scope] = frozenset({"inference"})
    tier: Tier = "all"
    workspace_ids: frozenset[str] | None = None
    allow_destructive: bool = False
    catalog_search: bool = False
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A new key with its secret, which is shown once and kept nowhere."""

    key: ApiKey
    secret: str

    def __repr__(self) -> str:
        return f"MintedKey({self.key.prefix}…)"
