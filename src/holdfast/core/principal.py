"""Owns the Principal: who is asking, how they proved it, and what that allows."""

import json
from dataclasses import dataclass
from typing import Any, Literal, get_args

from holdfast.core.errors import Forbidden

Scope = Literal["inference", "management", "read"]
Tier = Literal["core", "exec", "intel", "all"]
Role = Literal["owner", "admin", "member"]
Proof = Literal["key", "session", "jwt", "local"]

SCOPES: tuple[Scope, ...] = get_args(Scope)
TIERS: tuple[Tier, ...] = get_args(Tier)
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody known. `project_id` and `workspace_ids` narrow what they see; None there means no narrowing."""

    organization_id: str
    actor: str
    """`key_…` for an API key, `usr_…` for a person, `system` for the server itself."""
    proof: Proof
    is_person: bool
    scopes: frozenset[Scope]
    role: Role = "member"
    tier: Tier = "all"
    project_id: str | None = None
    workspace_ids: frozenset[str] | None = None
    allow_destructive: bool = False
    name: str = ""
    """How people see the actor: a key's name or a user's name."""
    catalog_search: bool = False
    """Whether MCP shows this key `find_tool` and `call_tool` instead of the whole list."""
    expires_at: int | None = None
    """When a key stops working; a person's sessions end, but the person goes on."""

    def require(self, scope: Scope) -> None:
        """Raise Forbidden naming the scope unless the principal has it."""
        if scope not in self.scopes:
            raise Forbidden(f"This needs the scope {scope!r}; the credential has {sorted(self.scopes) or 'none'}.")

    def require_any(self, *scopes: Scope) -> None:
        """Raise Forbidden naming the first scope unless the principal has one of them."""
        if not self.scopes.intersection(scopes):
            self.require(scopes[0])

    def require_role(self, *roles: Role) -> None:
        """Raise Forbidden unless the principal has one of the roles."""
        if self.role not in roles:
            raise Forbidden(f"This needs the role {' or '.join(roles)}; yours is {self.role}.")

    def sees_project(self, project_id: str) -> bool:
        """Whether the principal is not confined to another project."""
        return self.project_id is None or self.project_id == project_id

    def sees_workspace(self, workspace_id: str) -> bool:
        """Whether the principal is not confined to other workspaces."""
        return self.workspace_ids is None or workspace_id in self.workspace_ids


def principal_text(principal: Principal) -> str:
    """A principal as it is kept with what it asked for."""
    kept: dict[str, Any] = {name: getattr(principal, name) for name in Principal.__dataclass_fields__}
    kept["scopes"] = sorted(principal.scopes)
    kept["workspace_ids"] = None if principal.workspace_ids is None else sorted(principal.workspace_ids)
    return json.dumps(kept)


def principal_from(text: str) -> Principal:
    """A principal as it was kept."""
    kept = json.loads(text)
    ids = kept.pop("workspace_ids")
    scopes = frozenset(kept.pop("scopes"))
    return Principal(**kept, scopes=scopes, workspace_ids=None if ids is None else frozenset(ids))
