"""Owns what happens to a call before any person is asked: let through, refused, or left to a person."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from holdfast.core.principal import Principal
from holdfast.features.catalog.model import CatalogEntry, PinnedTool
from holdfast.features.catalog.servers.connections import LoginOwner
from holdfast.features.execution.model import ToolHeldBack
from holdfast.features.execution.policies.grants import Grants
from holdfast.storage.database import Tx


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a call, and the grant that let it through."""

    kind: Literal["run", "ask", "refuse"]
    granted_via: str | None = None
    is_unspent: bool = False
    """Whether the grant is good for one call, and was only looked at."""


def needs_grant_by_name(tool: PinnedTool) -> bool:
    """Whether an agent needs a grant for this very tool, because no scope of it can be granted, or is enough."""
    return tool.set_policy == "approve" or tool.scope is None


class Deciding:
    """Decides by what an operator set, by grants, and by the default rule."""

    def __init__(self, grants: Grants, owner: LoginOwner) -> None:
        self._grants = grants
        self._owner = owner

    def check(self, principal: Principal, entry: CatalogEntry, tool: PinnedTool) -> None:
        """ToolHeldBack where nobody, or not this principal, gets the tool at all."""
        if not entry.spec.enabled:
            raise ToolHeldBack(f"The server {entry.name} is switched off.")
        if tool.state == "quarantined":
            why = "is new and" if tool.is_new else "changed and"
            raise ToolHeldBack(f"The tool {tool.xem_name} {why} waits until a person has looked at it in the catalog.")
        if tool.state == "gone":
            raise ToolHeldBack(f"The server no longer has the tool {tool.xem_name}.")
        if tool.destructive and not principal.allow_destructive:
            raise ToolHeldBack(
                f"The tool {tool.xem_name} is destructive; this credential may not use such tools. A key with "
                "'Allow destructive XEM tools' may.",
                code="destructive",
            )

    def decide(
        self, tx: Tx, principal: Principal, workspace_id: str, session_id: str | None, tool: PinnedTool
    ) -> Verdict:
        """What becomes of a call. A grant that is good for one call is spent by it."""
        if tool.set_policy == "deny":
            return Verdict("refuse")
        if tool.set_policy == "auto":
            return Verdict("run")
        if tool.policy() == "auto":
            return Verdict("run")
        # An operator who wants to be asked is asked, but not about whom a person let call just this tool.
        by_name = tool.set_policy == "approve"
        return self._by_grant(tx, workspace_id, self._subjects(tx, principal), session_id, tool, by_name=by_name)

    def decide_attached(
        self,
        tx: Tx,
        workspace_id: str,
        subjects: Collection[str],
        session_id: str,
        tool: PinnedTool,
        *,
        spend: bool,
    ) -> Verdict:
        """What becomes of an agent's call of a server that it has: its scope, an operator or its harm asks for a grant.

        What a server says of itself loosens nothing here: a read-only tool with a scope needs the scope. Unless it is
        to `spend`, a grant for one call stays as it is.
        """
        if tool.set_policy == "deny":
            return Verdict("refuse")
        if tool.set_policy == "auto" or (tool.set_policy is None and tool.scope is None and not tool.destructive):
            return Verdict("run")
        by_name = needs_grant_by_name(tool)
        if not spend:
            grant = self._grants.usable(tx, workspace_id, subjects, session_id, tool, by_name=by_name)
            return Verdict("ask") if grant is None else Verdict("run", grant.id, grant.scope == "once")
        return self._by_grant(tx, workspace_id, subjects, session_id, tool, by_name=by_name)

    def _by_grant(
        self,
        tx: Tx,
        workspace_id: str,
        subjects: Collection[str],
        session_id: str | None,
        tool: PinnedTool,
        *,
        by_name: bool,
    ) -> Verdict:
        while (grant := self._grants.usable(tx, workspace_id, subjects, session_id, tool, by_name=by_name)) is not None:
            if self._grants.use(tx, grant):
                return Verdict("run", grant.id)
        return Verdict("ask")

    def _subjects(self, tx: Tx, principal: Principal) -> Collection[str]:
        """Whose grants count: the caller's own, and those of the person whom a key acts for."""
        return [each for each in dict.fromkeys((principal.actor, self._owner(tx, principal))) if each is not None]
