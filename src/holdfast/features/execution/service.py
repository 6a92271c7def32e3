"""Owns invocations: a call of an enrolled tool is decided, queued once, watched, and ended once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from holdfast.core.clock import Clock
from holdfast.core.ids import is_id, new_id
from holdfast.core.paging import Page, id_in_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.core.tools.gateway import ToolUnknown
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs.engine import JobEngine
from holdfast.features.catalog.model import CatalogEntry, PinnedTool
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.execution import store
from holdfast.features.execution.approvals.service import Approvals
from holdfast.features.execution.arguments import check_arguments, digest
from holdfast.features.execution.model import (
    Invocation,
    InvocationNotFound,
    InvocationRequest,
    Status,
)
from holdfast.features.execution.policies.deciding import Deciding
from holdfast.features.execution.runs.ending import Endings
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

KIND = "invocation.run"
TOPIC = "invocation"
MAX_WAIT_SECONDS = 30.0
_LOOK_SECONDS = 2.0

Watch = Callable[[Invocation], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AskedInvocation:
    """An invocation, and whether this request made it: a repeated one gets the first one's."""

    invocation: Invocation
    is_new: bool


class ReadyRun(Protocol):
    """A server that is running and was looked at: a call of it can begin in the transaction that asks for it."""

    def covers(self, entry: CatalogEntry, tool: PinnedTool) -> bool:
        """Whether it is for just this tool as it is pinned now."""
        ...

    def begin(self, tx: Tx, invocation: Invocation) -> str:
        """Run the invocation in this process once `tx` is committed; the id of its job."""
        ...


class Execution:
    """Runs enrolled tools for whoever may, each call once."""

    def __init__(
        self,
        database: Database,
        workspaces: Workspaces,
        pins: ToolPins,
        deciding: Deciding,
        approvals: Approvals,
        endings: Endings,
        jobs: JobEngine,
        events: EventBus,
        clock: Clock,
        *,
        once_seconds: float,
    ) -> None:
        self._database = database
        self._workspaces = workspaces
        self._pins = pins
        self._deciding = deciding
        self._approvals = approvals
        self._endings = endings
        self._jobs = jobs
        self._events = events
        self._clock = clock
        self._once_millis = round(once_seconds * 1000)

    async def invoke(self, request: InvocationRequest, ready: ReadyRun | None = None) -> AskedInvocation:
        """Ask for a call. It is queued, waits for a person, or is denied; an equal request gets the same invocation.

        Where a run is `ready` and nobody has to be asked, it begins instead of being queued: that it was asked for and
        that bytes go to the tool is one transaction.
        """
        return await self._database.write(lambda tx: self._invoke(tx, request, ready))

    def _invoke(self, tx: Tx, request: InvocationRequest, ready: ReadyRun | None) -> AskedInvocation:
        principal = request.principal
        workspace = self._workspaces.check(tx, principal, request.workspace_id)
        found = self._pins.named(tx, workspace.id, request.tool_name)
        if found is None:
            raise ToolUnknown(request.tool_name, self._pins.why_unknown(tx, workspace.id, request.tool_name))
        entry, tool = found
        self._deciding.check(principal, entry, tool)
        text = check_arguments(tool.pinned.input_schema, request.arguments)
        now = self._clock.now()
        new = Invocation(
            id=new_id("inv"),
            workspace_id=workspace.id,
            server_id=entry.id,
            tool_name=tool.xem_name,
            tool_digest=tool.digest,
            arguments=request.arguments,
            arguments_digest=digest(text),
            status="queued",
            requested_by=principal.actor,
            requested_name=principal.name,
            principal=principal,
            source=request.source,
            session_id=request.session_id,
            chat_id=request.chat_id,
            once_key=_once_key(request, workspace.id, text),
            created_at=now,
        )
        earlier = self._earlier(tx, new, request, tool, now)
        if earlier is not None:
            return AskedInvocation(earlier, False)
        if ready is not None and not ready.covers(entry, tool):
            ready = None
        return AskedInvocation(self._begin(tx, new, tool, ready), True)

    def _earlier(
        self, tx: Tx, new: Invocation, request: InvocationRequest, tool: PinnedTool, now: int
    ) -> Invocation | None:
        """The invocation that an equal request made, if this one is to get it."""
        since = now - self._once_millis
        id = store.claim_once(tx, new.once_key, new.id, now, since)
        earlier = store.find(tx, id) if id is not None else None
        if earlier is None:
            if id is not None:
                store.take_once(tx, new.once_key, id, new.id, now)
            return None
        # What changes nothing may be asked for again as soon as it is over: its answer may be another by now.
        again = request.fresh and earlier.finished and (tool.read_only or tool.idempotent)
        if again and store.take_once(tx, new.once_key, earlier.id, new.id, now):
            return None
        return earlier

    def _begin(self, tx: Tx, new: Invocation, tool: PinnedTool, ready: ReadyRun | None) -> Invocation:
        verdict = self._deciding.decide(tx, new.principal, new.workspace_id, new.place, tool)
        if verdict.kind == "refuse":
            error = {"code": "denied_by_policy", "message": f"The workspace's policy denies {new.tool_name}."}
            refused = replace(new, status="denied", error=error, ended_at=new.created_at)
            store.insert(tx, refused)
            self._endings.record(tx, refused)
            return refused
        if verdict.kind == "ask":
            waiting = replace(new, status="awaiting_approval")
            store.insert(tx, waiting)
            self._tell(tx, waiting)
            return replace(waiting, approval=self._approvals.ask(tx, waiting))
        begun = replace(new, granted_via=verdict.granted_via)
        if ready is not None:
            now = new.created_at
            begun = replace(begun, status="running", started_at=now, sent_at=now, job_id=ready.begin(tx, begun))
        else:
            payload = {"invocation_id": new.id}
            begun = replace(begun, job_id=self._jobs.enqueue(tx, KIND, payload, workspace_id=new.workspace_id))
        store.insert(tx, begun)
        self._tell(tx, begun)
        return begun

    async def get(self, principal: Principal, workspace_id: str, id: str) -> Invocation:
        """One invocation of a workspace, as it is now."""
        return await self._database.glance(lambda tx: self.find(tx, principal, workspace_id, id))

    def find(self, tx: Tx, principal: Principal, workspace_id: str, id: str) -> Invocation:
        """The same, within a transaction."""
        workspace = self._workspaces.check(tx, principal, workspace_id)
        found = store.find(tx, id) if is_id("inv", id) else None
        if found is None or found.workspace_id != workspace.id:
            raise InvocationNotFound(id)
        return found

    async def list(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        status: Status | None = None,
        tool_name: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[Invocation]:
        """A workspace's invocations, the newest first."""
        before = id_in_cursor(cursor, "inv") if cursor else None

        def work(tx: Tx) -> Page[Invocation]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            found = store.page(
                tx,
                workspace.id,
                status=status,
                tool_name=tool_name,
                requested_by=None,
                before=before,
                limit=limit + 1,
            )
            return page_of(found, limit, lambda each: (each.id,))

        return await self._database.read(work)

    async def callers(self, principal: Principal, workspace_id: str, *, limit: int) -> Mapping[str, str]:
        """Who asked for a workspace's newest invocations, by id, and what they are called."""

        def work(tx: Tx) -> Mapping[str, str]:
            return store.callers(tx, self._workspaces.check(tx, principal, workspace_id).id, limit)

        return await self._database.read(work)

    async def cancel(self, principal: Principal, workspace_id: str, id: str) -> Invocation:
        """End what has not begun; ask the server to stop what has. What has ended stays as it is."""

        def work(tx: Tx) -> Invocation:
            found = self.find(tx, principal, workspace_id, id)
            if not found.finished:
                self._endings.cancel(tx, found, principal)
            return self.find(tx, principal, workspace_id, id)

        return await self._database.write(work)

    async def wait(
        self,
        principal: Principal,
        workspace_id: str,
        id: str,
        *,
        seconds: float | None,
        until: Callable[[Invocation], bool],
        watch: Watch | None = None,
    ) -> Invocation:
        """The invocation once a condition holds, or as it is after so long; `watch` hears of each change between."""
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        async with self._events.subscribe(
            [f"{TOPIC}.*"], predicate=lambda event: event.payload.get("id") == id
        ) as changes:
            while True:
                found = await self.get(principal, workspace_id, id)
                if watch is not None:
                    await watch(found)
                left = None if deadline is None else deadline - loop.time()
                if until(found) or (left is not None and left <= 0):
                    return found
                # Events tell at once; looking now and then covers one that was lost.
                pause = _LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS)
                try:
                    async with asyncio.timeout(pause):
                        await changes.get()
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    return found

    def _tell(self, tx: Tx, invocation: Invocation) -> None:
        payload: dict[str, Any] = {"id": invocation.id, "tool_name": invocation.tool_name[:200]}
        self._events.publish(tx, f"{TOPIC}.{invocation.status}", payload, workspace_id=invocation.workspace_id)


def _once_key(request: InvocationRequest, workspace_id: str, arguments: str) -> str:
    """Who asked, in which session (or workspace, where there is none), for what: equal ones are one call."""
    place = request.session_id or request.chat_id or workspace_id
    return digest("\n".join([request.principal.actor, place, workspace_id, request.tool_name, arguments]))
