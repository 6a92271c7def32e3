"""Owns the end of an invocation: its state, its audit event and its live event, in one transaction."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs.engine import JobEngine
from holdfast.features.audit.service import Audit
from holdfast.features.execution import store
from holdfast.features.execution.approvals import store as approval_store
from holdfast.features.execution.model import Invocation, Status
from holdfast.storage.database import Tx

TOPIC = "invocation"
_LOGGED_CHARACTERS = 4_000


def logged(value: object) -> str:
    """Arguments or a result as the audit log has them."""
    return json.dumps(value, ensure_ascii=False, default=str)[:_LOGGED_CHARACTERS]


class Endings:
    """Ends invocations, each once."""

    def __init__(self, audit: Audit, jobs: JobEngine, events: EventBus, clock: Clock) -> None:
        self._audit = audit
        self._jobs = jobs
        self._events = events
        self._clock = clock

    def end(
        self,
        tx: Tx,
        invocation: Invocation,
        status: Status,
        *,
        result: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
        only: Status | None = None,
        reached: bool = True,
    ) -> Invocation | None:
        """End it like this; None where it has ended otherwise, or has left the one state that was meant.

        `reached`: whether what was marked as sent may have come to the tool.
        """
        current = store.end(tx, invocation.id, status, self._clock.now(), result=result, error=error, only=only)
        if current is None:
            return None
        if (current.sent_at is None or not reached) and status in ("failed", "expired", "cancelled"):
            # Nothing reached the tool: whoever asks again means it.
            store.release_once(tx, current.once_key, current.id)
        self.record(tx, current)
        return current

    def cancel(self, tx: Tx, invocation: Invocation, by: Principal) -> None:
        """End what has not begun; tell the job of what has, which tells the server."""
        cancelled = {"code": "cancelled", "message": f"Cancelled by {by.name or by.actor}."}
        ended = self.end(tx, invocation, "cancelled", error=cancelled, only="awaiting_approval") or self.end(
            tx, invocation, "cancelled", error=cancelled, only="queued"
        )
        if ended is not None and invocation.approval is not None:
            approval_store.decide(tx, invocation.approval.id, "cancelled", self._clock.now(), by=by.actor, via=None)
        if invocation.job_id is not None:
            self._jobs.cancel(tx, invocation.job_id)

    def record(self, tx: Tx, invocation: Invocation) -> None:
        """Tell the audit log and whoever follows."""
        server, _, name = invocation.tool_name.partition(".")
        began, ended = invocation.started_at, invocation.ended_at
        approval = invocation.approval
        detail: dict[str, object] = {
            "name": server,
            "tool": name,
            "duration_ms": 0 if began is None or ended is None else ended - began,
            "granted_via": invocation.granted_via,
            "invocation_id": invocation.id,
            "status": invocation.status,
        }
        if approval is not None and approval.via is not None:
            detail["via"] = approval.via
        if store.setting(tx, invocation.workspace_id).log_arguments:
            detail["arguments"] = logged(dict(invocation.arguments))
            detail["result"] = logged(invocation.result or invocation.error)
        self._audit.record(
            tx,
            replace(invocation.principal, name=invocation.requested_name),
            "session.mcp.tool_called",
            resource="mcp_tool",
            resource_id=invocation.tool_name,
            workspace_id=invocation.workspace_id,
            outcome="denied" if invocation.status == "denied" else "allowed",
            detail=detail,
        )
        payload = {"id": invocation.id, "tool_name": invocation.tool_name[:200]}
        if approval is not None:
            payload["approval_id"] = approval.id
        self._events.publish(tx, f"{TOPIC}.{invocation.status}", payload, workspace_id=invocation.workspace_id)
