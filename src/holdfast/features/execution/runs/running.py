"""Owns one invocation's run: the server is made ready, bytes are marked as sent, the call is made, its end is kept."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError, Unauthenticated
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs import Job, JobRun
from holdfast.engines.mcp_client.base import CallNotTaken, CallResult, Connection, LoginNeeded
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.catalog.model import CatalogEntry, PinnedTool
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStart, ServerStarts
from holdfast.features.execution import store
from holdfast.features.execution.model import UNKNOWN_OUTCOME, CallProgress, Invocation, Status, ToolHeldBack
from holdfast.features.execution.policies.deciding import Deciding
from holdfast.features.execution.runs.ending import TOPIC, Endings
from holdfast.features.execution.runs.live import LiveTools
from holdfast.features.execution.runs.results import bounded
from holdfast.features.identity.standing import as_it_stands
from holdfast.features.secrets.masking import SecretMask
from holdfast.storage.database import Database, Tx

MAX_RESULT_BYTES = 200_000
PROGRESS_SECONDS = 0.2
_NO_SECRETS = SecretMask(())


class CallListener(Protocol):
    """Somebody in this process who waits for a call's end."""

    def told(self, progress: CallProgress) -> None:
        """How far it is, which is kept by now."""
        ...

    def ended(self, invocation: Invocation) -> None:
        """How it ended, within the transaction that says so."""
        ...


class Runs:
    """Runs what is queued. A run that may have reached its tool is never begun again by itself."""

    def __init__(
        self,
        database: Database,
        pins: ToolPins,
        starts: ServerStarts,
        connections: ServerConnections,
        deciding: Deciding,
        endings: Endings,
        artifacts: ArtifactService,
        events: EventBus,
        clock: Clock,
        *,
        call_seconds: float,
    ) -> None:
        self._database = database
        self._pins = pins
        self._starts = starts
        self._connections = connections
        self._deciding = deciding
        self._endings = endings
        self._artifacts = artifacts
        self._events = events
        self._clock = clock
        self._call_seconds = call_seconds
        self._live = LiveTools()

    async def run(self, job: JobRun) -> None:
        """The handler of the job that an invocation is run by."""
        invocation = await self._database.read(lambda tx: store.find(tx, str(job.payload["invocation_id"])))
        if invocation is None or invocation.finished:
            return
        try:
            ready = await self._ready(invocation)
        except HoldfastError as problem:
            self._end(job, invocation, "failed", error=_error(problem))
            return
        if ready is None:
            unknown = {
                "code": UNKNOWN_OUTCOME,
                "message": "The server that ran it stopped while the tool worked. Whether the tool did its work is not "
                "known, and it was not run again.",
            }
            self._end(job, invocation, "failed", error=unknown)
            return
        await self._connected(job, invocation, *ready)

    def is_ready(self, tool: PinnedTool, start: ServerStart) -> bool:
        """Whether the server runs, and said of the tool not long ago what was pinned."""
        connection = self._connections.running(start)
        live = None if connection is None else self._live.known(connection)
        return live is not None and live.digests.get(tool.name) == tool.digest

    async def run_begun(
        self,
        job: JobRun,
        invocation: Invocation,
        entry: CatalogEntry,
        tool: PinnedTool,
        start: ServerStart,
        listener: CallListener,
    ) -> None:
        """The handler of a job whose invocation was marked as sent when it was asked for."""
        try:
            async with self._connections.connection(start) as connection:
                await self._check_live(invocation, entry, tool, connection)
                await self._call(job, invocation, tool, start, connection, listener)
        except HoldfastError as problem:
            # The server stopped in the moment between; nothing reached it.
            self._end(job, invocation, "failed", listener, error=_error(problem))

    def ended(self, tx: Tx, job: Job) -> None:
        """Within the transaction that ends a job: an invocation that it leaves unfinished ends with it."""
        invocation = store.unfinished(tx, str(job.payload["invocation_id"]))
        if invocation is None:
            return
        if job.state == "cancelled":
            self._endings.end(tx, invocation, "cancelled", error={"code": "cancelled", "message": "It was cancelled."})
        else:
            code = UNKNOWN_OUTCOME if invocation.sent_at is not None else "failed"
            message = job.error or "It ended without a result."
            self._endings.end(tx, invocation, "failed", error={"code": code, "message": message})

    async def _connected(
        self, job: JobRun, invocation: Invocation, entry: CatalogEntry, tool: PinnedTool, start: ServerStart
    ) -> None:
        sent = False
        try:
            async with self._connections.connection(start) as connection:
                await self._check_live(invocation, entry, tool, connection)
                if await job.write(lambda tx: self._send(tx, invocation)):
                    sent = True
                    await self._call(job, invocation, tool, start, connection)
        except HoldfastError as problem:
            if sent:
                raise
            self._end(job, invocation, "failed", error=_error(problem))

    async def _ready(self, invocation: Invocation) -> tuple[CatalogEntry, PinnedTool, ServerStart] | None:
        """Everything checked again; None where an earlier run may have reached the tool."""

        def look(tx: Tx) -> tuple[CatalogEntry, PinnedTool]:
            try:
                principal = as_it_stands(tx, invocation.principal, self._clock.now())
            except Unauthenticated:
                raise ToolHeldBack(
                    "Whoever asked for this call may no longer ask: the key or the person is gone."
                ) from None
            found = self._pins.named(tx, invocation.workspace_id, invocation.tool_name)
            if found is None:
                raise ToolHeldBack(f"The tool {invocation.tool_name} is no longer in the catalog.")
            self._deciding.check(principal, *found)
            if found[1].digest != invocation.tool_digest:
                raise ToolHeldBack(f"The tool {invocation.tool_name} was changed since this call was asked for.")
            return found

        entry, tool = await self._database.read(look)
        if invocation.sent_at is not None and not tool.idempotent:
            return None
        return entry, tool, await self._starts.of(invocation.principal, entry.id)

    async def _check_live(
        self, invocation: Invocation, entry: CatalogEntry, tool: PinnedTool, connection: Connection
    ) -> None:
        """The running server must still describe the tool word for word as it was pinned."""
        live = await self._live.of(connection)
        if live.digests.get(tool.name) != tool.digest:
            await self._pins.notice(invocation.principal, entry, live.described)
            raise ToolHeldBack(
                f"The server describes {tool.xem_name} otherwise than it was pinned; a person has to look at it first."
            )

    def _send(self, tx: Tx, invocation: Invocation) -> bool:
        if not store.send(tx, invocation.id, self._clock.now()):
            return False
        payload = {"id": invocation.id, "tool_name": invocation.tool_name[:200]}
        self._events.publish(tx, f"{TOPIC}.running", payload, workspace_id=invocation.workspace_id)
        return True

    def _end(
        self,
        job: JobRun,
        invocation: Invocation,
        status: Status,
        listener: CallListener | None = None,
        *,
        result: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
        reached: bool = True,
    ) -> None:
        """Have it end like this in the transaction that ends its job."""

        def work(tx: Tx) -> None:
            ended = self._endings.end(tx, invocation, status, result=result, error=error, reached=reached)
            if ended is not None and listener is not None:
                listener.ended(ended)

        job.at_end(work)

    async def _call(
        self,
        job: JobRun,
        invocation: Invocation,
        tool: PinnedTool,
        start: ServerStart,
        connection: Connection,
        listener: CallListener | None = None,
    ) -> None:
        mask = start.mask() if start.secrets else _NO_SECRETS
        try:
            async with asyncio.timeout(self._call_seconds):
                given = await connection.call(
                    tool.name,
                    invocation.arguments,
                    progress=_Telling(self._database, self._events, invocation, listener, mask),
                )
        except TimeoutError:
            message = f"The tool did not finish within {self._call_seconds:g} seconds and was cancelled."
            self._end(job, invocation, "failed", listener, error={"code": "timeout", "message": message})
            return
        except CallNotTaken as problem:
            self._end(job, invocation, "failed", listener, error=mask.value(_error(problem)), reached=False)
            return
        except HoldfastError as problem:
            # Once bytes went out, an error in between says nothing of what the tool did.
            self._end(job, invocation, "failed", listener, error={**mask.value(_error(problem)), UNKNOWN_OUTCOME: True})
            return
        if mask:
            # It goes on to a model, and is kept.
            content, structured = mask.value(list(given.content)), mask.value(given.structured)
            given = CallResult(tuple(content), structured, given.is_error)
        result = await bounded(
            self._artifacts,
            invocation.principal,
            invocation.workspace_id,
            given,
            identifier=f"result-{invocation.id}",
            title=f"Result of {invocation.tool_name}",
            most=MAX_RESULT_BYTES,
        )
        if given.is_error:
            said = {"code": "tool_error", "message": _said(result)[:2_000] or "The tool reported an error."}
            self._end(job, invocation, "failed", listener, result=result, error=said)
        else:
            self._end(job, invocation, "succeeded", listener, result=result)


class _Telling:
    """Keeps what a server says of its progress, not more often than people can read."""

    def __init__(
        self,
        database: Database,
        events: EventBus,
        invocation: Invocation,
        listener: CallListener | None,
        mask: SecretMask,
    ) -> None:
        self._database = database
        self._events = events
        self._invocation = invocation
        self._listener = listener
        self._mask = mask
        self._told_at = 0.0

    async def __call__(self, done: float, total: float | None, message: str) -> None:
        now = time.monotonic()
        if now - self._told_at < PROGRESS_SECONDS and (total is None or done < total):
            return
        self._told_at = now
        progress = CallProgress(done, total, self._mask.text(message)[:500])
        await self._database.write(lambda tx: self._keep(tx, progress))
        if self._listener is not None:
            self._listener.told(progress)

    def _keep(self, tx: Tx, progress: CallProgress) -> None:
        if store.tell_progress(tx, self._invocation.id, progress):
            payload = {"id": self._invocation.id, "done": progress.done, "total": progress.total}
            payload["message"] = progress.message
            self._events.publish(tx, f"{TOPIC}.progress", payload, workspace_id=self._invocation.workspace_id)


def _error(problem: HoldfastError) -> dict[str, Any]:
    error: dict[str, Any] = {"code": problem.code, "message": problem.message[:2_000]}
    if isinstance(problem, LoginNeeded):
        error["url"] = problem.url
    if problem.fields:
        error["fields"] = [{"field": each.field, "message": each.message} for each in problem.fields]
    return error


def _said(result: Mapping[str, Any]) -> str:
    return "\n".join(str(block.get("text", "")) for block in result["content"] if block.get("type") == "text")
