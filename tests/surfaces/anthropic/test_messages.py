"""Proves Anthropic's wire in front of each kind of model, with Anthropic's own client."""

from dataclasses import replace
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message, MessageParam, ToolParam

from holdfast.features.usage.model import UsageFilter
from tests.fakes.llm import messages as claude
from tests.fakes.llm.messages import FakeMessages
from tests.fakes.llm.model import FakeModel, calls, says
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url, of_openai, put

HELLO: list[MessageParam] = [{"role": "user", "content": "Hello"}]
WEATHER: ToolParam = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.mark.contract("XA-12")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_of_openais_wire_answers_an_anthropic_client(
    translated: AsyncAnthropic, openai_upstream: FakeModel, stream: bool
) -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 20}}
    openai_upstream.script = [says("Hello there.", usage=usage)]
    if stream:
        async with translated.messages.stream(model="any", max_tokens=50, messages=HELLO, system="Be kind.") as events:
            message: Message = await events.get_final_message()
    else:
        message = await translated.messages.create(model="any", max_tokens=50, messages=HELLO, system="Be kind.")

    assert [block.text for block in message.content if block.type == "text"] == ["Hello there."]
    assert (message.stop_reason, message.model) == ("end_turn", "any")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (10, 4)
    assert message.usage.cache_read_input_tokens == 20
    sent = openai_upstream.requests[0]
    assert sent["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]
    assert (sent["max_tokens"], sent["model"]) == (50, "fake-model")


async def test_events_come_in_the_documented_order(translated: AsyncAnthropic, openai_upstream: FakeModel) -> None:
    openai_upstream.script = [says("One two.", pieces=2)]
    seen = []
    async for event in await translated.messages.create(model="any", max_tokens=9, messages=HELLO, stream=True):
        seen.append(event.type)

    # The client passes over pings.
    assert seen == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


@pytest.mark.contract("XA-12")
@pytest.mark.parametrize("stream", [False, True])
async def test_parallel_tool_calls_and_their_results_travel_both_ways(
    translated: AsyncAnthropic, openai_upstream: FakeModel, stream: bool
) -> None:
    openai_upstream.script = [calls(("weather", {"city": "Bern"}), ("weather", {"city": "Rome"})), says("Both dry.")]
    if stream:
        async with translated.messages.stream(model="m", max_tokens=9, messages=HELLO, tools=[WEATHER]) as events:
            asked: Message = await events.get_final_message()
    else:
        asked = await translated.messages.create(model="m", max_tokens=9, messages=HELLO, tools=[WEATHER])
    used = [block for block in asked.content if block.type == "tool_use"]
    answer = await translated.messages.create(
        model="m",
        max_tokens=9,
        tools=[WEATHER],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        messages=[
            *HELLO,
            {"role": "assistant", "content": asked.content},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": used[0].id, "content": "dry"},
                    {
                        "type": "tool_result",
                        "tool_use_id": used[1].id,
                        "content": [{"type": "text", "text": "no idea"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "So?"},
                ],
            },
        ],
    )

    assert asked.stop_reason == "tool_use"
    assert [block.input for block in used] == [{"city": "Bern"}, {"city": "Rome"}]
    assert answer.content[0].type == "text" and answer.content[0].text == "Both dry."
    sent = openai_upstream.requests[1]
    assert (sent["tool_choice"], sent["parallel_tool_calls"]) == ("required", False)
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert sent["messages"][3]["content"] == "Error: no idea"
    assert openai_upstream.refused == []


@pytest.mark.contract("XA-12")
@pytest.mark.one_process("a report lacks the other's last second")
async def test_an_answer_of_anthropics_own_wire_is_relayed_byte_for_byte(
    sqlite_server: TestServer, relayed: AsyncAnthropic, anthropic_upstream: FakeMessages
) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    turn = claude.Answer([thought, {"type": "text", "text": "Hi."}])
    anthropic_upstream.script = [turn, turn]
    body = {"model": "any", "max_tokens": 9, "messages": HELLO, "service_tier": "auto", "stream": True}
    url = f"{base_url(sqlite_server, 'relayed')}/v1/messages?beta=true"
    async with sqlite_server.client(**{"anthropic-version": "2023-06-01", "anthropic-beta": "odd-1"}) as client:
        answer = await client.post(url, json=body)
    whole = await relayed.beta.messages.create(model="any", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])

    assert answer.content == b"".join(turn.stream())
    assert anthropic_upstream.requests[0] == {**body, "model": "claude-fake"}
    assert anthropic_upstream.paths == ["/v1/messages?beta=true", "/v1/messages"]
    assert anthropic_upstream.headers[0]["anthropic-beta"] == "odd-1"
    assert sqlite_server.key not in str(anthropic_upstream.headers)
    assert whole.content[0].type == "thinking" and whole.content[0].signature == "c2ln"
    rows = await sqlite_server.services.usage.report(sqlite_server.owner, UsageFilter(source="chat"), ["model"])
    found = {(row.kind, row.model): row.amount for row in rows}
    assert (found["tokens_in", "claude-fake"], found["tokens_out", "claude-fake"]) == (24, 10)


@pytest.mark.one_process("a report lacks the other's last second")
async def test_what_a_compaction_took_is_counted_too(
    sqlite_server: TestServer, relayed: AsyncAnthropic, anthropic_upstream: FakeMessages
) -> None:
    took = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    iterations = [
        {"type": "compaction", "input_tokens": 1_000, "output_tokens": 200, **took},
        {"type": "message", "input_tokens": 30, "output_tokens": 4, **took},
    ]
    usage = {"input_tokens": 30, "output_tokens": 4, **took, "iterations": iterations}
    anthropic_upstream.script = [claude.says("Hi.", usage=usage)]
    await relayed.messages.create(model="any", max_tokens=9, messages=HELLO)

    rows = await sqlite_server.services.usage.report(sqlite_server.owner, UsageFilter(source="chat"), ["model"])
    found = {(row.kind, row.model): row.amount for row in rows}
    assert (found["tokens_in", "claude-fake"], found["tokens_out", "claude-fake"]) == (1_030, 204)


@pytest.mark.contract("XA-12")
async def test_the_embedded_model_answers_too(embedded: AsyncAnthropic) -> None:
    async with embedded.messages.stream(model="any", max_tokens=99, messages=HELLO) as events:
        streamed = await events.get_final_message()
    whole = await embedded.messages.create(model="any", max_tokens=99, messages=HELLO)

    assert streamed.content[0].type == "text" and "holdfast endpoints add" in streamed.content[0].text
    assert whole.content[0].type == "text" and whole.content[0].text == streamed.content[0].text
    assert whole.usage.input_tokens > 0 and whole.usage.output_tokens > 0


async def test_tools_that_run_here_are_told_as_blocks(embedded: AsyncAnthropic) -> None:
    question: list[MessageParam] = [{"role": "user", "content": "What is 12 * 12?"}]
    message = await embedded.messages.create(model="any", max_tokens=99, messages=question)

    kinds = [block.type for block in message.content]
    assert kinds == ["mcp_tool_use", "mcp_tool_result", "text"], message.content
    assert message.stop_reason == "end_turn"


async def test_refusals_have_anthropics_shape(sqlite_server: TestServer, translated: AsyncAnthropic) -> None:
    bad: Any = [{"role": "user", "content": [{"type": "odd"}]}]
    with pytest.raises(anthropic.BadRequestError) as refused:
        await translated.messages.create(model="any", max_tokens=9, messages=bad)
    async with AsyncAnthropic(base_url=base_url(sqlite_server, "default"), api_key="xero_wrong") as stranger:
        with pytest.raises(anthropic.AuthenticationError) as unknown:
            await stranger.messages.create(model="any", max_tokens=9, messages=HELLO)
    with pytest.raises(anthropic.NotFoundError):
        await translated.models.retrieve("none-such")

    body = refused.value.response.json()
    assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error"
    assert "messages.0.content.0.type" in body["error"]["message"]
    assert body["request_id"] == refused.value.request_id
    assert unknown.value.response.json()["error"]["type"] == "authentication_error"


async def test_a_key_is_taken_from_either_header(sqlite_server: TestServer) -> None:
    url = f"{base_url(sqlite_server, 'default')}/v1/messages"
    body = {"model": "any", "max_tokens": 9, "messages": HELLO}
    async with sqlite_server.stranger() as client:
        by_key = await client.post(url, json=body, headers={"x-api-key": sqlite_server.key})
        by_bearer = await client.post(url, json=body, headers={"authorization": f"Bearer {sqlite_server.key}"})
        by_none = await client.post(url, json=body)

    assert (by_key.status_code, by_bearer.status_code, by_none.status_code) == (200, 200, 401)


async def test_limits_are_told_in_anthropics_names(translated: AsyncAnthropic) -> None:
    raw = await translated.messages.with_raw_response.create(model="any", max_tokens=9, messages=HELLO)

    assert raw.headers["anthropic-ratelimit-requests-limit"] == "6000"
    assert int(raw.headers["anthropic-ratelimit-requests-remaining"]) < 6000
    assert raw.headers["anthropic-ratelimit-requests-reset"].endswith("Z")


async def test_models_have_the_shape_of_the_client_that_asks(
    sqlite_server: TestServer, translated: AsyncAnthropic
) -> None:
    theirs = [model.id async for model in translated.models.list()]
    async with sqlite_server.client() as client:
        openais = (await client.get(f"{base_url(sqlite_server, 'translated')}/v1/models")).json()

    assert theirs == ["fake-model"]
    assert openais["object"] == "list"


async def test_models_come_in_pages_as_anthropics_client_asks_for_them(
    sqlite_server: TestServer, translated: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    several = [replace(of_openai(openai_upstream, place), model=f"model-{place}") for place in range(3)]
    await put(sqlite_server, "translated", *several)
    assert [model.id async for model in translated.models.list(limit=1)] == ["model-0", "model-1", "model-2"]
    first = await translated.models.list(limit=2)
    assert (first.has_more, first.first_id, first.last_id) == (True, "model-0", "model-1")
    before = await translated.models.list(limit=1, before_id="model-2")
    assert ([each.id for each in before.data], before.has_more) == (["model-1"], True)
    after = await translated.models.list(after_id="model-2")
    assert (after.data, after.has_more, after.first_id) == ([], False, None)
    for wrong in ({"limit": 0}, {"limit": 5000}, {"after_id": "none-such"}):
        with pytest.raises(anthropic.BadRequestError):
            await translated.models.list(**wrong)


async def test_tokens_are_counted_by_the_upstream_or_estimated(
    translated: AsyncAnthropic, relayed: AsyncAnthropic
) -> None:
    assert (await relayed.messages.count_tokens(model="any", messages=HELLO)).input_tokens == 42
    assert (await translated.messages.count_tokens(model="any", messages=HELLO)).input_tokens > 0
