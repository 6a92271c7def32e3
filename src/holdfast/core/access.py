"""Owns Access: what an operation asks of whoever calls it, declared beside the operation and checked in one place."""

from dataclasses import dataclass
from typing import Literal

from holdfast.core.errors import Forbidden
from holdfast.core.principal import ROLES, SCOPES, Principal, Role, Scope, Tier

Level = Literal["self", "workspace", "project", "organization"]
NeededTier = Literal["core", "exec", "intel"]

_TIER_HOLDS: dict[Tier, frozenset[Tier]] = {
    "core": frozenset({"core"}),
    "exec": frozenset({"core", "exec"}),
    "intel": frozenset({"core", "intel"}),
    "all": frozenset({"core", "exec", "intel", "all"}),
}


def holds(tier: Tier, needed: Tier) -> bool:
    """Whether a key of that tier holds what another tier needs: all but `core` hold more than their own."""
    return needed in _TIER_HOLDS[tier]


@dataclass(frozen=True, slots=True)
class Access:
    """Who may call an operation at all. Which rows they find is their service's business: another tenant's are none.

    Keys are held by scope, tier and level; people by role. A key confined to workspaces stays at workspace level, a
    project's key below the organization.
    """

    level: Level
    """The widest thing that a call reads or changes; `self` is about the caller alone."""
    scope: Scope | tuple[Scope, ...]
    """The scope that the credential needs; any one of several."""
    role: Role = "member"
    """The least role of a person. At workspace level its own admins will do: `Workspaces.administered` looks there."""
    tier: NeededTier = "core"
    """The tier that a key needs."""
    people_only: bool = False
    """Whether keys are refused, whatever they may do."""
    signed_in: bool = False
    """Whether a person has to sit there: a session of this server with its token, no bearer token, no command."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return (self.scope,) if isinstance(self.scope, str) else self.scope

    def check(self, principal: Principal) -> None:
        """Raise Forbidden that names what is missing."""
        missing = self.missing(principal)
        if missing is not None:
            raise Forbidden(missing)

    def missing(self, principal: Principal) -> str | None:
        """What this principal lacks, in words; None when it may go on."""
        if not principal.is_person:
            missing = self._missing_to_key(principal)
            if missing is not None:
                return missing
        if self.signed_in and principal.proof != "session":
            return "This needs a person who is signed in here; no key, token or command can do it."
        if not principal.scopes.intersection(self.scopes):
            wanted = " or ".join(repr(scope) for scope in self.scopes)
            return f"This needs the scope {wanted}; the credential has {sorted(principal.scopes) or 'none'}."
        if (
            principal.is_person
            and self.level in ("project", "organization")
            and not at_least(principal.role, self.role)
        ):
            return f"This needs the role {self.role}; yours is {principal.role}."
        return None

    def _missing_to_key(self, principal: Principal) -> str | None:
        if self.people_only:
            return "This needs a signed-in person; keys cannot do it."
        if principal.workspace_ids is not None and self.level in ("project", "organization"):
            return f"This concerns the whole {self.level}; the key is confined to certain workspaces."
        if principal.project_id is not None and self.level == "organization":
            return "This concerns the whole organization; the key is one project's: use an organization key or sign in."
        if not holds(principal.tier, self.tier):
            return f"This needs the tier {self.tier!r} or 'all'; the key has the tier {principal.tier!r}."
        return None

    def as_json(self) -> dict[str, object]:
        """The declaration as the OpenAPI document and the documentation show it."""
        return {
            "level": self.level,
            "scopes": list(self.scopes),
            "role": self.role,
            "tier": self.tier,
            "people_only": self.people_only,
            "signed_in": self.signed_in,
        }


def at_least(role: Role, least: Role) -> bool:
    """Whether a role is another or above it: owners are admins, admins are members."""
    return ROLES.index(role) <= ROLES.index(least)


# What most operations in a workspace ask; the others say it themselves.
ANY = Access("workspace", SCOPES)
READ = Access("workspace", ("read", "inference"))
WRITE = Access("workspace", "inference")
READ_INTEL = Access("workspace", ("read", "inference"), tier="intel")
WRITE_INTEL = Access("workspace", "inference", tier="intel")
READ_EXEC = Access("workspace", ("read", "inference", "management"), tier="exec")
RUN_EXEC = Access("workspace", "inference", tier="exec")
ADMINISTER = Access("workspace", "management", role="admin")
# What asks a model or the network: it changes nothing here, but costs.
RUN = WRITE
RUN_INTEL = WRITE_INTEL
