"""Owns tools of other servers that a workspace enrolled: known only by what was pinned, called like our own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, RootModel

from holdfast.core.principal import Principal
from holdfast.core.tools.outcome import Outcome, Pause
from holdfast.core.tools.tool import AnyTool, Tool

MAX_LIST_CHARACTERS = 32_000
"""What a list of tools may take of a model's context: about 8,000 tokens. Enrolled tools fill what ours leave."""


class EnrolledInput(RootModel[dict[str, Any]]):
    """Arguments as they came; the pinned schema says what is right, and whoever runs the tool checks them by it."""


class ServedResult(BaseModel):
    """What the server answered, as MCP has it: it goes on as it is."""

    content: list[dict[str, Any]] = []
    structuredContent: dict[str, Any] | None = None  # noqa: N815 – as MCP spells it
    isError: bool = False  # noqa: N815 – as MCP spells it

    def text(self) -> str:
        """What a model reads that reads only text."""
        parts = [str(block.get("text", "")) if block.get("type") == "text" else _other(block) for block in self.content]
        return "\n".join(part for part in parts if part)


class WaitingResult(ServedResult):
    """A call that has not run, because a person decides first. A chat stops here until they did."""

    approval_id: str
    invocation_id: str
    tool_name: str
    approval_url: str


def _other(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "resource_link":
        return f"[{block.get('name') or 'resource'}: {block.get('uri')}]"
    return f"[{kind}: {block.get('mimeType') or 'not text'}]"


@dataclass(frozen=True, slots=True)
class EnrolledTool(Tool[EnrolledInput, ServedResult]):
    """A tool of another server, under `<server>.<tool>`."""

    pinned_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def input_schema(self) -> dict[str, Any]:
        return {**self.pinned_schema, "type": "object"}

    def output_schema(self) -> dict[str, Any] | None:
        # A call that waits for a person answers otherwise than the server promised.
        return None


class EnrolledTools(Protocol):
    """The tools that workspaces enrolled."""

    async def listed(self, principal: Principal, workspace_id: str) -> Sequence[AnyTool]:
        """Those that the principal may call in a workspace, in one order."""
        ...

    async def named(self, principal: Principal, workspace_id: str, name: str) -> AnyTool | None:
        """The one of this name in a workspace, whoever may call it; None where there is none.

        ToolUnknown where there is none, and something can be done about that.
        """
        ...


def served_outcome(result: ServedResult) -> Outcome:
    """What a call of an enrolled tool gave; whoever ran it has bounded it already."""
    served: dict[str, Any] = {"content": result.content, "isError": result.isError}
    if result.structuredContent is not None:
        served["structuredContent"] = result.structuredContent
    if not isinstance(result, WaitingResult):
        return Outcome(result.text(), served=served, untrusted=True)
    waiting = {
        "approval_id": result.approval_id,
        "invocation_id": result.invocation_id,
        "tool_name": result.tool_name,
        "approval_url": result.approval_url,
    }
    served["_meta"] = {"holdfast/code": "approval_required", "holdfast/approval": waiting}
    event = {"type": "x_approval.required", **waiting}
    question = {"question": f"Approve {result.tool_name}?", "style": "approval", **waiting}
    text = f"{result.tool_name} needs your approval: {result.approval_url}"
    pause = Pause(result.approval_id, question, text)
    return Outcome(result.text(), served=served, events=[event], pause=pause)
