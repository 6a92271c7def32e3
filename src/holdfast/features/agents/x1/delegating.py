"""Owns the tools by which an agent starts other agents, follows them, and talks to whoever started it."""

from typing import Any

from pydantic import Field

from holdfast.core.tools.tool import AnyTool, ToolCall
from holdfast.features.agents.x1.base import AckOutput, X1Input, X1Output, X1Turn, x1_tool

MAX_PROMPT = 100_000
MAX_QUIET_SECONDS = 6 * 3600
MAX_EVENTS = 500

ChildId = Field(min_length=1, max_length=100, description="What spawn_session gave")


class SpawnInput(X1Input):
    child_agent_id: str = Field(min_length=1, max_length=100, description="An id or slug of list_spawnable_agents")
    prompt: str = Field("", max_length=MAX_PROMPT)
    model: str | None = Field(None, max_length=200)


class SpawnOutput(X1Output):
    child_session_id: str


class NoInput(X1Input):
    pass


class SpawnableOutput(X1Output):
    agents: list[dict[str, Any]]


class ChildOutputInput(X1Input):
    child_session_id: str = ChildId
    after_seq: int = Field(0, ge=0, description="next_seq of the last reading")
    limit: int = Field(100, ge=1, le=MAX_EVENTS)


class ChildEvents(X1Output):
    state: str
    events: list[dict[str, Any]]
    next_seq: int


class InjectInput(X1Input):
    child_session_id: str = ChildId
    text: str = Field(min_length=1, max_length=MAX_PROMPT)


class QuietInput(X1Input):
    seconds: float = Field(gt=0, le=MAX_QUIET_SECONDS)
    reason: str = Field("", max_length=2_000)


class CallerInput(X1Input):
    summary: str = Field(min_length=1, max_length=2_000, description="In a sentence")
    body: str = Field("", max_length=MAX_PROMPT)
    needs_response: bool = Field(False, description="Whether to wait for an answer")


class CallerOutput(X1Output):
    delivered: bool = True
    response: str | None = None


async def _spawn(call: ToolCall, turn: X1Turn, given: SpawnInput) -> SpawnOutput:
    child = await turn.actions.spawn(turn.session, given.child_agent_id, given.prompt, given.model)
    return SpawnOutput(child_session_id=child)


async def _spawnable(call: ToolCall, turn: X1Turn, given: NoInput) -> SpawnableOutput:
    return SpawnableOutput(agents=[dict(agent) for agent in await turn.actions.spawnable(turn.session)])


async def _child_output(call: ToolCall, turn: X1Turn, given: ChildOutputInput) -> ChildEvents:
    read = await turn.actions.child_output(turn.session, given.child_session_id, given.after_seq, given.limit)
    return ChildEvents(state=read.state, events=[dict(event) for event in read.events], next_seq=read.next_seq)


async def _inject(call: ToolCall, turn: X1Turn, given: InjectInput) -> AckOutput:
    await turn.actions.inject(turn.session, given.child_session_id, given.text)
    return AckOutput()


async def _quiet(call: ToolCall, turn: X1Turn, given: QuietInput) -> AckOutput:
    await turn.actions.expect_quiet(turn.session, given.seconds, given.reason)
    return AckOutput()


async def _message_caller(call: ToolCall, turn: X1Turn, given: CallerInput) -> CallerOutput:
    answer = await turn.actions.message_caller(turn.session, given.summary, given.body, given.needs_response)
    return CallerOutput(response=answer)


def delegating_tools() -> list[AnyTool]:
    """Children, and the caller."""
    return [
        x1_tool(
            "spawn_session",
            "Start another agent on a task of its own; its budget is part of yours. Needs a spawn grant.",
            SpawnInput,
            SpawnOutput,
            _spawn,
        ),
        x1_tool(
            "list_spawnable_agents",
            "The agents that can be started, and whether you have the grant for each.",
            NoInput,
            SpawnableOutput,
            _spawnable,
            reads=True,
        ),
        x1_tool(
            "read_child_output",
            "What a session that you started has told since.",
            ChildOutputInput,
            ChildEvents,
            _child_output,
            reads=True,
        ),
        x1_tool("inject_message", "Say something to a session that you started.", InjectInput, AckOutput, _inject),
        x1_tool(
            "expect_quiet_for",
            "Say that nothing will be heard of you for so long, so that you are not taken for stuck.",
            QuietInput,
            AckOutput,
            _quiet,
            repeats=True,
        ),
        x1_tool(
            "message_caller",
            "Say something to whoever started you, a parent session or a person, and wait if you need an answer.",
            CallerInput,
            CallerOutput,
            _message_caller,
        ),
    ]
