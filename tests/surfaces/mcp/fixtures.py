"""Owns the catalog that the MCP conformance suite asks for. Only tests hand it to the surface."""

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    ElicitRequest,
    ElicitRequestFormParams,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
)
from pydantic import BaseModel, ConfigDict

from holdfast.core.access import RUN
from holdfast.core.tools import tool
from holdfast.surfaces.mcp.content.asking import InputNeeded
from holdfast.surfaces.mcp.content.tools import Context
from holdfast.surfaces.mcp.transport.live import Live, WorkspaceChange
from tests.surfaces.mcp.fixture_data import DEFAULTS, ENUMS, JSON_SCHEMA, NAME_SCHEMA, NO_ARGUMENTS, PNG, WAV

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
    """Every fixture of the suite; its tools run through the gateway like any other."""

    def __init__(self) -> None:
        self.live: Live | None = None
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
        self._context: ContextVar[Context] = ContextVar("context")
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
        self.prompts = [
            Prompt(name="test_simple_prompt", description="A simple prompt"),
            Prompt(
                name="test_prompt_with_arguments",
                description="A prompt with arguments",
                arguments=[PromptArgument(name=name, description=name, required=True) for name in ("arg1", "arg2")],
            ),
            Prompt(
                name="test_prompt_with_embedded_resource",
                description="A prompt with a resource",
                arguments=[PromptArgument(name="resourceUri", description="Resource", required=True)],
            ),
            Prompt(name="test_prompt_with_image", description="A prompt with an image"),
            Prompt(name="test_input_required_result_prompt", description="A prompt that asks"),
        ]
        self.resources = [
            Resource(uri="test://static-text", name="static-text", mime_type="text/plain", description="Text"),
            Resource(uri="test://static-binary", name="static-binary", mime_type="image/png", description="Image"),
            Resource(uri="test://watched-resource", name="watched", mime_type="text/plain", description="Watched"),
        ]
        self.templates = [
            ResourceTemplate(
                uri_template="test://template/{id}/data",
                name="template",
                description="Template",
                mime_type="application/json",
            )
        ]

    def install(self, server: Server[Any]) -> None:
        """Logging is gone from the newest revision and the product has none; the older suite asks for it."""

        async def set_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
            return types.EmptyResult()

        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
        server.middleware.append(self._remember)

    def _handling(self, handler: Handler) -> Callable[[tool.ToolCall, Anything], Awaitable[CallToolResult]]:
        async def handle(call: tool.ToolCall, given: Anything) -> CallToolResult:
            ctx = self._context.get()
            result = await handler(ctx, CallToolRequestParams.model_validate(ctx.params))
            if isinstance(result, InputRequiredResult):
                raise InputNeeded(result)
            return result

        return handle

    async def _remember(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """What the fixtures want of the session is more than a tool of the product has: the request itself."""
        self._context.set(ctx)
        return await call_next(ctx)

    async def get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
        given = params.arguments or {}
        if params.name == "test_simple_prompt":
            return _prompt("This is a simple prompt for testing.")
        if params.name == "test_prompt_with_arguments":
            return _prompt(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
        if params.name == "test_prompt_with_image":
            image = types.ImageContent(type="image", data=PNG, mime_type="image/png")
            return _prompt("Please analyze the image above.", image)
        if params.name == "test_prompt_with_embedded_resource":
            return _prompt(
                "Please process the embedded resource above.",
                _resource(given["resourceUri"], "text/plain", "Embedded resource content for testing."),
            )
        answer = _answer(params, "user_context")
        if answer is None:
            schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
            return _ask(user_context=_form("What context should the prompt use?", schema))
        return _prompt(f"Prompt with context: {answer}")

    async def read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult | None:
        uri = str(params.uri)
        if uri == "test://static-text":
            said = "This is the content of the static text resource."
            return _contents(types.TextResourceContents(uri=uri, mime_type="text/plain", text=said))
        if uri == "test://static-binary":
            return _contents(types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG))
        if uri == "test://watched-resource":
            return _contents(types.TextResourceContents(uri=uri, mime_type="text/plain", text="Watched."))
        if uri.startswith("test://template/") and uri.endswith("/data"):
            id = uri.removeprefix("test://template/").removesuffix("/data")
            said = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
            return _contents(types.TextResourceContents(uri=uri, mime_type="application/json", text=said))
        return None

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> CompleteResult | None:
        if isinstance(params.ref, types.PromptReference) and params.ref.name == "test_prompt_with_arguments":
            words = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
            return CompleteResult(completion=Completion(values=words, total=len(words), has_more=False))
        return None

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
        return await self._announce(ctx, WorkspaceChange(_workspace(ctx), lists=(ToolsListChanged(),)))

    async def _prompt_change(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        return await self._announce(ctx, WorkspaceChange(_workspace(ctx), lists=(PromptsListChanged(),)))

    async def _announce(self, ctx: Context, change: WorkspaceChange) -> CallToolResult:
        if self.live is not None:
            await self.live.publish(change)
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


def _workspace(ctx: Context) -> str:
    return (ctx.request.workspace_id if ctx.request else None) or ""


def _resource(uri: str, mime_type: str, said: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=said)
    return types.EmbeddedResource(type="resource", resource=contents)


def _contents(contents: Any) -> ReadResourceResult:
    return ReadResourceResult(contents=[contents])


def _prompt(said: str, before: Any = None) -> GetPromptResult:
    messages = [] if before is None else [PromptMessage(role="user", content=before)]
    messages.append(PromptMessage(role="user", content=TextContent(type="text", text=said)))
    return GetPromptResult(messages=messages)


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
