"""Owns what a declaration means, said a second time in the issue's own words, so that a matrix can contradict the code.

Nothing here calls `Access.missing`: a mistake there must show.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from holdfast.core.access import Access
from holdfast.core.principal import SCOPES, Role, Scope, Tier

State = Literal["valid", "revoked", "expired", "absent", "no csrf"]
Kind = Literal["key", "person", "nobody"]

# Which tiers hold what: written out, because it is what people are promised.
HOLDERS: dict[str, tuple[Tier, ...]] = {
    "core": ("core", "exec", "intel", "all"),
    "exec": ("exec", "all"),
    "intel": ("intel", "all"),
}
RANKS: dict[Role, int] = {"member": 0, "admin": 1, "owner": 2}
SAFE = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Credential:
    """One kind of credential, and the headers that show it."""

    name: str
    kind: Kind
    headers: dict[str, str] = field(default_factory=dict)
    state: State = "valid"
    scopes: tuple[Scope, ...] = SCOPES
    tier: Tier = "all"
    of_project: bool = False
    confined: bool = False
    """Whether it is confined to workspaces at all, and whether the tenant's first is among them."""
    sees_first: bool = True
    role: Role = "member"
    administers_first: bool = False
    own_tenant: bool = True


@dataclass(frozen=True, slots=True)
class Expected:
    """A status, and for a refusal the words of which the message must have one."""

    status: Literal["ok", 401, 403, 404]
    words: tuple[str, ...] = ()


OK = Expected("ok")


def expected(access: Access, credential: Credential, method: str, *, names_things: bool, in_first: bool) -> Expected:
    """What a request of the first tenant's things is answered.

    `names_things`: the request names something of the tenant by id; `in_first`: something in its first workspace.
    """
    if credential.state in ("revoked", "expired", "absent"):
        return Expected(401)
    if credential.state == "no csrf":
        return Expected(403, ("X-CSRF-Token",)) if method not in SAFE else _person(access, credential, names_things)
    if credential.kind == "person":
        if access.signed_in and "JWT" in credential.name:
            return Expected(403, ("signed in here",))
        return _person(access, credential, names_things)
    lacking = tuple(_lacking(access, credential))
    if lacking:
        return Expected(403, lacking)
    if not credential.own_tenant and names_things:
        return Expected(404)
    if not credential.sees_first and in_first:
        return Expected(404)
    return OK


def _person(access: Access, credential: Credential, names_things: bool) -> Expected:
    above = access.level in ("project", "organization")
    short = RANKS[credential.role] < RANKS[access.role]
    if above and short:
        return Expected(403, (f"role {access.role}",))
    if not credential.own_tenant and names_things:
        return Expected(404)
    if access.level == "workspace" and short and not credential.administers_first:
        return Expected(403, ("role", "admin"))
    return OK


def _lacking(access: Access, credential: Credential) -> Iterable[str]:
    if access.people_only:
        yield "signed-in person"
    if credential.confined and access.level in ("project", "organization"):
        yield f"whole {access.level}"
    if credential.of_project and access.level == "organization":
        yield "whole organization"
    if credential.tier not in HOLDERS[access.tier]:
        yield f"tier {access.tier!r}"
    wanted = (access.scope,) if isinstance(access.scope, str) else access.scope
    if not any(scope in credential.scopes for scope in wanted):
        yield " or ".join(repr(scope) for scope in wanted)
