"""Proves clients and upstreams of different wires together, and fallback from one to the other."""

import json
from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message, MessageParam

from tests.fakes.llm import messages as claude
from tests.fakes.llm.messages import FakeMessages
from tests.fakes.llm.model import FakeModel, Turn, calls, says
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url, of_anthropic, of_openai, put

HELLO: list[MessageParam] = [{"role": "user", "content": "Hello"}]
FUNCTION = {"name": "look.up", "description": "Finds.", "parameters": {"type": "object", "properties": {}}}


def client_of(server: TestServer, name: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{base_url(server, name)}/v1", api_key=server.key, max_retries=0)


@pytest.mark.contract("XA-12")
@pytest.mark.parametrize("stream", [False, True])
async def test_an_openai_client_uses_an_anthropic_model(
    sqlite_server: TestServer, anthropic_upstream: FakeMessages, stream: bool
) -> None:
    await put(sqlite_server, "claude", of_anthropic(anthropic_upstream))
    anthropic_upstream.script = [claude.says("Good day.")]
    asked = {
        "model": "any",
        "temperature": 1.5,
        "stop": "END",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}],
    }
    async with client_of(sqlite_server, "claude") as client:
        if stream:
            options = {"include_usage": True}
            chunks = await client.chat.completions.create(**asked, stream=True, stream_options=options)  # type: ignore[call-overload]
            heard = [chunk async for chunk in chunks]
            text = "".join(chunk.choices[0].delta.content or "" for chunk in heard if chunk.choices)
            usage = heard[-1].usage
        else:
            whole = await client.chat.completions.create(**asked)  # type: ignore[call-overload]
            text, usage = whole.choices[0].message.content, whole.usage

    assert text == "Good day."
    assert (usage.prompt_tokens, usage.completion_tokens) == (12, 5)
    assert usage.prompt_tokens_details.cached_tokens == 3
    sent = anthropic_upstream.requests[0]
    assert sent["system"] == "Be kind." and sent["stop_sequences"] == ["END"] and sent["temperature"] == 1
    assert anthropic_upstream.refused == []


async def test_an_openai_clients_tools_are_called_by_an_anthropic_model(
    sqlite_server: TestServer, anthropic_upstream: FakeMessages
) -> None:
    await put(sqlite_server, "claude", of_anthropic(anthropic_upstream))
    anthropic_upstream.script = [claude.uses("look_up", {"word": "a"}), claude.says("Found.")]
    tools: Any = [{"type": "function", "function": FUNCTION}]
    messages: Any = [{"role": "user", "content": "Look."}]
    async with client_of(sqlite_server, "claude") as client:
        first = await client.chat.completions.create(model="m", messages=messages, tools=tools)
        call: Any = (first.choices[0].message.tool_calls or [])[0]
        messages += [first.choices[0].message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "a."}]
        second = await client.chat.completions.create(model="m", messages=messages, tools=tools)

    assert first.choices[0].finish_reason == "tool_calls"
    assert (call.function.name, json.loads(call.function.arguments)) == ("look.up", {"word": "a"})
    assert second.choices[0].message.content == "Found."
    assert anthropic_upstream.refused == []


async def test_what_anthropics_wire_cannot_say_is_refused_by_its_name(
    sqlite_server: TestServer, anthropic_upstream: FakeMessages
) -> None:
    await put(sqlite_server, "claude", of_anthropic(anthropic_upstream))
    async with client_of(sqlite_server, "claude") as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}], n=2)

    assert refused.value.param == "n"
    assert anthropic_upstream.requests == []


@pytest.mark.contract("XA-12")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_falls_back_from_one_wire_to_the_other(
    sqlite_server: TestServer, anthropic_upstream: FakeMessages, openai_upstream: FakeModel, stream: bool
) -> None:
    await put(sqlite_server, "mixed", of_anthropic(anthropic_upstream), of_openai(openai_upstream, 1))
    anthropic_upstream.script = [claude.Answer(status=529, error="overloaded_error")] * 9
    openai_upstream.script = [says("From the other."), says("Once more.")]
    async with AsyncAnthropic(base_url=base_url(sqlite_server, "mixed"), api_key=sqlite_server.key) as client:
        if stream:
            async with client.messages.stream(model="m", max_tokens=9, messages=HELLO) as events:
                message: Message = await events.get_final_message()
        else:
            message = await client.messages.create(model="m", max_tokens=9, messages=HELLO)
    async with client_of(sqlite_server, "mixed") as other:
        chat = await other.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])

    assert message.content[0].type == "text" and message.content[0].text == "From the other."
    assert chat.choices[0].message.content == "Once more."


async def test_an_openai_client_falls_back_to_an_anthropic_model(
    sqlite_server: TestServer, anthropic_upstream: FakeMessages, openai_upstream: FakeModel
) -> None:
    await put(sqlite_server, "mixed", of_openai(openai_upstream), of_anthropic(anthropic_upstream, 1))
    openai_upstream.otherwise = Turn(status=503)
    anthropic_upstream.script = [claude.says("Here.")]
    async with client_of(sqlite_server, "mixed") as client:
        chat = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])

    assert chat.choices[0].message.content == "Here."


async def test_thoughts_are_kept_for_who_signed_them_and_dropped_for_others(
    sqlite_server: TestServer,
    translated: AsyncAnthropic,
    relayed: AsyncAnthropic,
    anthropic_upstream: FakeMessages,
    openai_upstream: FakeModel,
) -> None:
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    unsigned = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    said = {"type": "text", "text": "Hi."}
    history: Any = [
        *HELLO,
        {"role": "assistant", "content": [signed, said]},
        *HELLO,
        {"role": "assistant", "content": [unsigned, said]},
        *HELLO,
    ]
    for client in (translated, relayed):
        await client.messages.create(model="m", max_tokens=9, messages=history)

    assert "thinking" not in json.dumps(openai_upstream.requests[0])
    assert anthropic_upstream.requests[0]["messages"][1]["content"] == [signed, said]
    assert anthropic_upstream.requests[0]["messages"][3]["content"] == [said]


async def test_thoughts_of_another_model_are_shown_where_they_were_asked_for(
    translated: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    deltas = [{"reasoning_content": "Let me "}, {"reasoning_content": "see."}, {"content": "Yes."}]
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
    openai_upstream.script = [Turn(chunks=chunks), Turn(chunks=chunks), Turn(chunks=chunks)]
    async with translated.messages.stream(
        model="m", max_tokens=9, messages=HELLO, thinking={"type": "adaptive"}, output_config={"effort": "max"}
    ) as events:
        asked = await events.get_final_message()
    async with translated.messages.stream(
        model="m", max_tokens=9, messages=HELLO, thinking={"type": "adaptive", "display": "omitted"}
    ) as events:
        omitted = await events.get_final_message()
    async with translated.messages.stream(model="m", max_tokens=9, messages=HELLO) as events:
        plain = await events.get_final_message()

    assert [block.type for block in asked.content] == ["thinking", "text"]
    assert asked.content[0].type == "thinking" and asked.content[0].thinking == "Let me see."
    assert asked.stop_reason == "max_tokens"
    assert asked.usage.input_tokens > 0 and asked.usage.output_tokens > 0
    assert [block.type for block in plain.content] == [block.type for block in omitted.content] == ["text"]
    assert openai_upstream.requests[0]["reasoning_effort"] == "high"


@pytest.mark.one_process("each learns by itself what an upstream refuses")
async def test_fields_that_a_model_refuses_by_name_are_said_otherwise_from_then_on(
    translated: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    refusals = ["Unsupported parameter: 'max_tokens'", "Unrecognized request argument supplied: reasoning_effort"]
    openai_upstream.script = [Turn(status=400, body={"error": {"message": text}}) for text in refusals]
    for _ in range(2):
        message = await translated.messages.create(
            model="m", max_tokens=9, messages=HELLO, output_config={"effort": "low"}
        )
        assert message.stop_reason == "end_turn"

    assert len(openai_upstream.requests) == 4
    last = openai_upstream.requests[-1]
    assert last["max_completion_tokens"] == 9 and not {"max_tokens", "reasoning_effort"} & set(last)


async def test_the_billing_line_that_always_changes_reaches_no_upstream(
    translated: AsyncAnthropic, relayed: AsyncAnthropic, anthropic_upstream: FakeMessages, openai_upstream: FakeModel
) -> None:
    for client in (translated, relayed):
        await client.messages.create(
            model="m",
            max_tokens=9,
            messages=HELLO,
            system=[
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=9f3a1;"},
                {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
            ],
        )

    assert openai_upstream.requests[0]["messages"][0] == {"role": "system", "content": "Be kind."}
    kept = [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
    assert anthropic_upstream.requests[0]["system"] == kept


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_tool_runs_here_for_an_anthropic_client_of_any_model(
    sqlite_server: TestServer,
    anthropic_upstream: FakeMessages,
    relayed: AsyncAnthropic,
    openai_upstream: FakeModel,
    translated: AsyncAnthropic,
    stream: bool,
) -> None:
    openai_upstream.script = [calls(("calculator", {"expression": "6*7"})), says("It is 42.")]
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "calculator", "input": {"expression": "6*7"}}
    anthropic_upstream.script = [claude.Answer([thought, use], stop_reason="tool_use"), claude.says("It is 42.")]
    for client in (translated, relayed):
        message = await client.messages.create(
            model="m",
            max_tokens=2048,
            messages=HELLO,
            thinking={"type": "adaptive"},
            extra_body={"metadata": {"x_tools": ["calculator"]}},
        )
        blocks = [block.to_dict() for block in message.content if block.type != "thinking"]
        assert [block["type"] for block in blocks] == ["mcp_tool_use", "mcp_tool_result", "text"]
        assert "42" in json.dumps(blocks[1])

    assert anthropic_upstream.requests[1]["messages"][1]["content"][0] == thought
    assert (anthropic_upstream.refused, openai_upstream.refused) == ([], [])


async def test_a_stream_that_breaks_ends_with_an_error_event(
    sqlite_server: TestServer,
    translated: AsyncAnthropic,
    relayed: AsyncAnthropic,
    anthropic_upstream: FakeMessages,
    openai_upstream: FakeModel,
) -> None:
    openai_upstream.script = [says("One two three.", cut_after=2)]
    anthropic_upstream.script = [claude.says("One two.", cut_after=4)]
    for client in (translated, relayed):
        with pytest.raises(anthropic.APIStatusError) as broken:
            async with client.messages.stream(model="m", max_tokens=9, messages=HELLO) as events:
                await events.get_final_message()
        assert "api_error" in str(broken.value.body)


async def test_a_chat_is_kept_for_an_anthropic_client(
    sqlite_server: TestServer, translated: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    openai_upstream.script = [says("Noted.")]
    await translated.messages.create(
        model="m", max_tokens=9, messages=HELLO, extra_headers={"x-xerotier-chat": "chat-of-claude"}
    )
    path = f"/api/workspaces/{sqlite_server.start.workspace_id}/chats/chat-of-claude/messages"
    async with sqlite_server.client() as client:
        kept = (await client.get(path)).json()["items"]

    assert [message["role"] for message in kept] == ["user", "assistant"], kept
