"""Owns the tools by which an agent tells how it goes, asks people, and asks for rights."""

import asyncio
import hashlib
from typing import Any, Literal

from pydantic import Field

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.text import jsontext
from holdfast.core.tools.tool import AnyTool, ToolCall
from holdfast.features.agents.x1.base import AckOutput, X1Input, X1Output, X1Turn, x1_tool

MAX_OPTIONS = 20
MAX_SCOPES = 10

RequestId = Field(
    min_length=1, max_length=200, description="A name of yours for this request: the same one asks only once"
)
Justification = Field(min_length=1, max_length=4_000, description="Why you need it, for the person who decides")


class StatusInput(X1Input):
    status: Literal["starting", "researching", "analyzing", "writing", "reviewing", "waiting", "done"]
    detail: str = Field("", max_length=2_000, description="In a sentence, for whoever watches")


class QuestionInput(X1Input):
    question: str = Field(min_length=1, max_length=8_000)
    request_id: str = RequestId
    options: list[str] = Field([], max_length=MAX_OPTIONS, description="Answers to choose from")


class AnswerOutput(X1Output):
    answer: str


class ErrorInput(X1Input):
    message: str = Field(min_length=1, max_length=8_000)
    recoverable: bool = Field(description="Whether you go on")


class PermissionInput(X1Input):
    scopes: list[str] = Field(min_length=1, max_length=MAX_SCOPES, description="Such as linear.write")
    justification: str = Justification
    requested_tool: str | None = Field(None, max_length=300)
    requested_args: dict[str, Any] | None = None


class PermissionOutput(X1Output):
    granted: list[str]
    denied: list[str]


class GrantInput(X1Input):
    request_id: str = RequestId
    grant_type: Literal["spawn", "tool_scope"]
    details: dict[str, str] = Field(
        description='tool_scope: {"scope": "linear.write"} or {"tool": "linear.create_issue"}; spawn: {"agent": id}'
    )
    scope: Literal["once", "session", "persistent"] = Field(description="For one call, this session, or from now on")
    justification: str = Justification


class GrantOutput(X1Output):
    decision: Literal["granted", "denied"]
    grant_id: str | None = None
    note: str | None = None


class EndInput(X1Input):
    summary: str = Field(min_length=1, max_length=20_000, description="What was done, and what is left")


async def _emit_status(call: ToolCall, turn: X1Turn, given: StatusInput) -> AckOutput:
    await turn.actions.emit(turn.session, "status", {"status": given.status, "detail": given.detail})
    return AckOutput()


async def _emit_error(call: ToolCall, turn: X1Turn, given: ErrorInput) -> AckOutput:
    data = {"message": given.message, "recoverable": given.recoverable}
    await turn.actions.emit(turn.session, "error", data)
    return AckOutput()


async def _request_input(call: ToolCall, turn: X1Turn, given: QuestionInput) -> AnswerOutput:
    empty = [number for number, option in enumerate(given.options) if not option.strip()]
    if empty:
        raise Invalid("An option is empty.", fields=[FieldError(f"options[{empty[0]}]", "write what can be chosen")])
    return AnswerOutput(answer=await turn.actions.ask(turn.session, given.request_id, given.question, given.options))


async def _request_permission(call: ToolCall, turn: X1Turn, given: PermissionInput) -> PermissionOutput:
    scopes = list(dict.fromkeys(scope.strip() for scope in given.scopes))
    if not all(scopes):
        raise Invalid("A scope is empty.", fields=[FieldError("scopes", "write scopes such as linear.write")])
    # The same request again asks nobody again; one with other reasons does.
    asked = hashlib.sha256(jsontext.dumps([scopes, given.justification, given.requested_tool])).hexdigest()[:16]
    extra = {} if given.requested_tool is None else {"requested_tool": given.requested_tool}
    if given.requested_args is not None:
        extra["requested_args"] = jsontext.dumps(given.requested_args).decode()[:4_000]
    decided = await asyncio.gather(
        *(
            turn.actions.request_grant(
                turn.session,
                f"permission:{asked}:{scope}",
                "tool_scope",
                {"scope": scope, **extra},
                "session",
                given.justification,
            )
            for scope in scopes
        )
    )
    granted = [scope for scope, each in zip(scopes, decided, strict=True) if each.get("decision") == "granted"]
    return PermissionOutput(granted=granted, denied=[scope for scope in scopes if scope not in granted])


async def _request_grant(call: ToolCall, turn: X1Turn, given: GrantInput) -> GrantOutput:
    wanted = ("agent",) if given.grant_type == "spawn" else ("scope", "tool")
    named = {key: value.strip() for key, value in given.details.items() if key in wanted and value.strip()}
    if len(named) != 1:
        problem = f"say {' or '.join(wanted)}, one of them"
        raise Invalid("The request does not say what for.", fields=[FieldError(f"details.{wanted[0]}", problem)])
    decided = await turn.actions.request_grant(
        turn.session, given.request_id, given.grant_type, named, given.scope, given.justification
    )
    return GrantOutput(
        decision="granted" if decided.get("decision") == "granted" else "denied",
        grant_id=decided.get("grant_id"),
        note=decided.get("note"),
    )


async def _end_session(call: ToolCall, turn: X1Turn, given: EndInput) -> AckOutput:
    await turn.actions.end(turn.session, given.summary)
    return AckOutput()


def talking_tools() -> list[AnyTool]:
    """Telling, asking, ending."""
    return [
        x1_tool(
            "emit_status", "Say what you are doing now, for whoever watches.", StatusInput, AckOutput, _emit_status
        ),
        x1_tool(
            "request_input",
            "Ask a person and wait for the answer. Use it only for what you cannot find out yourself.",
            QuestionInput,
            AnswerOutput,
            _request_input,
            repeats=True,
        ),
        x1_tool("emit_error", "Report that something went wrong.", ErrorInput, AckOutput, _emit_error),
        x1_tool(
            "request_permission",
            "Ask a person for scopes of tools, for this session, and wait for the decision.",
            PermissionInput,
            PermissionOutput,
            _request_permission,
            repeats=True,
        ),
        x1_tool(
            "request_grant",
            "Ask a person for a right that a tool said it needs (permission_required), and wait. "
            "When it is granted, make the refused call again.",
            GrantInput,
            GrantOutput,
            _request_grant,
            repeats=True,
        ),
        x1_tool(
            "end_session", "Say that the work is done; the session ends after this.", EndInput, AckOutput, _end_session
        ),
    ]
