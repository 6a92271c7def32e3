"""Owns the tools that the conformance suite asks for."""

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    TextContent,
)
from pydantic import BaseModel, ConfigDict

from holdfast.core.access import RUN
from holdfast.core.tools import tool
from holdfast.engines.events.bus import EventBus
from holdfast.storage.database import Database
from holdfast.surfaces.mcp.content.asking import InputNeeded
from holdfast.surfaces.mcp.content.tools import Context
from tests.surfaces.mcp.conformance.data import DEFAULTS, ENUMS, JSON_SCHEMA, NAME_SCHEMA, NO_ARGUMENTS, PNG, WAV

Handler = Callable[[Context, CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult]]


def text(said: str, **more: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=said)], **more)


class Anything(BaseModel):
    """What a fixture takes: its schema says more, and the suite sends what it says."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class FixtureTool(tool.Tool[Any, Any]):
    """A tool that brings its schema along and answers in the protocol's own words."""

    schema: dict[str, Any] = field(default_factory=dict)

    def input_schema(self) -> dict[str, Any]:
        return self.schema

    def output_schema(self) -> None:
        return None


class Fixtures:
    """Every tool of the suite."""

    def __init__(self, database: Database, events: EventBus) -> None:
        self._database = database
        self._events = events
        self._handlers: dict[str, Handler] = {
            "test_simple_text": self._simple,
            "test_image_content": self._image,
            "test_audio_content": self._audio,
            "test_embedded_resource": self._embedded,
            "test_multiple_content_types": self._mixed,
            "test_tool_with_logging": self._logging,
            "test_logging_tool": self._logging,
            "test_error_handling": self._error,
            "test_tool_with_progress": self._progress,
            "test_sampling": self._sampling,
            "test_elicitation": self._elicitation,
            "test_elicitation_sep1034_defaults": self._defaults,
            "test_elicitation_sep1330_enums": self._enums,
            "test_reconnection": self._reconnection,
            "json_schema_2020_12_tool": self._simple,
            "test_custom_headers": self._simple,
            "test_missing_capability": self._missing_capability,
            "test_streaming_elicitation": self._streaming_elicitation,
            "test_trigger_tool_change": self._tool_change,
            "test_trigger_prompt_change": self._prompt_change,
            "test_input_required_result_elicitation": self._needs_name,
            "test_input_required_result_sampling": self._needs_sampling,
            "test_input_required_result_list_roots": self._needs_roots,
            "test_input_required_result_request_state": self._needs_state,
            "test_input_required_result_tampered_state": self._needs_state,
            "test_input_required_result_multiple_inputs": self._needs_many,
            "test_input_required_result_multi_round": self._needs_rounds,
            "test_input_required_result_capabilities": self._needs_what_is_declared,
        }
        schemas: dict[str, dict[str, Any]] = {
            "json_schema_2020_12_tool": JSON_SCHEMA,
            "test_sampling": _one_string("prompt"),
            "test_elicitation": _one_string("message"),
            "test_custom_headers": {
                "type": "object",
                "properties": {
                    "region": {"type": "string", "x-mcp-header": "Region"},
                    "priority": {"type": "integer", "x-mcp-header": "Priority"},
                },
            },
        }
        self.tools: list[tool.AnyTool] = [
            FixtureTool(
                name=name,
                title=name,
                description=f"Fixture {name}",
                input=Anything,
                output=CallToolResult,
                handler=self._handling(handler),
                annotations=tool.Annotations(read_only=True),
                access=RUN,
                schema=schemas.get(name, NO_ARGUMENTS),
            )
            for name, handler in self._handlers.items()
        ]

    def _handling(self, handler: Handler) -> Callable[[tool.ToolCall, Anything], Awaitable[CallToolResult]]:
        async def handle(call: tool.ToolCall, given: Anything) -> CallToolResult:
            # What the suite wants of the session is more than a tool of the product needs: the request itself.
            ctx = call.during(ServerRequestContext)
            result = await handler(ctx, CallToolRequestParams.model_validate(ctx.params))
            if isinstance(result, InputRequiredResult):
                raise InputNeeded(result)
            return result

        return handle

    async def _simple(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return text("This is a simple text response for testing.")

    async def _image(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return CallToolResult(content=[types.ImageContent(type="image", data=PNG, mime_type="image/png")])

    async def _audio(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return CallToolResult(content=[types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")])

    async def _embedded(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        said = "This is an embedded resource content."
        return CallToolResult(content=[_resource("test://embedded-resource", "text/plain", said)])

    async def _mixed(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return CallToolResult(
            content=[
                TextContent(type="text", text="Multiple content types test:"),
                types.ImageContent(type="image", data=PNG, mime_type="image/png"),
                _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
            ]
        )

    async def _logging(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await ctx.session.send_log_message("info", said, related_request_id=ctx.request_id)
            await asyncio.sleep(0.05)
        return text("Logged three messages.")

    async def _error(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return text("This tool intentionally returns an error for testing", is_error=True)

    async def _progress(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        for done in (0, 50, 100):
            await ctx.session.report_progress(done, 100)
            await asyncio.sleep(0.05)
        return text("Reported progress.")

    async def _sampling(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        message = types.SamplingMessage(
            role="user", content=TextContent(type="text", text=(params.arguments or {})["prompt"])
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
        return text(f"LLM response: {getattr(answer.content, 'text', '')}")

    async def _elicitation(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        fields = {name: {"type": "string", "description": name} for name in ("username", "email")}
        schema = {"type": "object", "properties": fields, "required": ["username", "email"]}
        answer = await ctx.session.elicit_form((params.arguments or {})["message"], schema, ctx.request_id)
        return text(f"User response: action: {answer.action}, content: {json.dumps(answer.content)}")

    async def _defaults(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return await _elicited(ctx, DEFAULTS)

    async def _enums(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return await _elicited(ctx, ENUMS)

    async def _reconnection(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        if ctx.close_sse_stream is not None:
            await ctx.close_sse_stream()
        await asyncio.sleep(0.1)
        return text("Reconnected.")

    async def _missing_capability(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        capabilities = ctx.session.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            raise MCPError(
                code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                message="Missing required client capability",
                data={"requiredCapabilities": {"sampling": {}}},
            )
        return text("The client can sample.")

    async def _streaming_elicitation(
        self, ctx: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        await ctx.session.report_progress(1, 2)
        return await self._needs_name(ctx, params)

    async def _tool_change(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return await self._announce(ctx, "conformance.tools")

    async def _prompt_change(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return await self._announce(ctx, "conformance.prompts")

    async def _announce(self, ctx: Context, topic: str) -> CallToolResult:
        workspace_id = ctx.request.workspace_id if ctx.request else None
        await self._database.write(lambda tx: self._events.publish(tx, topic, {}, workspace_id=workspace_id))
        return text("Announced.")

    async def _needs_name(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        answer = _answer(params, "user_name")
        if answer is None:
            return _ask(user_name=_form("What is your name?", NAME_SCHEMA))
        return text(f"Hello, {_field(answer, 'name')}!")

    async def _needs_sampling(
        self, ctx: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        answer = _answer(params, "capital_question")
        if answer is None:
            return _ask(capital_question=_sample("What is the capital of France?", 100))
        return text(f"Sampled: {_dumped(answer)['content']}")

    async def _needs_roots(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        answer = _answer(params, "client_roots")
        if answer is None:
            return _ask(client_roots=types.ListRootsRequest())
        return text(f"Roots: {json.dumps(_dumped(answer)['roots'])}")

    async def _needs_state(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        if params.request_state is None or _answer(params, "confirm") is None:
            schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
            return _ask("waiting", confirm=_form("Please confirm", schema))
        return text("state-ok" if params.request_state == "waiting" else "state-wrong")

    async def _needs_many(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        answers = [_answer(params, key) for key in ("user_name", "greeting", "client_roots")]
        if params.request_state is None or None in answers:
            return _ask(
                "many",
                user_name=_form("What is your name?", NAME_SCHEMA),
                greeting=_sample("Generate a greeting", 50),
                client_roots=types.ListRootsRequest(),
            )
        return text("All inputs received.")

    async def _needs_rounds(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        if params.request_state is None:
            return _ask("round-1", step1=_form("Step 1: What is your name?", NAME_SCHEMA))
        if params.request_state == "round-1":
            schema = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
            return _ask("round-2", step2=_form("Step 2: What is your favorite color?", schema))
        return text("Both rounds are done.")

    async def _needs_what_is_declared(
        self, ctx: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        capabilities = ctx.session.client_capabilities
        asked: dict[str, Any] = {}
        if capabilities is not None and capabilities.sampling is not None:
            asked["sampled"] = _sample("Say something", 10)
        if capabilities is not None and capabilities.elicitation is not None:
            asked["elicited"] = _form("What is your name?", NAME_SCHEMA)
        return _ask(**asked) if asked else text("Nothing can be asked.")


def _one_string(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string", "description": name}}, "required": [name]}


def _resource(uri: str, mime_type: str, said: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=said)
    return types.EmbeddedResource(type="resource", resource=contents)


def _form(message: str, schema: dict[str, Any]) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(said: str, max_tokens: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=TextContent(type="text", text=said))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


def _ask(state: str | None = None, **requests: Any) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def _answer(params: types.InputResponseRequestParams, key: str) -> Any:
    return (params.input_responses or {}).get(key)


def _dumped(answer: Any) -> dict[str, Any]:
    return dict(answer if isinstance(answer, dict) else answer.model_dump(mode="json", by_alias=True))


def _field(answer: Any, name: str) -> str:
    content = _dumped(answer).get("content")
    if not isinstance(content, dict) or not isinstance(content.get(name), str):
        raise MCPError(code=INVALID_PARAMS, message=f"The answer has no {name}.")
    return str(content[name])


async def _elicited(ctx: Context, schema: dict[str, Any]) -> CallToolResult:
    answer = await ctx.session.elicit_form("Please fill this in", schema, ctx.request_id)
    return text(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}")
