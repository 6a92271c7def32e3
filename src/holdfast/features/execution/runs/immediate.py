"""Owns calls that need not be queued: their server runs, was looked at, and nobody has to be asked."""

import asyncio
from dataclasses import dataclass

from holdfast.core.errors import HoldfastError
from holdfast.engines.jobs import JobEngine, JobRun
from holdfast.features.catalog.model import CatalogEntry, PinnedTool
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStart, ServerStarts
from holdfast.features.execution.model import CallProgress, Invocation, InvocationRequest
from holdfast.features.execution.runs.running import Runs
from holdfast.features.execution.service import KIND, Execution
from holdfast.storage.database import Database, Tx

News = CallProgress | Invocation | None
"""How far a call is, how it ended, or that its end has to be looked up."""


@dataclass(frozen=True, slots=True)
class ImmediateCall:
    """An invocation as it was asked for, and what is heard of it where it began here and now."""

    invocation: Invocation
    news: "asyncio.Queue[News] | None" = None


class ImmediateCalls:
    """Asks for calls and begins at once what can be: two transactions instead of one for each state.

    What is durable before bytes go to the tool is the same either way: that the call was asked for, the job that runs
    it and its lease, and that it was sent.
    """

    def __init__(
        self,
        database: Database,
        execution: Execution,
        pins: ToolPins,
        starts: ServerStarts,
        connections: ServerConnections,
        runs: Runs,
        jobs: JobEngine,
    ) -> None:
        self._database = database
        self._execution = execution
        self._pins = pins
        self._starts = starts
        self._connections = connections
        self._runs = runs
        self._jobs = jobs

    async def ask(self, request: InvocationRequest) -> ImmediateCall:
        """Ask for a call; it has begun where it could, and is queued, waits or is refused otherwise."""
        with self._jobs.slot(KIND) as is_free:
            ready = await self._ready(request) if is_free else None
            asked = await self._execution.invoke(request, ready)
        began = ready is not None and ready.began == asked.invocation.id
        return ImmediateCall(asked.invocation, ready.news if ready is not None and began else None)

    async def _ready(self, request: InvocationRequest) -> "_Ready | None":
        """The run that could begin; None where anything is in its way, which the longer way names or mends."""

        def look(tx: Tx) -> tuple[CatalogEntry, PinnedTool, ServerStart] | None:
            found = self._pins.named(tx, request.workspace_id, request.tool_name)
            if found is None:
                return None
            return *found, self._starts.now(tx, request.principal, found[0])

        try:
            found = await self._database.glance(look)
        except HoldfastError:
            return None
        if found is None or not self._runs.is_ready(found[1], found[2]):
            return None
        return _Ready(self._runs, self._jobs, *found)


class _Ready:
    """One call that may begin, and what is heard of it."""

    def __init__(self, runs: Runs, jobs: JobEngine, entry: CatalogEntry, tool: PinnedTool, start: ServerStart) -> None:
        self._runs = runs
        self._jobs = jobs
        self._entry = entry
        self._tool = tool
        self._start = start
        self._ended: Invocation | None = None
        self.began: str | None = None
        self.news: asyncio.Queue[News] = asyncio.Queue()

    def covers(self, entry: CatalogEntry, tool: PinnedTool) -> bool:
        same_entry = (entry.id, entry.revision) == (self._entry.id, self._entry.revision)
        return same_entry and (tool.name, tool.digest) == (self._tool.name, self._tool.digest)

    def begin(self, tx: Tx, invocation: Invocation) -> str:
        self.began = invocation.id

        async def run(job: JobRun) -> None:
            await self._runs.run_begun(job, invocation, self._entry, self._tool, self._start, self)

        payload = {"invocation_id": invocation.id}
        return self._jobs.begin(tx, KIND, payload, run, workspace_id=invocation.workspace_id, over=self._over)

    def told(self, progress: CallProgress) -> None:
        self.news.put_nowait(progress)

    def ended(self, invocation: Invocation) -> None:
        self._ended = invocation

    def _over(self) -> None:
        self.news.put_nowait(self._ended)
