"""Owns the four tools of governed execution: ask for a call, wait for one, look at one, end one."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.access import RUN_EXEC
from holdfast.core.tools.gateway import Gateway
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.features.execution.calling import Calls
from holdfast.features.execution.model import Invocation
from holdfast.features.execution.service import MAX_WAIT_SECONDS, Execution

_EXAMPLE = '{"tool_name": "deploy.staging", "arguments": {}}'


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class InvokeInput(_Input):
    tool_name: str = Field(min_length=1, max_length=300, description="<server>.<tool>")
    arguments: dict[str, Any] = Field(default={}, description="As that tool takes them")


class PollInput(_Input):
    invocation_id: str = Field(min_length=1, max_length=80, description="As invoke gave it")
    wait_seconds: float = Field(default=0, ge=0, le=MAX_WAIT_SECONDS, description="Wait so long for a change")


class CancelInput(_Input):
    invocation_id: str = Field(min_length=1, max_length=80, description="As invoke gave it")


class InvocationOutput(BaseModel):
    """An invocation; `approval_url`, `progress`, `result` and `error` come along where there are any."""

    model_config = ConfigDict(extra="allow")

    invocation_id: str
    status: str

    def told(self, name: str) -> Any:
        """A part that came along; None where it did not."""
        return (self.model_extra or {}).get(name)


def shown(invocation: Invocation, approval_url: str | None) -> InvocationOutput:
    """An invocation as agents see it."""
    progress = invocation.progress
    parts: dict[str, Any] = {
        "approval_url": approval_url,
        "progress": progress and {"done": progress.done, "total": progress.total, "message": progress.message},
        "result": invocation.result and dict(invocation.result),
        "error": invocation.error and dict(invocation.error),
    }
    there = {name: value for name, value in parts.items() if value is not None}
    return InvocationOutput(invocation_id=invocation.id, status=invocation.status, **there)


def tools(execution: Execution, calls: Calls, gateway: Gateway) -> list[AnyTool]:
    """What agents call."""

    async def admitted(call: ToolCall, given: InvokeInput) -> None:
        await gateway.admit(call, given.tool_name, given.arguments)

    async def invoke(call: ToolCall, given: InvokeInput) -> InvocationOutput:
        await admitted(call, given)
        asked = await calls.ask(call, given.tool_name, given.arguments)
        return shown(asked, calls.url_of(asked))

    async def invoke_blocking(call: ToolCall, given: InvokeInput) -> InvocationOutput:
        await admitted(call, given)
        ended = await calls.run(call, given.tool_name, given.arguments)
        return shown(ended, calls.url_of(ended))

    async def poll(call: ToolCall, given: PollInput) -> InvocationOutput:
        first = await execution.get(call.principal, call.workspace(), given.invocation_id)
        found = await execution.wait(
            call.principal,
            first.workspace_id,
            first.id,
            seconds=given.wait_seconds,
            until=lambda now: now.finished or (now.status, now.progress) != (first.status, first.progress),
        )
        return shown(found, calls.url_of(found))

    async def cancel(call: ToolCall, given: CancelInput) -> InvocationOutput:
        ended = await execution.cancel(call.principal, call.workspace(), given.invocation_id)
        if not ended.finished:
            ended = await execution.wait(
                call.principal, ended.workspace_id, ended.id, seconds=5, until=lambda now: now.finished
            )
        return shown(ended, None)

    runs = Annotations(read_only=False, open_world=True)
    rows = (
        (
            "invoke",
            "Start a governed tool",
            f"Start a tool of the catalog and return at once; then poll. Example: {_EXAMPLE}",
            InvokeInput,
            invoke,
            runs,
        ),
        (
            "invoke_blocking",
            "Run a governed tool",
            f"Run a tool of the catalog and wait for its result. Example: {_EXAMPLE}",
            InvokeInput,
            invoke_blocking,
            runs,
        ),
        (
            "poll",
            "Look at an invocation",
            "How far an invocation is, and its result. Example: wait_seconds 20",
            PollInput,
            poll,
            Annotations(read_only=True, idempotent=True),
        ),
        (
            "cancel",
            "Cancel an invocation",
            "End an invocation; a finished one stays. Example: invocation_id inv_…",
            CancelInput,
            cancel,
            Annotations(read_only=False, idempotent=True),
        ),
    )
    return [
        Tool(
            name=f"xerotier.exec.{name}",
            title=title,
            description=description,
            input=input,
            output=InvocationOutput,
            handler=handler,
            annotations=notes,
            access=RUN_EXEC,
            text=_text,
            in_workspace=True,
        )
        for name, title, description, input, handler, notes in rows
    ]


def _text(output: InvocationOutput) -> str:
    url, error, result, progress = map(output.told, ("approval_url", "error", "result", "progress"))
    lines = [f"{output.invocation_id}: {output.status}"]
    if url is not None:
        lines.append(f"A person has to approve it first; show them this link: {url}")
    if error is not None:
        lines.append(f"{error.get('code')}: {error.get('message')}")
    if result is not None:
        lines += [_block(block) for block in result.get("content", ())]
    elif progress is not None:
        lines.append(str(progress.get("message") or progress.get("done")))
    return "\n".join(line for line in lines if line)


def _block(block: Mapping[str, Any]) -> str:
    return str(block["text"]) if block.get("type") == "text" else f"[{block.get('type')}]"
