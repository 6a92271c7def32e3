"""The official OpenAI clients for Python and Node, through an endpoint to a strict upstream."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm.model import KEY, FakeModel, calls, model, says
from tests.support.server import TestServer, serving

NODE = Path(__file__).parents[3] / "tests" / "node"
NODE_PROGRAM = str(NODE / "node_modules" / ".bin" / "node")
QUESTION: Any = [{"role": "user", "content": "What is 6 * 7?"}]
CALCULATOR = {"web_search_options": {"x_tools": ["calculator"]}}

pytestmark = [pytest.mark.slow, pytest.mark.contract("XS-1")]


@pytest.fixture
async def upstream() -> AsyncIterator[FakeModel]:
    async with model() as fake:
        yield fake


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, upstream: FakeModel) -> AsyncIterator[TestServer]:
    """A server whose endpoint `main` is in front of the upstream."""
    async with serving(sqlite_database) as running:
        owner, start = running.owner, running.start
        await running.services.secrets.set(owner, start.workspace_id, "MODEL_KEY", KEY)
        spec = EndpointUpstream(base_url=upstream.url, model="fake-model", key_secret="MODEL_KEY")
        await running.services.endpoints.create(owner, start.project_id, "main", [spec])
        yield running


def base_url(server: TestServer, endpoint: str = "main") -> str:
    return f"{server.url}/{server.start.project_id}/{endpoint}/v1"


@pytest.fixture
async def client(server: TestServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=base_url(server), api_key=server.key, max_retries=0) as made:
        yield made


async def test_the_python_client_lists_asks_and_streams(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [says("It is 42."), says("It is 42, streamed.", pieces=4)]
    models = [each.id async for each in client.models.list()]
    whole = await client.chat.completions.create(model="any", messages=QUESTION)
    create: Any = client.chat.completions.create
    stream = await create(model="any", messages=QUESTION, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]

    assert models == ["fake-model"]
    assert whole.choices[0].message.content == "It is 42."
    assert whole.usage is not None and whole.usage.total_tokens > 0
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "It is 42, streamed."
    assert chunks[-1].usage is not None
    assert upstream.refused == []


@pytest.mark.contract("XS-7")
async def test_the_python_client_parses_every_event_of_a_turn(client: AsyncOpenAI, upstream: FakeModel) -> None:
    turns = [calls(("calculator", {"expression": "6*7"})), says("It is 42.", pieces=2)]
    upstream.script = [*turns, *turns]
    create: Any = client.chat.completions.create
    stream = await create(model="any", messages=QUESTION, stream=True, extra_body=CALCULATOR)
    chunks = [chunk async for chunk in stream]
    events = [chunk.model_dump().get("type") for chunk in chunks if "type" in chunk.model_dump()]
    async with client.chat.completions.stream(
        model="any",
        messages=QUESTION,
        extra_body=CALCULATOR,
    ) as helper:
        final = await helper.get_final_completion()

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == final.choices[0].message.content == "It is 42."
    assert events[0] == "x_research.calculating" and events[-1] == "x_chat.metadata"
    assert upstream.refused == []


async def test_the_python_client_gets_back_the_calls_of_its_own_tools(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [calls(("read_file", {"path": "a"}))]
    tool = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
    create: Any = client.chat.completions.create
    answer = await create(model="any", messages=QUESTION, tools=[tool], extra_body=CALCULATOR)
    (call,) = answer.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("read_file", {"path": "a"})
    assert answer.choices[0].finish_reason == "tool_calls"


async def test_the_python_client_knows_our_refusals(server: TestServer, client: AsyncOpenAI) -> None:
    reader = await server.mint("read", name="reader")
    create = client.chat.completions.create
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="xero_wrong").models.list()
    with pytest.raises(openai.PermissionDeniedError):
        await client.with_options(api_key=reader.secret).models.list()
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("other")
    with pytest.raises(openai.BadRequestError) as wrong:
        await create(model="any", messages=[])
    assert wrong.value.param == "messages"


async def test_the_python_client_gets_vectors_and_answers_without_any_upstream(server: TestServer) -> None:
    async with AsyncOpenAI(base_url=base_url(server, "default"), api_key=server.key, max_retries=0) as client:
        vectors = await client.embeddings.create(model="any", input=["a cat", "a dog"])
        answer = await client.chat.completions.create(model="any", messages=QUESTION)

    assert len(vectors.data) == 2 and len(vectors.data[0].embedding) > 10
    assert "42" in (answer.choices[0].message.content or "")


async def test_the_node_client(server: TestServer, upstream: FakeModel) -> None:
    turns = [calls(("calculator", {"expression": "6*7"})), says("It is 42.", pieces=2)]
    vectors = [{"object": "embedding", "index": index, "embedding": [0.5, 0.5]} for index in range(2)]
    embeddings = says("", body={"object": "list", "data": vectors, "model": "e", "usage": {"prompt_tokens": 1}})
    upstream.script = [says("It is 42."), says("Streamed.", pieces=3), *turns, *turns, embeddings]
    process = await asyncio.create_subprocess_exec(
        NODE_PROGRAM,
        "openai_chat.mjs",
        cwd=NODE,
        env={**os.environ, "TOUR": json.dumps({"url": base_url(server), "key": server.key})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, err.decode()[-3000:]

    seen = json.loads(out)
    assert seen["models"] == ["fake-model"]
    assert (seen["whole"], seen["streamed"]) == ("It is 42.", "Streamed.")
    assert seen["usage"] > 0
    assert (seen["tooled"], seen["helped"]) == ("It is 42.", "It is 42.")
    assert seen["events"][0] == "x_research.calculating" and seen["events"][-1] == "x_chat.metadata"
    assert seen["embeddings"] == 2
    assert seen["refused"] == ["AuthenticationError", 401, "invalid_api_key"]
    assert upstream.refused == []
