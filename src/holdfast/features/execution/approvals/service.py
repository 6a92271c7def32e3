"""Owns approvals: a person decides about one call, once, in time, and about nothing but what was shown."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Forbidden, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, id_in_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs.engine import JobEngine
from holdfast.features.audit.service import Audit
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.execution import store as invocation_store
from holdfast.features.execution.approvals import store
from holdfast.features.execution.arguments import digest
from holdfast.features.execution.model import (
    AlreadyDecided,
    Approval,
    ApprovalNotFound,
    ApprovalState,
    Invocation,
    NewGrant,
    SubjectType,
    Via,
)
from holdfast.features.execution.policies.grants import Grants, check_signed_in
from holdfast.features.execution.runs.ending import Endings
from holdfast.features.workspaces.model import WorkspaceNotFound
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

KIND = "invocation.run"
ANNOUNCE = "approval.announce"
TOPIC = "approval"
MAX_NOTE = 2_000
MAX_HISTORY = 5


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A question as a person sees it: the call, and what the same asker did with the same tool before."""

    approval: Approval
    invocation: Invocation
    before: Sequence[Invocation]
    may_decide: bool
    last_approved: Invocation | None = None
    """The last call of the same tool by the same asker that a person let run."""
    may_allow_session: bool = False
    """Whether it comes from a session or chat, and can destroy nothing: then a person may let the rest of it run."""

    @property
    def changes(self) -> Sequence["ArgumentChange"]:
        """What differs from the last call that a person let run, by argument; empty where none was."""
        if self.last_approved is None:
            return ()
        old, new = self.last_approved.arguments, self.invocation.arguments
        return [
            ArgumentChange(name, old.get(name), new.get(name))
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """One argument of a call, as it was and as it is asked for now; None where it is left out."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """What a person said."""

    approve: bool
    note: str = ""
    always: bool = False
    """Whether the same asker may call the same tool from now on without asking."""
    session: bool = False
    """Whether they may for the rest of the session or chat that the call comes from."""


class Approvals:
    """Questions to people. Only a signed-in person who administers the workspace decides."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        pins: ToolPins,
        grants: Grants,
        endings: Endings,
        jobs: JobEngine,
        events: EventBus,
        clock: Clock,
        *,
        seconds: float,
        url: Callable[[], str],
    ) -> None:
        """`url` is where people reach this server."""
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._pins = pins
        self._grants = grants
        self._endings = endings
        self._jobs = jobs
        self._events = events
        self._clock = clock
        self._millis = round(seconds * 1000)
        self._url = url

    def ask(self, tx: Tx, invocation: Invocation) -> Approval:
        """Put a call before people."""
        now = self._clock.now()
        asked = Approval(
            id=new_id("apr"),
            invocation_id=invocation.id,
            workspace_id=invocation.workspace_id,
            token=secrets.token_urlsafe(24),
            digest=_bound_to(invocation),
            state="pending",
            created_at=now,
            expires_at=now + self._millis,
        )
        store.insert(tx, asked)
        payload = {"id": asked.id, "invocation_id": invocation.id, "tool_name": invocation.tool_name[:200]}
        self._events.publish(tx, f"{TOPIC}.pending", payload, workspace_id=invocation.workspace_id)
        if invocation_store.setting(tx, invocation.workspace_id).webhook_url is not None:
            self._jobs.enqueue(tx, ANNOUNCE, {"approval_id": asked.id}, workspace_id=invocation.workspace_id)
        return asked

    def url_of(self, approval: Approval) -> str:
        """The page where a person decides."""
        return f"{self._url().rstrip('/')}/approve/{approval.token}"

    async def decide(self, principal: Principal, id: str, decision: ApprovalDecision, via: Via) -> Approval:
        """Approve or deny a call. A second decision, or one that comes too late, changes nothing."""
        check_signed_in(principal)
        if len(decision.note) > MAX_NOTE:
            raise Invalid("The note is too long.", fields=[FieldError("note", f"at most {MAX_NOTE} characters")])
        late = await self.expire_one(principal, id)
        if late:
            raise AlreadyDecided("It was not decided in time, and expired.", code="expired")
        return await self._database.write(lambda tx: self._decide(tx, principal, id, decision, via))

    async def by_model(self, invocation: Invocation) -> Invocation:
        """Approve a call on the word of the client's own model, where the workspace lets it."""

        def work(tx: Tx) -> None:
            approval = store.of_invocation(tx, invocation.id)
            if approval is None or approval.state != "pending":
                return
            if not invocation_store.setting(tx, invocation.workspace_id).sampling_approvals:
                return
            self._approve(tx, invocation.principal, approval, invocation, "", "sampling")

        await self._database.write(work)
        found = await self._database.read(lambda tx: invocation_store.find(tx, invocation.id))
        return found or invocation

    def may_ask_model(self, tx: Tx, invocation: Invocation) -> bool:
        """Whether the client's own model may decide: the workspace lets it, and nothing can be destroyed."""
        found = self._pins.named(tx, invocation.workspace_id, invocation.tool_name)
        allowed = invocation_store.setting(tx, invocation.workspace_id).sampling_approvals
        return allowed and found is not None and not found[1].destructive

    async def list(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        state: ApprovalState | None = None,
        cursor: str | None = None,
        limit: int = 50,
        compared: bool = True,
    ) -> Page[PendingCall]:
        """A workspace's questions, the newest first; `compared` with the last call of each that was approved."""
        await self.expire()
        before = id_in_cursor(cursor, "apr") if cursor else None

        def work(tx: Tx) -> Page[PendingCall]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            if compared:
                return self._page(tx, principal, [workspace.id], state, before, limit)
            found = store.page(tx, [workspace.id], state=state, before=before, limit=limit + 1)
            return page_of(found, limit, lambda each: (each.id,)).map(
                lambda each: self._pending(tx, principal, each, self._asked_for(tx, each), (), None)
            )

        return await self._database.read(work)

    async def pending(self, principal: Principal, *, cursor: str | None = None, limit: int = 50) -> Page[PendingCall]:
        """What waits in every workspace that the principal sees, the newest first."""
        await self.expire()
        before = id_in_cursor(cursor, "apr") if cursor else None
        workspaces = await self._workspaces.ids(principal)
        return await self._database.read(lambda tx: self._page(tx, principal, workspaces, "pending", before, limit))

    def _page(
        self,
        tx: Tx,
        principal: Principal,
        workspace_ids: Sequence[str],
        state: ApprovalState | None,
        before: str | None,
        limit: int,
    ) -> Page[PendingCall]:
        found = store.page(tx, workspace_ids, state=state, before=before, limit=limit + 1)
        page = page_of(found, limit, lambda each: (each.id,))
        known: dict[tuple[str, str, str], Invocation | None] = {}
        return page.map(lambda each: self._listed(tx, principal, each, known))

    async def get(self, principal: Principal, id_or_token: str) -> PendingCall:
        """One question, for whoever sees its workspace. Looking at it decides nothing."""
        await self.expire()
        return await self._database.read(lambda tx: self._shown(tx, principal, self._find(tx, principal, id_or_token)))

    async def expire(self) -> int:
        """End what nobody decided in time; how many that were."""
        now = self._clock.now()
        if not await self._database.glance(lambda tx: bool(store.due(tx, now, 1))):
            return 0
        return await self._database.write(lambda tx: sum(self._expire(tx, each) for each in store.due(tx, now)))

    async def expire_one(self, principal: Principal, id: str) -> bool:
        """Whether a question is too old; then it is ended as such."""

        def work(tx: Tx) -> bool:
            found = self._find(tx, principal, id)
            return found.state == "pending" and found.expires_at <= self._clock.now() and self._expire(tx, found)

        return await self._database.write(work)

    def _decide(self, tx: Tx, principal: Principal, id: str, decision: ApprovalDecision, via: Via) -> Approval:
        found = self._find(tx, principal, id)
        self._workspaces.administered(tx, principal, found.workspace_id)
        invocation = invocation_store.find(tx, found.invocation_id)
        if invocation is None:
            raise ApprovalNotFound(id)
        if decision.approve:
            self._approve(tx, principal, found, invocation, decision.note, via)
            if decision.always:
                self._grants.add(tx, principal, found.workspace_id, _always(invocation))
            if decision.session:
                self._check_session(tx, invocation)
                self._grants.add(tx, principal, found.workspace_id, _for_session(invocation))
        else:
            self._settle(tx, principal, found, "denied", decision.note, via)
            message = f"{principal.name or 'A person'} denied it." + (f" {decision.note}" if decision.note else "")
            self._endings.end(
                tx, invocation, "denied", error={"code": "denied", "message": message}, only="awaiting_approval"
            )
        return self._find(tx, principal, id)

    def _check_session(self, tx: Tx, invocation: Invocation) -> None:
        problem = None
        if invocation.place is None:
            problem = "this call belongs to no session or chat; approve it alone"
        elif self._destroys(tx, invocation):
            problem = "this tool is destructive, and a person is asked about each of its calls"
        if problem is not None:
            raise Invalid("It cannot be allowed for a session.", fields=[FieldError("session", problem)])

    def _destroys(self, tx: Tx, invocation: Invocation) -> bool:
        found = self._pins.named(tx, invocation.workspace_id, invocation.tool_name)
        return found is None or found[1].destructive

    def _approve(
        self, tx: Tx, principal: Principal, approval: Approval, invocation: Invocation, note: str, via: Via
    ) -> None:
        current = self._pins.named(tx, invocation.workspace_id, invocation.tool_name)
        unchanged = current is not None and current[1].digest == invocation.tool_digest
        if not unchanged or approval.digest != _bound_to(invocation):
            raise AlreadyDecided(
                "The tool was changed since this was asked; the call has to be made again.", code="tool_changed"
            )
        self._settle(tx, principal, approval, "approved", note, via)
        job_id = self._jobs.enqueue(tx, KIND, {"invocation_id": invocation.id}, workspace_id=invocation.workspace_id)
        if not invocation_store.queue(tx, invocation.id, job_id, approval.id):
            raise AlreadyDecided("The call no longer waits: it was cancelled.")
        payload = {"id": invocation.id, "tool_name": invocation.tool_name[:200]}
        self._events.publish(tx, "invocation.queued", payload, workspace_id=invocation.workspace_id)

    def _settle(
        self, tx: Tx, principal: Principal, approval: Approval, state: ApprovalState, note: str, via: Via
    ) -> None:
        now = self._clock.now()
        if approval.expires_at <= now:
            raise AlreadyDecided("It was not decided in time, and expired.", code="expired")
        if not store.decide(tx, approval.id, state, now, by=principal.actor, via=via, note=note or None):
            raise AlreadyDecided(f"It is decided already: {approval.state}.")
        self._audit.record(
            tx,
            principal,
            f"approval.{state}",
            resource="approval",
            resource_id=approval.id,
            workspace_id=approval.workspace_id,
            detail={"invocation_id": approval.invocation_id, "via": via, "digest": approval.digest},
        )
        payload = {"id": approval.id, "invocation_id": approval.invocation_id}
        self._events.publish(tx, f"{TOPIC}.{state}", payload, workspace_id=approval.workspace_id)

    def _expire(self, tx: Tx, approval: Approval) -> bool:
        now = self._clock.now()
        if not store.decide(tx, approval.id, "expired", now, by=None, via=None):
            return False
        invocation = invocation_store.find(tx, approval.invocation_id)
        if invocation is not None:
            error = {"code": "expired", "message": "Nobody decided in time."}
            self._endings.end(tx, invocation, "expired", error=error, only="awaiting_approval")
        payload = {"id": approval.id, "invocation_id": approval.invocation_id}
        self._events.publish(tx, f"{TOPIC}.expired", payload, workspace_id=approval.workspace_id)
        return True

    def _find(self, tx: Tx, principal: Principal, id_or_token: str) -> Approval:
        found = store.find(tx, id_or_token)
        if found is None:
            raise ApprovalNotFound(id_or_token)
        try:
            self._workspaces.check(tx, principal, found.workspace_id)
        except WorkspaceNotFound:
            raise ApprovalNotFound(id_or_token) from None
        return found

    def _listed(
        self,
        tx: Tx,
        principal: Principal,
        approval: Approval,
        known: dict[tuple[str, str, str], Invocation | None],
    ) -> PendingCall:
        """One of a list, which is read from the newest on; what it did before is for who looks at it alone.

        `known` holds the last approved call for each tool and asker, which stands for their older calls too.
        """
        invocation = self._asked_for(tx, approval)
        key = (invocation.workspace_id, invocation.tool_name, invocation.requested_by)
        if key not in known or ((last := known[key]) is not None and last.id >= invocation.id):
            known[key] = invocation_store.last_approved(tx, invocation)
        return self._pending(tx, principal, approval, invocation, (), known[key])

    def _shown(self, tx: Tx, principal: Principal, approval: Approval) -> PendingCall:
        invocation = self._asked_for(tx, approval)
        before = invocation_store.page(
            tx,
            approval.workspace_id,
            status=None,
            tool_name=invocation.tool_name,
            requested_by=invocation.requested_by,
            before=invocation.id,
            limit=MAX_HISTORY,
        )
        last = invocation_store.last_approved(tx, invocation)
        return self._pending(tx, principal, approval, invocation, before, last)

    def _asked_for(self, tx: Tx, approval: Approval) -> Invocation:
        found = invocation_store.find(tx, approval.invocation_id)
        if found is None:
            raise ApprovalNotFound(approval.id)
        return found

    def _pending(
        self,
        tx: Tx,
        principal: Principal,
        approval: Approval,
        invocation: Invocation,
        before: Sequence[Invocation],
        last: Invocation | None,
    ) -> PendingCall:
        return PendingCall(
            approval,
            invocation,
            before,
            self._administers(tx, principal, approval.workspace_id),
            last,
            invocation.place is not None and not self._destroys(tx, invocation),
        )

    def _administers(self, tx: Tx, principal: Principal, workspace_id: str) -> bool:
        try:
            self._workspaces.administered(tx, principal, workspace_id)
        except Forbidden:
            return False
        return principal.is_person


def _bound_to(invocation: Invocation) -> str:
    """What a decision is about: these arguments of this tool as it was pinned, for this asker."""
    parts = (invocation.id, invocation.tool_digest, invocation.arguments_digest, invocation.requested_by)
    return digest("\n".join(parts))


def _always(invocation: Invocation) -> NewGrant:
    kind: SubjectType = "user" if invocation.principal.is_person else "key"
    return NewGrant(
        subject_type=kind,
        subject_id=invocation.requested_by,
        grant_type="tool_scope",
        details={"tool": invocation.tool_name},
        scope="persistent",
    )


def _for_session(invocation: Invocation) -> NewGrant:
    return replace(_always(invocation), scope="session", session_id=invocation.place)
