"""An Anthropic Messages API as its documentation describes it, streaming only, that follows a script."""

import json
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.fakes.llm.script import Script
from tests.fakes.web import serve

SEARCH = "ToolSearch"
MOST_SEARCHES = 30
KEY = "sk-ant-fake-key-for-tests"


@dataclass
class FakeAnthropic:
    script: Script
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/v1/messages/count_tokens":
            return web.json_response({"input_tokens": 100})
        if request.method != "POST" or request.path != "/v1/messages":
            return web.json_response(_error("not_found_error", request.path), status=404)
        body = await request.json()
        problem = _problem(request, body)
        if problem:
            self.script.problems.append(problem)
            return web.json_response(_error("invalid_request_error", problem), status=400)
        tools = [tool["name"] for tool in body.get("tools", [])]
        results = _results(body["messages"])
        self.script.heard(json.dumps(body), tools, results)
        chosen = self.script.choose(tools, len(results)) or self._search(body, tools, len(results))
        return await _stream(request, body["model"], chosen, self.script.final, len(results))

    def _search(self, body: dict[str, Any], tools: list[str], done: int) -> tuple[str, dict[str, Any]] | None:
        """Claude Code names most tools only, and loads what the model asks for."""
        if SEARCH not in tools:
            return None
        text = json.dumps(body)
        chosen = self.script.choose(re.findall(r"mcp__\w+", text), done)
        if chosen:
            return SEARCH, {"query": f"select:{chosen[0]}"}
        # Its servers may still be connecting at the first turn: asked for a tool that is not there, a search waits.
        if done < len(self.script.steps) and text.count(f'"name": "{SEARCH}"') < MOST_SEARCHES:
            return SEARCH, {"query": f"select:mcp__xerotier__{self.script.steps[done].tool.replace('.', '_')}"}
        return None


@asynccontextmanager
async def anthropic(script: Script) -> AsyncIterator[FakeAnthropic]:
    made = FakeAnthropic(script)
    async with serve(made.answer) as port:
        made.url = f"http://127.0.0.1:{port}"
        yield made


def _problem(request: web.Request, body: dict[str, Any]) -> str | None:
    if request.headers.get("x-api-key") != KEY and request.headers.get("authorization") != f"Bearer {KEY}":
        return "no valid key"
    if "anthropic-version" not in request.headers:
        return "anthropic-version is missing"
    if not isinstance(body.get("max_tokens"), int) or not body.get("model") or not body.get("messages"):
        return "model, max_tokens and messages are required"
    if not body.get("stream"):
        return "this server only streams"
    asked = {part["id"] for part in _parts(body["messages"]) if part["type"] == "tool_use"}
    told = {part["tool_use_id"] for part in _parts(body["messages"]) if part["type"] == "tool_result"}
    return None if asked == told else "every tool_use needs its tool_result"


def _parts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for message in messages if isinstance(message["content"], list) for part in message["content"]]


def _results(messages: list[dict[str, Any]]) -> list[str]:
    parts = _parts(messages)
    searches = {part["id"] for part in parts if part["type"] == "tool_use" and part["name"] == SEARCH}
    told = [part for part in parts if part["type"] == "tool_result" and part["tool_use_id"] not in searches]
    return [json.dumps(part.get("content", "")) for part in told]


async def _stream(request: web.Request, model: str, chosen: Any, final: str, done: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": f"msg_{done}", "type": "message", "role": "assistant", "model": model, "content": []}
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": final}
    if chosen:
        block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": chosen[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(chosen[1])}
    ending = {"stop_reason": "tool_use" if chosen else "end_turn", "stop_sequence": None}
    for event in (
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ):
        await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    await response.write_eof()
    return response


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}
