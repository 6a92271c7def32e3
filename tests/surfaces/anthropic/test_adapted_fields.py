"""Proves that a model is asked in the words that it takes, whoever asks and in whatever words they were."""

from typing import Any

import pytest
from anthropic import AsyncAnthropic, BadRequestError
from openai import AsyncOpenAI

from tests.fakes.llm.model import FakeModel, Turn, calls, says
from tests.support.server import TestServer
from tests.surfaces.anthropic.wires import base_url

# Each of several processes learns by itself what an upstream refuses.
pytestmark = [pytest.mark.contract("XA-12"), pytest.mark.one_process("each learns by itself what an upstream refuses")]

Json = dict[str, Any]
HELLO: Any = [{"role": "user", "content": "Hello"}]


def refuses(*texts: str) -> list[Turn]:
    return [Turn(status=400, body={"error": {"message": text}}) for text in texts]


async def test_a_limit_that_is_too_high_for_once_changes_nothing_for_others(
    translated: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    too_large = "'max_tokens' or 'max_completion_tokens' is too large: 20000."
    openai_upstream.script = refuses(too_large, too_large)
    with pytest.raises(BadRequestError, match="too large"):
        await translated.messages.create(model="m", max_tokens=20_000, messages=HELLO)
    await translated.messages.create(model="m", max_tokens=9, messages=HELLO)

    assert openai_upstream.requests[-1]["max_tokens"] == 9
    assert "max_completion_tokens" not in openai_upstream.requests[-1]


async def test_a_word_that_a_model_does_not_know_does_not_stand_for_all_others(
    translated: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    openai_upstream.script = refuses("'reasoning_effort' does not support 'low' with this model.")
    for effort in ("low", "high", "low"):
        await translated.messages.create(model="m", max_tokens=9, messages=HELLO, output_config={"effort": effort})

    efforts = [request.get("reasoning_effort") for request in openai_upstream.requests]
    assert efforts == ["low", None, "high", None]


async def test_a_turn_with_tools_that_run_here_is_asked_in_the_models_words_too(
    translated: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    openai_upstream.script = [
        *refuses("Unsupported parameter: 'max_tokens'", "Unsupported parameter: 'reasoning_effort'"),
        calls(("calculator", {"expression": "6*7"})),
        says("It is 42."),
    ]
    message = await translated.messages.create(
        model="m",
        max_tokens=9,
        messages=HELLO,
        output_config={"effort": "low"},
        extra_body={"metadata": {"x_tools": ["calculator"]}},
    )

    assert message.stop_reason == "end_turn"
    assert len(openai_upstream.requests) == 4
    for request in openai_upstream.requests[2:]:
        assert request["max_completion_tokens"] == 9 and not {"max_tokens", "reasoning_effort"} & set(request)


async def test_a_plain_server_is_asked_without_what_only_openai_takes(
    sqlite_server: TestServer, translated: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    openai_upstream.script = refuses(
        "max_completion_tokens: Extra inputs are not permitted", "stream_options: Extra inputs are not permitted"
    )
    url = f"{base_url(sqlite_server, 'translated')}/v1"
    async with AsyncOpenAI(base_url=url, api_key=sqlite_server.key, max_retries=0) as client:
        made = await client.responses.create(model="m", input="Hello", max_output_tokens=9)

    assert made.status == "completed" and made.usage is not None
    assert openai_upstream.requests[-1]["max_tokens"] == 9
    assert not {"max_completion_tokens", "stream_options"} & set(openai_upstream.requests[-1])
