"""Owns announcing pending approvals to a workspace's webhook: in a job, signed, tried again when it fails."""

import hashlib
import hmac

from holdfast.core.clock import iso
from holdfast.core.errors import UpstreamFailed
from holdfast.core.text import jsontext
from holdfast.engines.fetch.network.guard import FetchLimits, Guard, Request
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.jobs import JobRun
from holdfast.features.execution import store as invocation_store
from holdfast.features.execution.approvals import store
from holdfast.features.execution.approvals.service import Approvals
from holdfast.features.execution.model import Approval, Invocation
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database, Tx

SIGNATURE = "x-holdfast-signature-256"
_LIMITS = FetchLimits(bytes=10_000, redirects=0)


class Announcements:
    """Tells a webhook which call waits, with the link; arguments stay on the page."""

    def __init__(self, database: Database, approvals: Approvals, secrets: Secrets, guard: Guard) -> None:
        self._database = database
        self._approvals = approvals
        self._secrets = secrets
        self._guard = guard

    async def run(self, job: JobRun) -> None:
        """The handler of the job."""

        def look(tx: Tx) -> tuple[Approval, Invocation, str, str | None] | None:
            approval = store.find(tx, str(job.payload["approval_id"]))
            invocation = None if approval is None else invocation_store.find(tx, approval.invocation_id)
            setting = invocation_store.setting(tx, job.workspace_id)
            if approval is None or invocation is None or approval.state != "pending" or setting.webhook_url is None:
                return None
            name = setting.webhook_secret
            key = self._secrets.value_to_compare(tx, job.workspace_id, name) if name is not None else None
            return approval, invocation, setting.webhook_url, key

        found = await self._database.read(look)
        if found is None:
            return
        approval, invocation, url, key = found
        body = jsontext.dumps(
            {
                "type": "approval.pending",
                "approval_id": approval.id,
                "invocation_id": invocation.id,
                "workspace_id": invocation.workspace_id,
                "tool_name": invocation.tool_name,
                "requested_by": invocation.requested_by,
                "requested_name": invocation.requested_name,
                "approval_url": self._approvals.url_of(approval),
                "expires_at": iso(approval.expires_at),
            }
        )
        headers = {"content-type": "application/json"}
        if key is not None:
            headers[SIGNATURE] = "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
        reply = await self._guard.send(Request(parse_url(url), "POST", headers, body), limits=_LIMITS)
        if not 200 <= reply.status < 300:
            raise UpstreamFailed(f"The webhook answered {reply.status}.")
