"""Owns which events of an organization somebody sees: admins all, workspace admins theirs, a key what it reaches."""

from typing import Protocol

from holdfast.core.access import at_least
from holdfast.core.errors import Forbidden
from holdfast.core.principal import Principal
from holdfast.storage.database import Tx


class Administered(Protocol):
    """The workspaces of an organization that a person administers by themselves."""

    def __call__(self, tx: Tx, organization_id: str, user_id: str, /) -> frozenset[str]: ...


def nothing_administered(tx: Tx, organization_id: str, user_id: str) -> frozenset[str]:
    """Nobody administers a workspace by themselves."""
    return frozenset()


def seen_workspaces(tx: Tx, principal: Principal, administered: Administered) -> frozenset[str] | None:
    """The workspaces whose events are shown; None: all events within the principal's reach. Forbidden for a member."""
    principal.require("management")
    if not principal.is_person or at_least(principal.role, "admin"):
        return principal.workspace_ids
    own = administered(tx, principal.organization_id, principal.actor)
    if not own:
        raise Forbidden(f"This needs the role admin, or to administer a workspace; yours is {principal.role}.")
    return own
