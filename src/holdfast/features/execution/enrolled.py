"""Owns enrolled tools as models see them: those that a workspace's catalog has, under `<server>.<tool>`."""

from collections.abc import Sequence

from holdfast.core.access import RUN_EXEC
from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.core.tools.enrolled import EnrolledInput, EnrolledTool, ServedResult, WaitingResult
from holdfast.core.tools.gateway import ToolUnknown
from holdfast.core.tools.tool import Annotations, AnyTool, ToolCall
from holdfast.features.catalog.model import PinnedTool
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.execution.calling import Calls
from holdfast.features.execution.model import Invocation
from holdfast.storage.database import Database

MAX_DESCRIPTION = 2_000


class InvocationFailed(HoldfastError):
    """The call did not succeed; the message says how it ended and what can be done."""

    code = "invocation_failed"
    status = 409


class EnrolledCatalog:
    """The tools of a workspace's servers. A destructive one exists only for who may use such."""

    def __init__(self, database: Database, pins: ToolPins, calls: Calls) -> None:
        self._database = database
        self._pins = pins
        self._calls = calls

    async def listed(self, principal: Principal, workspace_id: str) -> Sequence[AnyTool]:
        """Those that the principal may call in a workspace, by server."""
        if RUN_EXEC.missing(principal) is not None:
            return ()
        found = await self._database.glance(lambda tx: self._pins.usable(tx, workspace_id))
        return [
            self._tool(pin)
            for pin in found
            if pin.set_policy != "deny" and (principal.allow_destructive or not pin.destructive)
        ]

    async def named(self, principal: Principal, workspace_id: str, name: str) -> AnyTool | None:
        """The one of this name, whoever may call it: what decides about calls says why one may not.

        ToolUnknown with what to do where its server is there, and its tools are not known yet.
        """
        found = await self._database.glance(lambda tx: self._pins.named(tx, workspace_id, name))
        if found is not None:
            return self._tool(found[1])
        if RUN_EXEC.missing(principal) is None:
            why = await self._database.glance(lambda tx: self._pins.why_unknown(tx, workspace_id, name))
            if why is not None:
                raise ToolUnknown(name, why)
        return None

    def _tool(self, pin: PinnedTool) -> AnyTool:
        notes = pin.pinned.annotations

        async def run(call: ToolCall, given: EnrolledInput) -> ServedResult:
            return self._answer(await self._calls.run(call, pin.xem_name, given.root))

        return EnrolledTool(
            name=pin.xem_name,
            title=pin.pinned.title or pin.name,
            description=pin.pinned.description[:MAX_DESCRIPTION],
            input=EnrolledInput,
            output=ServedResult,
            handler=run,
            annotations=Annotations(
                read_only=pin.read_only,
                destructive=pin.destructive,
                idempotent=pin.idempotent,
                open_world=notes.get("openWorldHint") is not False,
            ),
            access=RUN_EXEC,
            pinned_schema=pin.pinned.input_schema,
        )

    def _answer(self, invocation: Invocation) -> ServedResult:
        url = self._calls.url_of(invocation)
        if url is not None and invocation.approval is not None:
            return WaitingResult(
                content=[{"type": "text", "text": waiting_text(invocation, url)}],
                isError=True,
                approval_id=invocation.approval.id,
                invocation_id=invocation.id,
                tool_name=invocation.tool_name,
                approval_url=url,
            )
        if invocation.result is not None:
            return ServedResult(**{**invocation.result, "isError": invocation.status != "succeeded"})
        error = invocation.error or {"code": invocation.status, "message": f"The call is {invocation.status}."}
        raise InvocationFailed(f"{error['message']} ({invocation.id}, {invocation.status})", code=str(error["code"]))


def waiting_text(invocation: Invocation, url: str) -> str:
    """What a model is told of a call that waits for a person."""
    return (
        f"{invocation.tool_name} waits for a person's approval and has not run. Show the person this link and ask them "
        f"to decide there: {url}\nThen call xerotier.exec.poll with invocation_id {invocation.id}; an equal call gets "
        "the same invocation."
    )
