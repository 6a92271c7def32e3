"""A strict server of Anthropic's Messages API that replays scripted answers, and refuses what Anthropic would."""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from tests.fakes.web import serve

Json = dict[str, Any]
KEY = "sk-ant-fake-messages-key"
ENCRYPTED = "sealed-by-the-fake"
"""The only content of search results that it takes back."""
USAGE = {"input_tokens": 7, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 5}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ID = re.compile(r"[A-Za-z0-9_-]+")
_KNOWN = {
    *("model", "messages", "max_tokens", "system", "stream", "tools", "tool_choice", "temperature", "top_p", "top_k"),
    *("stop_sequences", "metadata", "thinking", "output_config", "service_tier", "context_management", "container"),
    *("mcp_servers", "output_format", "cache_control", "diagnostics", "inference_geo", "speed"),
}
_BLOCKS = {
    "user": {"text", "image", "document", "tool_result", "search_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result"},
}


@dataclass
class Answer:
    """One answer; `status` other than 200 refuses with `error`, `cut_after` breaks off after so many events."""

    content: Sequence[Json] = ()
    stop_reason: str = "end_turn"
    stop_sequence: str | None = None
    usage: Json = field(default_factory=lambda: dict(USAGE))
    status: int = 200
    error: str = "api_error"
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    fail_after: int | None = None
    """Tell an `error` event after so many events."""
    id: str = "msg_fake"

    def message(self) -> Json:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": "claude-fake",
            "content": list(self.content),
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "usage": self.usage,
            "x_unknown": {"kept": True},
        }

    def events(self) -> list[Json]:
        begun = {**self.message(), "content": [], "stop_reason": None, "usage": {**self.usage, "output_tokens": 1}}
        made: list[Json] = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(self.content):
            empty, deltas = _pieces(block)
            made.append({"type": "content_block_start", "index": index, "content_block": empty})
            made += [{"type": "ping"}] if index == 0 else []
            made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            made.append({"type": "content_block_stop", "index": index})
        ended = {"stop_reason": self.stop_reason, "stop_sequence": self.stop_sequence}
        made.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": self.usage["output_tokens"]}})
        return [*made, {"type": "message_stop"}]

    def stream(self) -> list[bytes]:
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in self.events()]


def says(text: str, **more: Any) -> Answer:
    """An answer of text."""
    return Answer([{"type": "text", "text": text}], **more)


def uses(name: str, given: Json, **more: Any) -> Answer:
    """An answer that calls a tool."""
    block = {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": given}
    return Answer([block], stop_reason="tool_use", **more)


@dataclass
class FakeMessages:
    """What was asked of it, and what it will answer next."""

    url: str = ""
    script: list[Answer] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    choose: Callable[[Json], Answer] | None = None
    """Answers by what was asked, instead of the script."""
    threads: dict[str, Json] = field(default_factory=dict)
    """The conversations that it holds, by the id of their last answer."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.paths.append(request.path_qs)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if request.headers.get("x-api-key") != KEY:
            return _refuse(401, "authentication_error", "invalid x-api-key")
        thread = body.get("thread") or {}
        if thread.get("type") == "continue":
            if thread["previous_message_id"] not in self.threads:
                return _refuse(404, "not_found_error", "no such thread", details={"error_code": "thread_not_found"})
            held = self.threads[thread["previous_message_id"]]
            body = {**held, **body, "messages": [*held["messages"], *body["messages"]]}
        problem = check(body, request)
        if problem:
            self.refused.append(problem)
            return _refuse(400, "invalid_request_error", problem)
        if request.path.endswith("/count_tokens"):
            return web.json_response({"input_tokens": 42})
        scripted = self.script.pop(0) if self.script else says("Nothing was scripted.")
        turn = self.choose(body) if self.choose else scripted
        if turn.status != 200:
            return _refuse(turn.status, turn.error, "scripted", turn.headers)
        if thread:
            turn = replace(turn, id=f"msg_{len(self.requests)}")
            said = {"role": "assistant", "content": list(turn.content)}
            self.threads[turn.id] = {**body, "messages": [*body["messages"], said]}
        if not body.get("stream"):
            return web.json_response(turn.message(), headers=turn.headers)
        return await self._stream(turn, request)

    async def _stream(self, turn: Answer, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **turn.headers})
        await response.prepare(request)
        for count, data in enumerate(turn.stream()):
            if count == turn.cut_after and request.transport is not None:
                request.transport.abort()
                return response
            if count == turn.fail_after:
                error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
                await response.write(f"event: error\ndata: {json.dumps(error)}\n\n".encode())
                return response
            await response.write(data)
        await response.write_eof()
        return response


@asynccontextmanager
async def messages_model(*script: Answer) -> AsyncIterator[FakeMessages]:
    """A fake upstream on a port of its own; its `url` is the base URL."""
    made = FakeMessages(script=list(script))
    async with serve(made.answer) as port:
        made.url = f"http://127.0.0.1:{port}/v1"
        yield made


def in_order(events: list[Json]) -> bool:
    """Whether events stand in the documented order: one block at a time, each begun, grown and ended."""
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    if kinds[0] != "message_start" or kinds[-2:] != ["message_delta", "message_stop"]:
        return False
    is_open, index = False, -1
    for event in events:
        if event["type"] == "content_block_start":
            if is_open or event["index"] != index + 1:
                return False
            is_open, index = True, event["index"]
        elif event["type"] in ("content_block_delta", "content_block_stop"):
            if not is_open or event["index"] != index:
                return False
            is_open = event["type"] == "content_block_delta"
    return not is_open


def check(body: Json, request: web.Request | None = None) -> str:
    """What Anthropic would refuse a request for; empty for a right one."""
    if request is not None and "anthropic-version" not in request.headers:
        return "anthropic-version: header is required"
    is_new = request is not None and request.headers["anthropic-version"] >= "2026-10-21"
    for name in ("temperature", "top_p", "top_k"):
        if is_new and name in body:
            return f"{name}: Extra inputs are not permitted"
    betas = request.headers.get("anthropic-beta", "") if request is not None else ""
    unknown = set(body) - _KNOWN - ({"thread"} if "message-threads" in betas else set())
    if unknown:
        return f"{sorted(unknown)[0]}: Extra inputs are not permitted"
    is_counting = request is not None and request.path.endswith("/count_tokens")
    if not isinstance(body.get("max_tokens"), int) and not is_counting:
        return "max_tokens: Field required"
    if not body.get("model") or not body.get("messages"):
        return "model and messages: Field required"
    if not 0 <= body.get("temperature", 0) <= 1:
        return "temperature: range: 0..1"
    if set(body.get("metadata") or {}) - {"user_id"}:
        return "metadata: Extra inputs are not permitted"
    for tool in body.get("tools") or ():
        is_custom = tool.get("type", "custom") == "custom"
        if not _NAME.fullmatch(tool.get("name", "")) or (is_custom and tool["input_schema"]["type"] != "object"):
            return f"tools: {tool!r}"
    if body.get("tool_choice") and not body.get("tools"):
        return "tool_choice may only be specified while providing tools"
    return _check_thinking(body) or _check_messages(body["messages"])


def _check_thinking(body: Json) -> str:
    """What does not go together with thinking."""
    thinking = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] not in ("enabled", "adaptive"):
        return ""
    if body.get("temperature", 1) != 1:
        return "`temperature` may only be set to 1 when thinking is enabled"
    if not 0.95 <= body.get("top_p", 1) <= 1:
        return "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled"
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        return "Thinking may not be enabled when tool_choice forces tool use."
    if thinking["type"] == "enabled" and not 1_024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
        return "thinking.enabled.budget_tokens: at least 1024, and less than max_tokens"
    return ""


def _check_messages(messages: list[Json]) -> str:
    waiting: set[str] = set()
    for number, message in enumerate(messages):
        role, content = message["role"], message["content"]
        # Instructions in the middle stand behind what a user said.
        if role == "system" and number and messages[number - 1]["role"] == "user":
            continue
        if role not in _BLOCKS:
            return f"messages.{number}.role: Input should be 'user' or 'assistant'"
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not content:
            return f"messages.{number}: all messages must have non-empty content"
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results != waiting:
            return f"messages.{number}: tool_use ids were found without tool_result blocks, or the other way round"
        for block in blocks:
            if block["type"] not in _BLOCKS[role]:
                return f"messages.{number}: Input tag {block['type']!r} was not expected"
            if block["type"] == "thinking" and not block.get("signature"):
                return f"messages.{number}: Invalid signature in thinking block"
            if block["type"] == "text" and not block["text"].strip():
                return f"messages.{number}: text content blocks must contain non-whitespace text"
            if block["type"] == "tool_use" and not _ID.fullmatch(block["id"]):
                return f"messages.{number}: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            if block["type"] == "server_tool_use" and not block["id"].startswith("srvtoolu_"):
                return f"messages.{number}: server_tool_use.id: String should match pattern '^srvtoolu_'"
            if block["type"] == "web_search_tool_result" and not all(map(_is_sealed, block["content"])):
                return f"messages.{number}: Invalid `encrypted_content` in `search_result` block"
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
    return "tool_use ids were found without tool_result blocks" if waiting else ""


def _is_sealed(hit: Any) -> bool:
    return isinstance(hit, dict) and hit.get("encrypted_content") == ENCRYPTED


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """A block as it begins, and its deltas."""
    kind = block["type"]
    if kind == "text":
        half = len(block["text"]) // 2
        texts = [block["text"][:half], block["text"][half:]]
        return {**block, "text": ""}, [{"type": "text_delta", "text": text} for text in texts]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if kind == "tool_use":
        text = json.dumps(block["input"])
        parts = ["", text[:5], text[5:]]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return block, []


def _refuse(
    status: int, kind: str, message: str, headers: dict[str, str] | None = None, details: Json | None = None
) -> web.Response:
    said: Json = {"type": kind, "message": message, **({"details": details} if details else {})}
    error = {"type": "error", "error": said, "request_id": "req_fake"}
    return web.json_response(error, status=status, headers=headers)
