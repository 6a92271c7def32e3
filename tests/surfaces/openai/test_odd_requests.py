"""Proves that no request, however odd, is answered with a failure of ours; refusals have OpenAI's shape."""

from typing import Any

import pytest

from tests.fakes.llm.model import FakeModel, says
from tests.support.server import TestServer

QUESTION = {"role": "user", "content": "What is 1 + 1?"}
ODD: list[Any] = [
    None,
    7,
    True,
    "",
    "x",
    [],
    [7],
    [None],
    {},
    {"a": 1},
    [[]],
    [{}],
    -1,
    1e300,
    [{"role": "user", "content": [7]}],
    [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": "user", "content": {"a": 1}}],
    [{"role": "assistant", "content": None, "tool_calls": [7]}],
    [QUESTION, {"role": "assistant", "content": None, "tool_calls": [{"id": 7}]}],
    [QUESTION, {"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "c"}}]}],
    [{"role": "tool", "content": "x"}],
    [{"role": 7, "content": "x"}],
    [{"type": "function_call", "name": "a", "arguments": "{}"}],
    [{"type": "function_call_output", "call_id": "zz", "output": 7}],
    [{"type": "message", "role": "user", "content": "x"}, {"type": "reasoning"}, {"type": "weird"}],
    [{"type": "function", "function": {"name": 7}}],
    [{"type": "function", "function": {"name": "a b", "parameters": 7}}],
    [{"type": "file_search", "vector_store_ids": "x"}],
    [{"type": "file_search", "vector_store_ids": ["vs_none"]}],
    [{"type": "web_search_preview", "x_tools": 7}],
    [{"type": "namespace", "name": "n", "tools": 7}],
    {"type": "json_schema"},
    {"type": "function", "function": {"name": "nope"}},
]
CHAT = ("messages", "tools", "tool_choice", "web_search_options", "x_chat_id", "x_ask_user", "x_parent_message_id")
RESPONSES = ("input", "tools", "tool_choice", "instructions", "previous_response_id", "reasoning", "text", "metadata")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("endpoint", "path", "body", "fields"),
    [
        ("main", "chat/completions", {"messages": [QUESTION]}, CHAT[:4]),
        ("default", "chat/completions", {"messages": [QUESTION], "x_chat_id": "odd"}, CHAT),
        ("main", "responses", {"input": "What is 1 + 1?"}, RESPONSES),
    ],
    ids=["chat completions", "in a chat", "responses"],
)
async def test_an_odd_request_is_answered_or_refused_and_never_breaks_anything(
    sqlite_server: TestServer,
    upstream: FakeModel,
    sqlite_chat: str,
    endpoint: str,
    path: str,
    body: dict[str, Any],
    fields: tuple[str, ...],
) -> None:
    upstream.otherwise = says("It is 2.")
    url = f"{sqlite_chat.removesuffix('/main/v1')}/{endpoint}/v1/{path}"
    # Asking for research without the network would only wait; the calculator is as good a tool here.
    calculator = {"web_search_options": {"x_tools": ["calculator"]}}
    async with sqlite_server.client() as client:
        for field in fields:
            for odd in ODD:
                answer = await client.post(url, json={**calculator, **body, field: odd})
                assert answer.status_code in (200, 400, 404), (field, odd, answer.text)
                if answer.status_code != 200:
                    error = answer.json()["error"]
                    assert error["message"] and error["type"], (field, odd, answer.text)


async def test_a_message_that_is_no_object_is_named(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/chat/completions", json={"messages": [QUESTION, "Hello"]})
        tools = await client.post(f"{sqlite_chat}/chat/completions", json={"messages": [QUESTION], "tools": "x"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "messages[1]")
    assert tools.json()["error"]["message"].count("write a list of objects") == 1, "told twice"
    assert upstream.requests == []
