"""An OpenAI Responses API as its documentation describes it, streaming only, that follows a script."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.fakes.llm.script import Script
from tests.fakes.web import serve

WAIT = "list_mcp_resources"
MOST_WAITS = 30
KEY = "sk-fake-key-for-tests"


@dataclass
class FakeResponses:
    script: Script
    server: str
    """An MCP server of the client."""
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST" or request.path != "/v1/responses":
            return web.json_response(_error(f"no {request.method} {request.path} here"), status=404)
        body = await request.json()
        problem = _problem(request, body)
        if problem:
            self.script.problems.append(problem)
            return web.json_response(_error(problem), status=400)
        tools = _tools(body.get("tools", []))
        results = _results(body["input"])
        self.script.heard(json.dumps(body), list(tools), results)
        chosen = self.script.choose(list(tools), len(results))
        item = _message(self.script.final)
        if chosen:
            item = _call(tools[chosen[0]], chosen[1])
        elif len(results) < len(self.script.steps) and WAIT in tools and _waits(body["input"]) < MOST_WAITS:
            # Codex begins while its servers are still connecting; asking one for its resources waits for it.
            item = _call(tools[WAIT], {"server": self.server})
        return await _stream(request, item, len(results))


@asynccontextmanager
async def openai_responses(script: Script, server: str = "xerotier") -> AsyncIterator[FakeResponses]:
    made = FakeResponses(script, server)
    async with serve(made.answer) as port:
        made.url = f"http://127.0.0.1:{port}/v1"
        yield made


def _problem(request: web.Request, body: dict[str, Any]) -> str | None:
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return "no valid key"
    if not body.get("model") or not isinstance(body.get("input"), list):
        return "model and input are required"
    if not body.get("stream"):
        return "this server only streams"
    asked = {item["call_id"] for item in body["input"] if item["type"] == "function_call"}
    told = {item["call_id"] for item in body["input"] if item["type"] == "function_call_output"}
    return None if asked == told else "every function_call needs its output"


def _tools(tools: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Every function by its name; one in a namespace is called with the namespace."""
    found: dict[str, dict[str, Any]] = {}
    for tool in tools:
        if tool["type"] == "function":
            found[tool["name"]] = {"name": tool["name"]}
        elif tool["type"] == "namespace":
            for inner in tool["tools"]:
                found[f"{tool['name']}.{inner['name']}"] = {"name": inner["name"], "namespace": tool["name"]}
    return found


def _results(items: list[dict[str, Any]]) -> list[str]:
    calls = {item["call_id"]: item["name"] for item in items if item["type"] == "function_call"}
    told = [item for item in items if item["type"] == "function_call_output" and calls[item["call_id"]] != WAIT]
    return [json.dumps(item["output"]) for item in told]


def _waits(items: list[dict[str, Any]]) -> int:
    return sum(item["type"] == "function_call" and item["name"] == WAIT for item in items)


def _call(name: dict[str, Any], arguments: Any) -> dict[str, Any]:
    id = uuid.uuid4().hex
    call = {"type": "function_call", "id": f"fc_{id}", "call_id": f"call_{id}", "status": "completed"}
    return {**call, **name, "arguments": json.dumps(arguments)}


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_final", "role": "assistant", "status": "completed", "content": content}


async def _stream(request: web.Request, item: dict[str, Any], done: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    made = {"id": f"resp_{done}", "object": "response", "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": made},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**made, "status": "completed", "output": [item], "usage": usage}},
    ]
    for number, event in enumerate(events):
        data = json.dumps({**event, "sequence_number": number})
        await response.write(f"event: {event['type']}\ndata: {data}\n\n".encode())
    await response.write_eof()
    return response


def _error(message: str) -> dict[str, Any]:
    return {"error": {"type": "invalid_request_error", "message": message, "code": None, "param": None}}
