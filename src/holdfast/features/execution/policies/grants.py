"""Owns grants: rights that people give to agents, people and keys, and which of them a call can use."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Forbidden, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.features.audit.service import Audit
from holdfast.features.catalog.model import PinnedTool
from holdfast.features.execution.model import GrantNotFound, NewGrant, PermissionGrant
from holdfast.features.execution.policies import store
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

TOPIC = "grant"


class AgentIds(Protocol):
    """The id of a workspace's agent by its id or slug; None where there is none."""

    def __call__(self, tx: Tx, workspace_id: str, name: str, /) -> str | None: ...


def check_signed_in(principal: Principal) -> None:
    """Forbidden unless a person sits there: signed in at this server, with the token of the session's own page."""
    if not principal.is_person or principal.proof != "session":
        raise Forbidden("This needs a person who is signed in here; no key, token or command can do it.")


class Grants:
    """Gives and takes rights. Only a signed-in person can, and only who administers the workspace."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        agent_ids: AgentIds,
        events: EventBus,
        clock: Clock,
    ) -> None:
        self._database = database
        self._agent_ids = agent_ids
        self._audit = audit
        self._workspaces = workspaces
        self._events = events
        self._clock = clock

    async def give(self, principal: Principal, workspace_id: str, new: NewGrant) -> PermissionGrant:
        """Let somebody use tools of a scope, one tool, or spawn an agent."""
        check_signed_in(principal)
        _check(new)
        return await self._database.write(lambda tx: self.add(tx, principal, workspace_id, new))

    def add(self, tx: Tx, principal: Principal, workspace_id: str, new: NewGrant) -> PermissionGrant:
        """The same, within a transaction."""
        workspace = self._workspaces.administered(tx, principal, workspace_id)
        new = self._by_ids(tx, workspace.id, new)
        grant = PermissionGrant(
            id=new_id("grt"),
            workspace_id=workspace.id,
            subject_type=new.subject_type,
            subject_id=new.subject_id,
            grant_type=new.grant_type,
            details=dict(new.details),
            scope=new.scope,
            session_id=new.session_id,
            created_at=self._clock.now(),
            created_by=principal.actor,
            expires_at=new.expires_at,
        )
        store.insert(tx, grant)
        self._record(tx, principal, "given", grant)
        return grant

    async def list(self, principal: Principal, workspace_id: str) -> Sequence[PermissionGrant]:
        """The workspace's grants that hold, the newest first."""

        def work(tx: Tx) -> Sequence[PermissionGrant]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            return store.all_in(tx, workspace.id, self._clock.now())

        return await self._database.read(work)

    async def page(
        self, principal: Principal, workspace_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[PermissionGrant]:
        """The same, some at a time."""
        before = str(decode_cursor(cursor, str)[0]) if cursor else None

        def work(tx: Tx) -> Page[PermissionGrant]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            rows = store.page_in(tx, workspace.id, self._clock.now(), before, limit + 1)
            return page_of(rows, limit, lambda row: [row.id])

        return await self._database.read(work)

    async def take(self, principal: Principal, workspace_id: str, grant_id: str) -> None:
        """End a grant at once."""

        def work(tx: Tx) -> None:
            workspace = self._workspaces.administered(tx, principal, workspace_id)
            found = store.find(tx, workspace.id, grant_id)
            if found is None:
                raise GrantNotFound(grant_id)
            store.delete(tx, found.id)
            self._record(tx, principal, "taken", found)

        await self._database.write(work)

    def usable(
        self,
        tx: Tx,
        workspace_id: str,
        subjects: Collection[str],
        session_id: str | None,
        tool: PinnedTool,
        *,
        by_name: bool,
    ) -> PermissionGrant | None:
        """A grant that lets one of these subjects call a tool now; `by_name` where only one for this very tool does."""
        found = [
            grant
            for grant in store.of_subjects(tx, workspace_id, subjects, self._clock.now())
            if grant.grant_type == "tool_scope"
            and (grant.scope != "session" or (session_id is not None and grant.session_id == session_id))
            and (grant.details.get("tool") == tool.xem_name or (not by_name and _covers_scope(grant, tool)))
        ]
        return min(found, key=lambda grant: (grant.scope == "once", "tool" not in grant.details), default=None)

    def usable_spawn(
        self, tx: Tx, workspace_id: str, subjects: Collection[str], session_id: str | None, agent_id: str
    ) -> PermissionGrant | None:
        """A grant that lets one of these subjects start a session of an agent now."""
        found = [
            grant
            for grant in store.of_subjects(tx, workspace_id, subjects, self._clock.now())
            if grant.grant_type == "spawn"
            and (grant.scope != "session" or (session_id is not None and grant.session_id == session_id))
            and grant.details.get("agent") == agent_id
        ]
        return min(found, key=lambda grant: grant.scope == "once", default=None)

    def use(self, tx: Tx, grant: PermissionGrant) -> bool:
        """Spend a grant that is good for one call; False where another call was first."""
        return grant.scope != "once" or store.spend(tx, grant.id, self._clock.now())

    def _by_ids(self, tx: Tx, workspace_id: str, new: NewGrant) -> NewGrant:
        """The same with agents by their ids: a slug may be another agent's one day."""
        subject, spawned = new.subject_id, new.details.get("agent")
        wrong: list[FieldError] = []
        if new.subject_type == "agent":
            subject = self._agent_ids(tx, workspace_id, subject) or ""
            if not subject:
                wrong.append(FieldError("subject.id", "the workspace has no such agent"))
        details = dict(new.details)
        if new.grant_type == "spawn" and spawned:
            details["agent"] = self._agent_ids(tx, workspace_id, spawned) or ""
            if not details["agent"]:
                wrong.append(FieldError("details.agent", "the workspace has no such agent"))
        if wrong:
            raise Invalid("The grant cannot be given like this.", fields=wrong)
        return replace(new, subject_id=subject, details=details)

    def _record(self, tx: Tx, principal: Principal, action: str, grant: PermissionGrant) -> None:
        self._audit.record(
            tx,
            principal,
            f"workspace.grant.{action}",
            resource="grant",
            resource_id=grant.id,
            workspace_id=grant.workspace_id,
            detail={
                "subject": f"{grant.subject_type} {grant.subject_id}",
                "grant_type": grant.grant_type,
                "scope": grant.scope,
                "details": dict(grant.details),
            },
        )
        self._events.publish(tx, f"{TOPIC}.{action}", {"id": grant.id}, workspace_id=grant.workspace_id)


def _covers_scope(grant: PermissionGrant, tool: PinnedTool) -> bool:
    return tool.scope is not None and grant.details.get("scope") == tool.scope


def _check(new: NewGrant) -> None:
    wrong: list[FieldError] = []
    if new.grant_type == "tool_scope" and not (new.details.get("scope") or new.details.get("tool")):
        wrong.append(FieldError("details.scope", "say which scope, such as linear.write, or which tool"))
    if new.grant_type == "spawn" and not new.details.get("agent"):
        wrong.append(FieldError("details.agent", "say which agent may be spawned"))
    if new.scope == "session" and not new.session_id:
        wrong.append(FieldError("session_id", "say for which session"))
    if wrong:
        raise Invalid("The grant cannot be given like this.", fields=wrong)
