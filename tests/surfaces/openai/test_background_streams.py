"""Proves the streaming of background responses: followed from the start or any event, hung up on, taken up again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from holdfast.storage.database import Database
from tests.fakes.llm.model import FakeModel, calls, model, says
from tests.support.server import TestServer, serving
from tests.surfaces.openai.endpoint import connect

WEB: Any = {"type": "web_search_preview", "x_tools": ["calculator"]}


@pytest.fixture
async def client(server: TestServer, chat: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=chat, api_key=server.key, max_retries=0) as made:
        yield made


async def begun(client: AsyncOpenAI, **more: Any) -> Any:
    create: Any = client.responses.create
    return await create(model="any", input="What is it?", background=True, stream=True, **more)


async def resumed(client: AsyncOpenAI, id: str, after: int | None = None) -> list[Any]:
    retrieve: Any = client.responses.retrieve
    more = {} if after is None else {"starting_after": after}
    return [event async for event in await retrieve(id, stream=True, **more)]


@pytest.mark.slow
async def test_a_background_response_is_streamed_and_read_again_from_any_event(
    client: AsyncOpenAI, upstream: FakeModel
) -> None:
    upstream.script = [calls(("calculator", {"expression": "6*7"})), says("It is 42, I think.", pieces=6)]
    events = [event async for event in await begun(client, tools=[WEB])]
    types = [event.type for event in events]
    last = events[-1].response

    assert types[:3] == ["response.created", "response.queued", "response.in_progress"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "x_research.calculating" in types
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert (types[-1], last.status, last.output_text, text) == (
        "response.completed",
        "completed",
        text,
        "It is 42, I think.",
    )
    kept = await client.responses.retrieve(last.id)
    assert (kept.output_text, kept.background) == (text, True)
    for after in (None, 0, 7, len(events) - 2, len(events) - 1, len(events) + 5):
        again = await resumed(client, last.id, after)
        assert [event.model_dump() for event in again] == [
            event.model_dump() for event in events[0 if after is None else after + 1 :]
        ]


async def test_hanging_up_stops_nothing_and_the_stream_is_taken_up_while_it_is_made(
    client: AsyncOpenAI, upstream: FakeModel
) -> None:
    # The answer stalls until somebody hangs up upstream, which nobody does before the cancellation.
    upstream.script = [says("One two three four.", pieces=4, stall_after=3)]
    stream = await begun(client)
    seen: list[Any] = []
    async for event in stream:
        seen.append(event)
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    id, after = seen[0].response.id, seen[-1].sequence_number
    following = asyncio.create_task(resumed(client, id, after))
    cancelled = await client.responses.cancel(id)
    rest = await following
    assert cancelled.status == "cancelled"
    assert (rest[-1].type, rest[-1].response.status) == ("response.incomplete", "cancelled")
    assert [event.sequence_number for event in rest] == list(range(after + 1, after + 1 + len(rest)))
    await asyncio.wait_for(upstream.hung_up.wait(), 30)


async def test_a_response_that_fails_says_so_at_the_end_of_its_stream(client: AsyncOpenAI, upstream: FakeModel) -> None:
    refusal = {"error": {"message": "No such model.", "type": "invalid_request_error"}}
    upstream.script = [says("", status=404, body=refusal)]
    events = [event async for event in await begun(client)]
    assert events[-1].type == "response.failed"
    assert "No such model." in events[-1].response.error.message


@pytest.mark.slow
async def test_a_restart_goes_on_behind_what_was_told(database: Database) -> None:
    async with model(says("One two three four.", pieces=4, stall_after=3)) as upstream:
        async with serving(database, shutdown_seconds=0.1) as server:
            key, url = server.key, await connect(server, upstream)
            async with AsyncOpenAI(base_url=url, api_key=key, max_retries=0) as client:
                stream, seen = await begun(client), []
                async for event in stream:
                    seen.append(event)
                    if event.type == "response.output_text.delta":
                        break
                await stream.close()
        upstream.script = [says("Five six.")]
        async with serving(database) as server:
            url = f"{server.url}/{server.start.project_id}/main/v1"
            async with AsyncOpenAI(base_url=url, api_key=key, max_retries=0) as client:
                rest = await resumed(client, seen[0].response.id, seen[-1].sequence_number)
    numbers = [event.sequence_number for event in rest]
    assert numbers == list(range(seen[-1].sequence_number + 1, seen[-1].sequence_number + 1 + len(rest)))
    assert (rest[-1].type, rest[-1].response.output_text) == ("response.completed", "Five six.")
    # An item of the second attempt has a place of its own.
    assert {event.output_index for event in rest if event.type == "response.output_item.added"} == {1}


async def test_only_what_is_streamed_in_the_background_can_be_followed(
    server: TestServer, client: AsyncOpenAI, upstream: FakeModel
) -> None:
    upstream.otherwise = says("Yes.")
    whole = await client.responses.create(model="any", input="Hm?")
    retrieve: Any = client.responses.retrieve
    with pytest.raises(openai.BadRequestError) as refused:
        await retrieve(whole.id, stream=True)
    assert refused.value.param == "stream"
    async with server.client() as http:
        for query, field in (("starting_after=1", "starting_after"), ("stream=maybe", "stream")):
            wrong = await http.get(f"{client.base_url}responses/{whole.id}?{query}")
            assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, field)
    events = [event async for event in await begun(client)]
    second = await server.services.workspaces.create(server.owner, server.start.project_id, "Second")
    elsewhere: Any = client.with_options(default_headers={"X-Xerotier-Workspace": second.id}).responses.retrieve
    with pytest.raises(openai.NotFoundError):
        await elsewhere(events[0].response.id, stream=True)
