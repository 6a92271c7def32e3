"""Proves `/responses` with the official client: answers, streams, tools, conversations, background and refusals."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response, ResponseFunctionToolCall

from holdfast.features.identity.model import NewKey
from holdfast.storage.database import Database
from tests.fakes.llm.model import FakeModel, Turn, calls, says
from tests.support.server import TestServer, serving
from tests.surfaces.openai.endpoint import connect
from tests.surfaces.openai.test_passthrough import until

WEB: Any = {"type": "web_search_preview", "search_context_size": "medium", "x_tools": ["calculator"]}
READ: Any = {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}


def client_of(server: TestServer, url: str, key: str | None = None) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=url, api_key=key or server.key, max_retries=0)


@pytest.fixture
async def client(sqlite_server: TestServer, sqlite_chat: str) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(sqlite_server, sqlite_chat) as made:
        yield made


async def ended(client: AsyncOpenAI, response_id: str) -> Response:
    """A background response once it is over."""
    found: list[Response] = []

    async def over() -> bool:
        found.append(await client.responses.retrieve(response_id))
        return found[-1].status not in ("queued", "in_progress")

    await until_async(over)
    return found[-1]


async def until_async(condition: Any) -> None:
    import asyncio

    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.05)


@pytest.mark.contract("XS-1")
async def test_a_question_is_answered_and_kept(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [says("It is 42.")]
    answer = await client.responses.create(
        model="any", input="What is 6 * 7?", instructions="Be brief.", metadata={"a": "b"}, temperature=0.5
    )
    kept = await client.responses.retrieve(answer.id)
    items: Any = await client.responses.input_items.list(answer.id)

    assert answer.output_text == kept.output_text == "It is 42."
    assert (answer.status, answer.metadata, answer.temperature) == ("completed", {"a": "b"}, 0.5)
    assert answer.usage is not None and answer.usage.total_tokens == 15
    assert items.data[0].content[0].text == "What is 6 * 7?"
    assert upstream.requests[0]["messages"][0] == {"role": "system", "content": "Be brief."}
    assert upstream.refused == []


@pytest.mark.contract("XS-7")
async def test_the_client_parses_every_event_of_a_turn_with_tools(client: AsyncOpenAI, upstream: FakeModel) -> None:
    turns = [calls(("calculator", {"expression": "6*7"})), says("It is 42.", pieces=3)]
    upstream.script = [*turns, *turns, *turns]
    stream = await client.responses.create(model="any", input="What is 6 * 7?", tools=[WEB], stream=True)
    events: list[Any] = [event async for event in stream]
    async with client.responses.stream(model="any", input="What is 6 * 7?", tools=[WEB]) as helper:
        final = await helper.get_final_response()
    whole = await client.responses.create(model="any", input="What is 6 * 7?", tools=[WEB])

    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert next(kind for kind in kinds if kind.startswith("x_")) == "x_research.calculating"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.response.output_text == final.output_text == whole.output_text == "It is 42."
    assert last.response.usage.total_tokens == 30
    assert (whole.model_extra or {})["x_events"][-1]["type"] == "x_chat.metadata"
    assert upstream.refused == []


async def test_a_clients_own_calls_go_round_trip_with_namespaces(client: AsyncOpenAI, upstream: FakeModel) -> None:
    space: Any = {"type": "namespace", "name": "mcp__files", "description": "Files.", "tools": [READ]}
    upstream.script = [
        calls(("read", {"path": "a"}), ("mcp__files_read", {"path": "b"})),
        says("Both read."),
    ]
    first = await client.responses.create(model="any", input="Read both.", tools=[READ, space])
    asked = [item for item in first.output if isinstance(item, ResponseFunctionToolCall)]
    outputs: Any = [
        {"type": "function_call_output", "call_id": asked[0].call_id, "output": "A"},
        {
            "type": "function_call_output",
            "call_id": asked[1].call_id,
            "output": [{"type": "input_text", "text": "B"}],
        },
    ]
    second = await client.responses.create(
        model="any", input=outputs, previous_response_id=first.id, tools=[READ, space]
    )

    assert [(call.name, call.namespace) for call in asked] == [("read", None), ("read", "mcp__files")]
    assert second.output_text == "Both read."
    roles = [message["role"] for message in upstream.requests[1]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    assert upstream.refused == []


async def test_a_conversation_goes_on_from_what_was_kept(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [says("Hello Ada."), says("Ada."), says("Unkept.")]
    first = await client.responses.create(model="any", input="I am Ada.", instructions="Old rules.")
    second = await client.responses.create(model="any", input="Who am I?", previous_response_id=first.id)
    third = await client.responses.create(model="any", input="And?", previous_response_id=second.id, store=False)

    assert [message["content"] for message in upstream.requests[2]["messages"]] == [
        "I am Ada.",
        "Hello Ada.",
        "Who am I?",
        "Ada.",
        "And?",
    ]
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(third.id)
    await client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="any", input="Still?", previous_response_id=second.id)


async def test_a_streamed_response_can_be_gone_on_from(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [says("Hello."), says("Again.")]
    stream = await client.responses.create(model="any", input="Hi", stream=True)
    last: Any = [event async for event in stream][-1]
    again = await client.responses.create(model="any", input="More", previous_response_id=last.response.id)
    assert again.output_text == "Again."


async def test_a_background_response_is_answered_on_each_store(server: TestServer, upstream: FakeModel) -> None:
    upstream.script = [says("In the end.")]
    async with client_of(server, await connect(server, upstream)) as client:
        begun = await client.responses.create(model="any", input="Think.", background=True)
        over = await ended(client, begun.id)

    assert begun.status == "queued"
    assert (over.status, over.output_text, over.background) == ("completed", "In the end.", True)


async def test_a_background_response_is_kept_in_its_chat(
    sqlite_server: TestServer, client: AsyncOpenAI, upstream: FakeModel
) -> None:
    upstream.otherwise = says("Kept.")
    first = await client.responses.create(model="any", input="One.", background=True, extra_body={"x_chat_id": "trip"})
    await ended(client, first.id)
    named = {"X-Xerotier-Chat": "walk"}
    second = await client.responses.create(model="any", input="Two.", background=True, extra_headers=named)
    await ended(client, second.id)
    for chat_id, asked in (("trip", "One."), ("walk", "Two.")):
        workspace_id = sqlite_server.start.workspace_id
        _, messages, _ = await sqlite_server.services.chats.export(sqlite_server.owner, workspace_id, chat_id)
        assert [(message.role, message.message["content"]) for message in messages] == [
            ("user", asked),
            ("assistant", "Kept."),
        ]


async def test_a_background_response_is_cancelled(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [says("One two three.", stall_after=2)]
    begun = await client.responses.create(model="any", input="Think.", background=True)
    await until(upstream.asked.is_set)
    cancelled = await client.responses.cancel(begun.id)
    await until(upstream.hung_up.is_set)

    assert cancelled.status == (await client.responses.retrieve(begun.id)).status == "cancelled"
    assert (await client.responses.cancel(begun.id)).status == "cancelled"
    await client.responses.delete(begun.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(begun.id)


@pytest.mark.slow
async def test_a_background_response_survives_a_restart(sqlite_database: Database, upstream: FakeModel) -> None:
    upstream.script = [says("Never told.", stall_after=2), says("After the restart.")]
    async with serving(sqlite_database) as before:
        key = before.key
        async with client_of(before, await connect(before, upstream)) as client:
            begun = await client.responses.create(model="any", input="Think.", background=True)
            await until(upstream.asked.is_set)
    async with serving(sqlite_database) as after:
        url = f"{after.url}/{after.start.project_id}/main/v1"
        async with client_of(after, url, key) as client:
            over = await ended(client, begun.id)
    assert (over.status, over.output_text) == ("completed", "After the restart.")


async def test_a_revoked_key_stops_the_background_response_that_it_queued(
    sqlite_database: Database, upstream: FakeModel
) -> None:
    upstream.script = [says("Never told.", stall_after=2)]
    async with serving(sqlite_database) as before:
        new = NewKey(name="batch", project_id=before.start.project_id)
        minted = await before.services.keys.create(before.owner, new)
        async with client_of(before, await connect(before, upstream), minted.secret) as client:
            begun = await client.responses.create(model="any", input="Think.", background=True)
            await until(upstream.asked.is_set)
        await before.services.keys.revoke(before.owner, minted.key.id)
        owners = before.key
    async with serving(sqlite_database) as after:
        url = f"{after.url}/{after.start.project_id}/main/v1"
        async with client_of(after, url, owners) as client:
            over = await ended(client, begun.id)
    assert over.status == "failed" and over.error is not None
    assert "not allowed to any more" in over.error.message
    assert len(upstream.requests) == 1


async def test_a_removed_member_stops_the_background_response_that_they_queued(
    sqlite_database: Database, upstream: FakeModel
) -> None:
    upstream.script = [says("Never told.", stall_after=2)]
    async with serving(sqlite_database) as before:
        member = await before.services.identity.create_user(before.owner, email="eve@example.com", name="Eve")
        url = await connect(before, upstream)
        async with await before.browser(member.id) as eve:
            asked = await eve.post(f"{url}/responses", json={"model": "any", "input": "Think.", "background": True})
            await until(upstream.asked.is_set)
        await before.services.identity.remove_user(before.owner, member.id)
        owners = before.key
    async with (
        serving(sqlite_database) as after,
        client_of(after, f"{after.url}/{after.start.project_id}/main/v1", owners) as client,
    ):
        over = await ended(client, asked.json()["id"])
    assert over.status == "failed" and over.error is not None
    assert "not allowed to any more" in over.error.message
    assert len(upstream.requests) == 1


@pytest.mark.one_process("each learns by itself what an upstream refuses")
async def test_developer_messages_keep_their_role_unless_the_upstream_refuses_it(
    client: AsyncOpenAI, upstream: FakeModel
) -> None:
    told: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    upstream.script = [says("As it came.")]
    await client.responses.create(model="any", input=told)
    assert [message["role"] for message in upstream.requests[-1]["messages"]] == ["developer", "user"]

    def template(body: dict[str, Any]) -> Turn:
        if any(message["role"] == "developer" for message in body["messages"]):
            return says("", status=400, body={"error": {"message": "Unexpected message role.", "type": "x"}})
        return says("As system.")

    upstream.choose = template
    asked = len(upstream.requests)
    answers = [await client.responses.create(model="any", input=told) for _ in range(2)]
    assert [answer.output_text for answer in answers] == ["As system.", "As system."]
    roles = [[message["role"] for message in body["messages"]] for body in upstream.requests[asked:]]
    assert roles == [["developer", "user"], ["system", "user"], ["system", "user"]]


async def test_a_background_response_that_cannot_be_answered_failed(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.otherwise = says("", status=400, body={"error": {"message": "No.", "type": "invalid_request_error"}})
    begun = await client.responses.create(model="any", input="Think.", background=True)
    over = await ended(client, begun.id)
    assert over.status == "failed" and over.error is not None


async def test_what_fails_before_or_in_the_middle_is_told_as_such(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [
        says("", status=400, body={"error": {"message": "No.", "type": "invalid_request_error"}}),
        says("One two three.", pieces=3, cut_after=3),
    ]
    with pytest.raises(openai.BadRequestError):
        await client.responses.create(model="any", input="Hi", stream=True)
    stream = await client.responses.create(model="any", input="Hi", stream=True)
    last: Any = [event async for event in stream][-1]
    assert (last.type, last.response.status, last.response.error.code) == (
        "response.failed",
        "failed",
        "server_error",
    )


async def test_a_client_that_hangs_up_ends_the_turn(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [says("One two three.", pieces=3, stall_after=3)]
    stream = await client.responses.create(model="any", input="Hi", stream=True)
    await stream.close()
    await until(upstream.hung_up.is_set)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"input": 7}, "input"),
        ({"input": "x", "conversation": 7}, "conversation"),
        ({"input": "x", "conversation": "c", "previous_response_id": "r"}, "previous_response_id"),
        ({"input": "x", "prompt": {"id": "p"}}, "prompt"),
        ({"input": "x", "background": True, "store": False}, "store"),
        ({"input": "x", "previous_response_id": 7}, "previous_response_id"),
        ({"input": "x", "store": "yes"}, "store"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    sqlite_server: TestServer, sqlite_chat: str, body: dict[str, Any], field: str
) -> None:
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/responses", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)


async def test_others_do_not_see_a_response(sqlite_server: TestServer, client: AsyncOpenAI) -> None:
    mine = await client.responses.create(model="any", input="Hi")
    services, owner, start = sqlite_server.services, sqlite_server.owner, sqlite_server.start
    other = await services.workspaces.create(owner, start.project_id, "Other")
    narrow = await sqlite_server.mint("inference", workspace_ids=frozenset({other.id}), name="narrow")
    for work in (client.with_options(api_key=narrow.secret).responses,):
        with pytest.raises(openai.NotFoundError):
            await work.retrieve(mine.id)
        with pytest.raises(openai.NotFoundError):
            await work.delete(mine.id)
        with pytest.raises(openai.NotFoundError):
            await work.create(model="any", input="Go on", previous_response_id=mine.id)
    tenant = await sqlite_server.another_tenant()
    key = await sqlite_server.mint("inference", owner=tenant.owner, project_id=tenant.project_id, name="stranger")
    url = f"{sqlite_server.url}/{tenant.project_id}/default/v1"
    async with client_of(sqlite_server, url, key.secret) as stranger:
        with pytest.raises(openai.NotFoundError):
            await stranger.responses.retrieve(mine.id)


async def test_the_default_endpoint_answers_without_any_upstream(sqlite_server: TestServer) -> None:
    url = f"{sqlite_server.url}/{sqlite_server.start.project_id}/default/v1"
    async with client_of(sqlite_server, url) as client:
        answer = await client.responses.create(model="any", input="What is 12*12?")
    assert "144" in answer.output_text
