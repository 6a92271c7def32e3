"""Owns an attached server behind its socket: which of its tools the session sees, and what becomes of each call."""

import asyncio
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import Forbidden, HoldfastError, Unavailable
from holdfast.core.ids import new_id
from holdfast.core.text import jsontext
from holdfast.core.tools.gateway import ToolUnknown
from holdfast.engines.mcp_client.base import CallResult, Connection, TellProgress
from holdfast.engines.mcp_client.pool import ConnectionPool
from holdfast.features.agents.gate.base import FrozenAttachment, GatedSession
from holdfast.features.agents.gate.records import CallRecords, GateCall
from holdfast.features.agents.gate.toolset import error_result
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.catalog.model import PinnedTool
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStart
from holdfast.features.execution.arguments import check_arguments
from holdfast.features.execution.model import ToolHeldBack
from holdfast.features.execution.policies.deciding import Deciding, Verdict, needs_grant_by_name
from holdfast.features.execution.runs.live import LiveTools
from holdfast.features.execution.runs.results import bounded
from holdfast.features.secrets.masking import SecretMask
from holdfast.storage.database import Database, Tx

MAX_RESULT_BYTES = 4 << 20
"""What an agent gets as it is; of a larger result it gets the beginning and an artifact."""


class PermissionRequired(Forbidden):
    """The tool needs a grant that nobody gave yet; the message says which, and how to ask for it."""

    code = "permission_required"

    def __init__(self, tool: PinnedTool) -> None:
        self.details = {"tool": tool.xem_name} if needs_grant_by_name(tool) else {"scope": str(tool.scope)}
        what, name = next(iter(self.details.items()))
        asked = {
            "request_id": f"{what}:{name}",
            "grant_type": "tool_scope",
            "details": self.details,
            "scope": "session",
            "justification": "why you need it",
        }
        super().__init__(
            f"permission_required: {tool.xem_name} needs a grant for the {what} {name}, which only a person can give. "
            f"Call request_grant of x1agent with {json.dumps(asked)}; when it is granted, make this call again."
        )


@dataclass(frozen=True, slots=True)
class AttachedParts:
    """What every attached server is served with."""

    database: Database
    pins: ToolPins
    deciding: Deciding
    connections: ServerConnections
    artifacts: ArtifactService
    records: CallRecords
    live: LiveTools
    call_seconds: float


class AttachedServer:
    """One attachment of one session."""

    def __init__(
        self,
        parts: AttachedParts,
        session: GatedSession,
        attachment: FrozenAttachment,
        start: ServerStart,
        pool: ConnectionPool,
        mask: SecretMask,
    ) -> None:
        self._parts = parts
        self._session = session
        self._attachment = attachment
        self._start = start
        self._pool = pool
        self._mask = mask

    @property
    def name(self) -> str:
        return self._attachment.name

    @property
    def instructions(self) -> str:
        return ""

    async def warm(self) -> None:
        """Start the server, so that the first call need not wait for it."""
        async with self._pool.connection(self.name, self._open) as connection:
            await self._parts.live.of(connection)

    async def tools(self) -> Sequence[Mapping[str, Any]]:
        """Those that were pinned when the session started, as they were, and that nobody has held back since."""

        def work(tx: Tx) -> Sequence[PinnedTool]:
            found = [
                self._parts.pins.named(tx, self._session.workspace_id, f"{self.name}.{tool}") for tool in self._names
            ]
            return [each[1] for each in found if each is not None]

        pinned = await self._parts.database.read(work)
        return [_described(pin) for pin in pinned if self._why_held_back(pin) is None and pin.set_policy != "deny"]

    @property
    def _names(self) -> Collection[str]:
        return self._attachment.tools

    def _why_held_back(self, pin: PinnedTool) -> HoldfastError | None:
        if pin.server_id != self._attachment.server_id:
            return ToolHeldBack(f"The server {self.name} is not the one that this session started with.")
        if pin.digest != self._attachment.tools[pin.name]:
            return ToolHeldBack(f"The tool {pin.xem_name} was changed since this session started; start a new one.")
        try:
            self._parts.deciding.check(self._session.principal, self._start.entry, pin)
        except ToolHeldBack as held_back:
            return held_back
        return None

    async def call(self, tool: str, arguments: Mapping[str, Any], progress: TellProgress) -> Mapping[str, Any]:
        if tool not in self._names:
            raise ToolUnknown(tool)
        call = GateCall(self.name, tool, arguments)
        began = time.perf_counter()
        try:
            call.result = await self._run(call, progress)
            call.status = "failed" if call.result.get("isError") else "succeeded"
        except HoldfastError as problem:
            call.status = "denied" if isinstance(problem, Forbidden) else "failed"
            call.result = error_result(
                problem, **({"holdfast/grant": problem.details} if isinstance(problem, PermissionRequired) else {})
            )
        finally:
            call.seconds = time.perf_counter() - began
            await self._parts.records.keep(self._session, call, self._mask)
        return self._masked(call.result)

    async def _run(self, call: GateCall, progress: TellProgress) -> Mapping[str, Any]:
        pin, verdict = await self._parts.database.glance(lambda tx: self._decide(tx, call, spend=False))
        self._check(call, pin, verdict)
        check_arguments(pin.pinned.input_schema, call.arguments)
        async with self._pool.connection(self.name, self._open) as connection:
            live = await self._parts.live.of(connection)
            if live.digests.get(pin.name) != pin.digest:
                raise ToolHeldBack(
                    f"The server describes {pin.xem_name} otherwise than it was pinned; a person has to look at it."
                )
            if verdict.is_unspent:
                # Only now: a server that does not start costs nobody a grant.
                pin, verdict = await self._parts.database.write(lambda tx: self._decide(tx, call, spend=True))
                self._check(call, pin, verdict)
            call.granted_via = verdict.granted_via
            given = await self._called(connection, call, progress)
        result = {"content": list(given.content), "isError": given.is_error}
        if given.structured is not None:
            result["structuredContent"] = given.structured
        if len(jsontext.dumps(result)) <= MAX_RESULT_BYTES:
            return result
        return await self._shortened(call, given)

    def _decide(self, tx: Tx, call: GateCall, *, spend: bool) -> tuple[PinnedTool, Verdict]:
        session = self._session
        found = self._parts.pins.named(tx, session.workspace_id, f"{self.name}.{call.tool}")
        if found is None:
            raise ToolHeldBack(f"The tool {self.name}.{call.tool} is no longer in the catalog.")
        entry, pin = found
        self._parts.deciding.check(session.principal, entry, pin)
        held_back = self._why_held_back(pin)
        if held_back is not None:
            raise held_back
        subjects = [each for each in (session.agent_id, session.user_id) if each is not None]
        verdict = self._parts.deciding.decide_attached(tx, session.workspace_id, subjects, session.id, pin, spend=spend)
        return pin, verdict

    def _check(self, call: GateCall, pin: PinnedTool, verdict: Verdict) -> None:
        if verdict.kind == "refuse":
            raise ToolHeldBack(f"The workspace's policy denies {pin.xem_name}.", code="denied_by_policy")
        if verdict.kind == "ask":
            needed = PermissionRequired(pin)
            call.needs = next(iter(needed.details.values()))
            raise needed

    async def _called(self, connection: Connection, call: GateCall, progress: TellProgress) -> CallResult:
        async def tell(done: float, total: float | None, message: str) -> None:
            await progress(done, total, self._mask.text(message))

        try:
            async with asyncio.timeout(self._parts.call_seconds):
                return await connection.call(call.tool, call.arguments, progress=tell)
        except TimeoutError:
            seconds = self._parts.call_seconds
            raise Unavailable(
                f"{self.name}.{call.tool} did not finish within {seconds:g} seconds and was cancelled.", code="timeout"
            ) from None

    async def _shortened(self, call: GateCall, given: CallResult) -> Mapping[str, Any]:
        masked = CallResult(
            tuple(self._mask.value(list(given.content))), self._mask.value(given.structured), given.is_error
        )
        shown = await bounded(
            self._parts.artifacts,
            self._session.principal,
            self._session.workspace_id,
            masked,
            identifier=f"result-{new_id('res')}",
            title=f"Result of {self.name}.{call.tool}",
            most=MAX_RESULT_BYTES,
        )
        return {**shown, "isError": given.is_error}

    def _masked(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._mask.occurs(jsontext.dumps(result)):
            return result
        masked: Mapping[str, Any] = self._mask.value(result)
        return masked

    async def _open(self) -> Connection:
        return await self._parts.connections.open(self._start)


def _described(pin: PinnedTool) -> dict[str, Any]:
    tool = pin.pinned
    return {
        "name": tool.name,
        **({} if tool.title is None else {"title": tool.title}),
        "description": tool.description,
        "inputSchema": {**tool.input_schema, "type": "object"},
        **({} if tool.output_schema is None else {"outputSchema": tool.output_schema}),
        **({"annotations": dict(tool.annotations)} if tool.annotations else {}),
    }
