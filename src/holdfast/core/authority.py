"""Owns the one rule of handing out: nobody gives a credential, a role or a right that they do not hold themselves."""

from dataclasses import dataclass

from holdfast.core.access import at_least, holds
from holdfast.core.errors import FieldError, Forbidden
from holdfast.core.principal import SCOPES, Principal, Role, Scope, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """What somebody may do, or what a credential that is asked for would let its bearer do. None is no narrowing."""

    organization_id: str
    is_person: bool
    scopes: frozenset[Scope]
    role: Role = "member"
    """Of a person; keys have none that counts."""
    tier: Tier = "all"
    project_id: str | None = None
    workspace_ids: frozenset[str] | None = None
    allow_destructive: bool = False
    administers: frozenset[str] = frozenset()
    """Workspaces that a person administers beside what the role gives."""
    expires_at: int | None = None

    def lacks(self, wanted: "Authority") -> list[FieldError]:
        """What would have to be held to hand that out, by dimension; empty when it may be."""
        if wanted.organization_id != self.organization_id:
            return [FieldError("organization_id", "it is another organization's")]
        if wanted.is_person:
            return self._lacks_person(wanted)
        return self._lacks_key(wanted)

    def _lacks_person(self, wanted: "Authority") -> list[FieldError]:
        if not self.is_person:
            return [FieldError("role", "keys neither make people nor change what they may do: sign in")]
        if not at_least(self.role, wanted.role):
            return [FieldError("role", f"this takes the role {wanted.role}; yours is {self.role}")]
        beyond = wanted.administers - self.administers
        if beyond and not at_least(self.role, "admin"):
            return [FieldError("administers", f"you do not administer {', '.join(sorted(beyond))}")]
        return []

    def _lacks_key(self, wanted: "Authority") -> list[FieldError]:
        # A key has no role: within its scopes it does what admins do, so any key is more than a member holds.
        if self.is_person and not at_least(self.role, "admin"):
            return [FieldError("role", f"keys are made by admins; your role is {self.role}")]
        lacking = []
        beyond = sorted(wanted.scopes - self.scopes)
        if beyond:
            lacking.append(FieldError("scopes", f"you lack {', '.join(beyond)}"))
        if not holds(self.tier, wanted.tier):
            lacking.append(FieldError("tier", f"you lack {wanted.tier}; yours is {self.tier}"))
        if wanted.allow_destructive and not self.allow_destructive:
            lacking.append(FieldError("allow_destructive", "you may not use destructive tools"))
        if self.project_id is not None and wanted.project_id != self.project_id:
            lacking.append(FieldError("project_id", "you see one project; stay in it"))
        if self.workspace_ids is not None and (
            wanted.workspace_ids is None or not wanted.workspace_ids <= self.workspace_ids
        ):
            lacking.append(FieldError("workspace_ids", "you see certain workspaces; name some of them"))
        if self.expires_at is not None and (wanted.expires_at is None or wanted.expires_at > self.expires_at):
            lacking.append(FieldError("expires_at", "it would outlive your own credential; choose an earlier moment"))
        return lacking


def authority_of(principal: Principal, *, administers: frozenset[str] = frozenset()) -> Authority:
    """What a principal holds; which single workspaces a person administers is known to the workspaces' service."""
    if principal.is_person:
        return person_authority(principal.organization_id, principal.role, administers=administers)
    return Authority(
        organization_id=principal.organization_id,
        is_person=False,
        scopes=principal.scopes,
        tier=principal.tier,
        project_id=principal.project_id,
        workspace_ids=principal.workspace_ids,
        allow_destructive=principal.allow_destructive,
        expires_at=principal.expires_at,
    )


def person_authority(organization_id: str, role: Role, *, administers: frozenset[str] = frozenset()) -> Authority:
    """What a person of that role holds."""
    return Authority(
        organization_id=organization_id,
        is_person=True,
        scopes=frozenset(SCOPES),
        role=role,
        allow_destructive=at_least(role, "admin"),
        administers=administers,
    )


def check_hands_out(
    principal: Principal, wanted: Authority, what: str, *, administers: frozenset[str] = frozenset()
) -> None:
    """Raise Forbidden that names what is missing, unless the principal holds all of it; `what` is given, in words."""
    lacking = authority_of(principal, administers=administers).lacks(wanted)
    if lacking:
        reasons = "; ".join(f"{each.field}: {each.message}" for each in lacking)
        raise Forbidden(f"You cannot hand out {what} that may do more than you ({reasons}).", fields=lacking)
