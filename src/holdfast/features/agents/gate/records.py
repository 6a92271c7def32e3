"""Owns what is kept of each call through the gate: an event of the audit trail, and one of the session's own."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.features.agents.gate.base import GatedSession, SessionActions
from holdfast.features.audit.service import Audit
from holdfast.features.execution import store as execution_store
from holdfast.features.execution.runs.ending import logged
from holdfast.features.secrets.masking import SecretMask
from holdfast.storage.database import Database, Tx

CALLED = "session.mcp.tool_called"
EVENT = "tool_called"

CallStatus = Literal["succeeded", "failed", "denied", "cancelled"]


@dataclass(slots=True)
class GateCall:
    """One call of a tool; it is cancelled until it is known how it ended."""

    server: str
    tool: str
    arguments: Mapping[str, Any]
    status: CallStatus = "cancelled"
    granted_via: str | None = None
    needs: str | None = None
    """The scope or tool that a person has to grant first."""
    seconds: float = 0.0
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])


class CallRecords:
    """Keeps calls. Arguments and results only where the workspace's admins switched that on."""

    def __init__(self, database: Database, audit: Audit, actions: Callable[[], SessionActions]) -> None:
        self._database = database
        self._audit = audit
        self._actions = actions

    async def keep(self, session: GatedSession, call: GateCall, mask: SecretMask) -> None:
        """Keep one call that is over, also where whoever made it is cancelled meanwhile, once or more often."""
        keeping = asyncio.ensure_future(self._keep(session, call, mask))
        was_cancelled = False
        while not keeping.done():
            try:
                await asyncio.shield(keeping)
            except asyncio.CancelledError:
                was_cancelled = True
        keeping.result()
        if was_cancelled:
            raise asyncio.CancelledError

    async def _keep(self, session: GatedSession, call: GateCall, mask: SecretMask) -> None:
        data: dict[str, Any] = {
            "name": call.server,
            "tool": call.tool[:200],
            "duration_ms": round(call.seconds * 1000),
            "status": call.status,
            "granted_via": call.granted_via,
        }
        if call.needs is not None:
            data["permission_required"] = call.needs
        # Together, so that the store writes both to the disk at once.
        await asyncio.gather(
            self._database.write(lambda tx: self._record(tx, session, call, mask)),
            self._actions().emit(session, EVENT, data),
        )

    def _record(self, tx: Tx, session: GatedSession, call: GateCall, mask: SecretMask) -> None:
        detail: dict[str, object] = {
            "name": call.server,
            "tool": call.tool[:200],
            "duration_ms": round(call.seconds * 1000),
            "granted_via": call.granted_via,
            "session_id": session.id,
            "agent": session.agent_slug,
            "status": call.status,
        }
        if execution_store.setting(tx, session.workspace_id).log_arguments:
            detail["arguments"] = logged(mask.value(call.arguments))
            detail["result"] = logged(mask.value(call.result))
        self._audit.record(
            tx,
            session.principal,
            CALLED,
            resource="mcp_tool",
            resource_id=f"{call.server}.{call.tool}"[:300],
            workspace_id=session.workspace_id,
            outcome="denied" if call.status == "denied" else "allowed",
            detail=detail,
        )
