"""Proves conversations that Anthropic's servers hold between turns, and what becomes of them where none is held."""

from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic, beta_async_tool

from tests.fakes.llm import messages as claude
from tests.fakes.llm.messages import FakeMessages
from tests.fakes.llm.model import FakeModel, calls, says
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url, of_anthropic, of_openai, put

HELLO: dict[str, Any] = {"model": "any", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}]}


@beta_async_tool
async def weather(city: str) -> str:
    """Tells the weather."""
    return f"Rain in {city}."


@pytest.mark.contract("XA-12")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_the_tool_runner_works_whether_a_conversation_is_held_or_not(
    translated: AsyncAnthropic,
    relayed: AsyncAnthropic,
    openai_upstream: FakeModel,
    anthropic_upstream: FakeMessages,
    kind: str,
    stream: bool,
) -> None:
    openai_upstream.script = [calls(("weather", {"city": "Oslo"})), says("Wet.")]
    anthropic_upstream.script = [claude.uses("weather", {"city": "Oslo"}), claude.says("Wet.")]
    client = translated if kind == "openai" else relayed
    runner: Any = client.beta.messages.tool_runner(**HELLO, tools=[weather], stream=stream)
    last = await runner.until_done()

    assert last.content[0].text == "Wet."
    assert (openai_upstream.refused, anthropic_upstream.refused) == ([], [])
    if kind == "anthropic":
        assert [request["thread"]["type"] for request in anthropic_upstream.requests] == ["create", "continue"]
        assert len(anthropic_upstream.requests[1]["messages"]) == 1, "what is held was sent again"


async def test_a_held_conversation_goes_on_with_another_model_when_its_own_is_away(
    sqlite_server: TestServer, anthropic_upstream: FakeMessages, openai_upstream: FakeModel
) -> None:
    await put(sqlite_server, "mixed", of_anthropic(anthropic_upstream), of_openai(openai_upstream, 1))
    anthropic_upstream.script = [
        claude.uses("weather", {"city": "Oslo"}),
        *[claude.Answer(status=529, error="overloaded_error", headers={"retry-after": "60"})] * 9,
    ]
    openai_upstream.script = [says("Wet.")]
    async with AsyncAnthropic(base_url=base_url(sqlite_server, "mixed"), api_key=sqlite_server.key) as client:
        runner: Any = client.beta.messages.tool_runner(**HELLO, tools=[weather])
        last = await runner.until_done()

    assert last.content[0].text == "Wet."
    assert [message["role"] for message in openai_upstream.requests[0]["messages"]] == ["user", "assistant", "tool"]


async def test_a_thread_is_refused_by_its_name_where_none_can_be_held(translated: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError) as refused:
        await translated.beta.messages.create(**HELLO, thread={"type": "create"})

    body: Any = refused.value.body
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request"}
    assert "thread" in body["error"]["message"]
