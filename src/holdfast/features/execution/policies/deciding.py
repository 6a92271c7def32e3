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
        subjects = self._subjects(tx, principal)
        # An operator who wants to be asked is asked, but not about whom a person let call just this tool.
        by_name = tool.set_policy == "approve"
        while (grant := self._grants.usable(tx, workspace_id, subjects, session_id, tool, by_name=by_name)) is not None:
            if self._grants.use(tx, grant):
                return Verdict("run", grant.id)
        return Verdict("ask")

    def _subjects(self, tx: Tx, principal: Principal) -> Collection[str]:
        """Whose grants count: the caller's own, and those of the person whom a key acts for."""
        return [each for each in dict.fromkeys((principal.actor, self._owner(tx, principal))) if each is not None]
