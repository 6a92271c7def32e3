"""An endpoint of a server as it is really run: a model added while it serves, asked by a client, and hung up on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.e2e.test_up import run, up
from tests.fakes.llm.model import KEY, calls, model, says

pytestmark = [pytest.mark.slow, pytest.mark.contract("XS-1")]

QUESTION: Any = [{"role": "user", "content": "What is 6 * 7?"}]


async def test_a_model_is_connected_to_a_running_server(tmp_path: Path) -> None:
    with up(tmp_path) as (ready, _):
        async with model() as fake:
            await asyncio.to_thread(run, "secrets", "set", "K", "--value", KEY, "--data-dir", tmp_path)
            added = await asyncio.to_thread(
                run,
                *("endpoints", "add", "fast", "--base-url", fake.url, "--model", "fake-model"),
                *("--key-from", "K", "--data-dir", tmp_path, "--json"),
            )
            assert added.returncode == 0, added.stderr
            fake.script = [
                says("Whole."),
                says("In pieces.", pieces=3),
                calls(("calculator", {"expression": "6*7"})),
                says("It is 42.", pieces=2),
                says("Never ends.", pieces=3, stall_after=2),
            ]
            base = f"{ready['url']}/{ready['project_id']}"
            async with AsyncOpenAI(base_url=f"{base}/fast/v1", api_key=ready["api_key"], max_retries=0) as client:
                create: Any = client.chat.completions.create
                whole = await create(model="any", messages=QUESTION)
                pieces = await create(model="any", messages=QUESTION, stream=True)
                streamed = "".join([chunk.choices[0].delta.content or "" async for chunk in pieces if chunk.choices])
                tools = {"web_search_options": {"x_tools": ["calculator"]}}
                tooled = await create(model="any", messages=QUESTION, extra_body=tools)
                endless = await create(model="any", messages=QUESTION, stream=True)
                async for _ in endless:
                    break
                await endless.close()
                await asyncio.wait_for(fake.hung_up.wait(), 30)
            async with AsyncOpenAI(base_url=f"{base}/default/v1", api_key=ready["api_key"], max_retries=0) as client:
                embedded = await client.chat.completions.create(model="any", messages=QUESTION)

    assert whole.choices[0].message.content == "Whole."
    assert streamed == "In pieces."
    assert tooled.choices[0].message.content == "It is 42."
    assert "42" in (embedded.choices[0].message.content or "")
    assert fake.refused == []
