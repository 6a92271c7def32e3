"""An OpenAI Chat Completions API as its documentation describes it, streaming only, that follows a script."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.fakes.llm.script import Script
from tests.fakes.web import serve

KEY = "sk-fake-key-for-tests"


@dataclass
class FakeChat:
    script: Script
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST" or request.path != "/v1/chat/completions":
            return web.json_response(_error(f"no {request.method} {request.path} here"), status=404)
        body = await request.json()
        problem = _problem(request, body)
        if problem:
            self.script.problems.append(problem)
            return web.json_response(_error(problem), status=400)
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        results = [json.dumps(message["content"]) for message in body["messages"] if message["role"] == "tool"]
        self.script.heard(json.dumps(body), tools, results)
        chosen = self.script.choose(tools, len(results))
        return await _stream(request, body["model"], chosen, self.script.final, len(results))


@asynccontextmanager
async def openai_chat(script: Script) -> AsyncIterator[FakeChat]:
    made = FakeChat(script)
    async with serve(made.answer) as port:
        made.url = f"http://127.0.0.1:{port}/v1"
        yield made


def _problem(request: web.Request, body: dict[str, Any]) -> str | None:
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return "no valid key"
    if not body.get("model") or not body.get("messages"):
        return "model and messages are required"
    if not body.get("stream"):
        return "this server only streams"
    calls = [call for message in body["messages"] for call in message.get("tool_calls") or []]
    told = {message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"}
    return None if {call["id"] for call in calls} == told else "every tool call needs its message"


async def _stream(request: web.Request, model: str, chosen: Any, final: str, done: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    delta: dict[str, Any] = {"role": "assistant", "content": final}
    if chosen:
        function = {"name": chosen[0], "arguments": json.dumps(chosen[1])}
        call = {"index": 0, "id": f"call_{done}", "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    ending = "tool_calls" if chosen else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    for choices, more in (
        ([{"index": 0, "delta": delta, "finish_reason": None}], {}),
        ([{"index": 0, "delta": {}, "finish_reason": ending}], {}),
        ([], {"usage": usage}),
    ):
        chunk = {"id": f"chatcmpl-{done}", "object": "chat.completion.chunk", "created": 1, "model": model}
        await response.write(f"data: {json.dumps({**chunk, 'choices': choices, **more})}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _error(message: str) -> dict[str, Any]:
    return {"error": {"type": "invalid_request_error", "message": message, "code": None, "param": None}}
