"""Proves conversations and references to items, with OpenAI's own client, on each store."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.fakes.llm.model import FakeModel, calls, says
from tests.support.server import TestServer

Json = dict[str, Any]


@pytest.fixture
async def client(server: TestServer, chat: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=chat, api_key=server.key, max_retries=0) as made:
        yield made


def said(request: Json) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in request["messages"]]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


async def test_a_conversation_has_every_response_made_in_it(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [says("Noted."), says("Blue."), says("Green.")]
    create: Any = client.responses.create
    made = await client.conversations.create(items=[user("I like blue.")], metadata={"topic": "colours"})  # type: ignore[list-item]
    first = await create(model="any", input="Remember it.", conversation=made.id)
    async with client.responses.stream(model="any", input="Which?", conversation={"id": made.id}) as stream:
        streamed = await stream.get_final_response()
    last = await create(model="any", input="And now?", conversation=made.id, store=False)

    assert (made.object, made.metadata) == ("conversation", {"topic": "colours"})
    assert (first.conversation.id, streamed.conversation and streamed.conversation.id) == (made.id, made.id)
    assert said(upstream.requests[-1]) == [
        ("user", "I like blue."),
        ("user", "Remember it."),
        ("assistant", "Noted."),
        ("user", "Which?"),
        ("assistant", "Blue."),
        ("user", "And now?"),
    ]
    items = [item async for item in client.conversations.items.list(made.id, limit=2, order="asc")]
    texts = [item.content[0].text for item in items if item.type == "message"]  # type: ignore[union-attr]
    assert texts == [text for _, text in said(upstream.requests[-1])] + ["Green."]
    newest = await client.conversations.items.list(made.id, limit=1)
    assert [item.id for item in newest.data] == [last.output[0].id]
    assert upstream.refused == []


async def test_items_are_added_shown_and_taken_out(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [says("Hm.")]
    create: Any = client.responses.create
    made = await client.conversations.create()
    added = await client.conversations.items.create(made.id, items=[user("One."), user("Two.")])  # type: ignore[list-item]
    one, two = (str(item.id) for item in added.data)
    shown: Any = await client.conversations.items.retrieve(one, conversation_id=made.id)
    await client.conversations.items.delete(one, conversation_id=made.id)
    changed = await client.conversations.update(made.id, metadata={"a": "b"})
    await create(model="any", input="Three.", conversation=made.id)

    assert shown.content[0].text == "One."
    assert (await client.conversations.retrieve(made.id)).metadata == changed.metadata == {"a": "b"}
    assert said(upstream.requests[-1]) == [("user", "Two."), ("user", "Three.")]
    with pytest.raises(openai.NotFoundError):
        await client.conversations.items.retrieve(one, conversation_id=made.id)
    assert (await client.conversations.delete(made.id)).deleted is True
    for gone in (client.conversations.retrieve(made.id), create(model="any", input="x", conversation=made.id)):
        with pytest.raises(openai.NotFoundError):
            await gone
    assert two


async def test_a_background_response_adds_to_its_conversation(client: AsyncOpenAI, upstream: FakeModel) -> None:
    upstream.script = [says("Later."), says("Yes.")]
    create: Any = client.responses.create
    made = await client.conversations.create()
    later = await create(model="any", input="Now.", conversation=made.id, background=True)
    while later.status in ("queued", "in_progress"):
        later = await client.responses.retrieve(later.id)
    await create(model="any", input="There?", conversation=made.id)
    assert said(upstream.requests[-1]) == [("user", "Now."), ("assistant", "Later."), ("user", "There?")]


async def test_items_are_referred_to_by_their_ids(client: AsyncOpenAI, upstream: FakeModel) -> None:
    tool: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    upstream.script = [calls(("look", {}), content="Looking."), says("Seen."), says("Again."), says("Once more.")]
    create: Any = client.responses.create
    first = await create(model="any", input="Look.", tools=[tool])
    message, call = first.output
    asked = (await client.responses.input_items.list(first.id)).data[0]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "A tower."}
    refer = [{"type": "item_reference", "id": each.id} for each in (asked, message, call)]
    second = await create(model="any", input=[*refer, output], tools=[tool])
    seen = said(upstream.requests[-1])
    assert seen == [("user", "Look."), ("assistant", "Looking."), ("tool", "A tower.")]
    # What a reference brought can be gone on from, and what is in the history already is not said twice.
    await create(model="any", input=[*refer, user("Sure?")], previous_response_id=second.id, tools=[tool])
    assert said(upstream.requests[-1]) == [*seen, ("assistant", "Seen."), ("user", "Sure?")]
    kept = await client.conversations.create(items=[user("Kept.")])  # type: ignore[list-item]
    (item,) = (await client.conversations.items.list(kept.id)).data
    await create(model="any", input=[{"type": "item_reference", "id": item.id}])
    assert said(upstream.requests[-1]) == [("user", "Kept.")]
    assert upstream.refused == []


async def test_what_is_not_kept_for_the_caller_is_named(
    server: TestServer, client: AsyncOpenAI, upstream: FakeModel, chat: str
) -> None:
    upstream.script = [says("Unkept."), says("Kept.")]
    create: Any = client.responses.create
    unkept, kept = [await create(model="any", input="Hi", store=store) for store in (False, True)]
    second = await server.services.workspaces.create(server.owner, server.start.project_id, "Second")
    elsewhere = client.with_options(default_headers={"X-Xerotier-Workspace": second.id})
    narrow = client.with_options(api_key=(await server.mint(workspace_ids=frozenset({second.id}))).secret)
    other: Any = elsewhere.responses.create
    narrowed: Any = narrow.responses.create
    for asks, id in (
        (create, unkept.output[0].id),
        (create, "msg_x"),
        (other, kept.output[0].id),
        (narrowed, kept.output[0].id),
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            await asks(model="any", input=[user("Hm."), {"type": "item_reference", "id": id}])
        assert refused.value.param == "input[1].id" and "store: false" in str(refused.value)
    assert len(upstream.requests) == 2


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("conversations", {"items": 7}, "items"),
        ("conversations", {"items": [{"type": "item_reference", "id": "msg_1"}]}, "items[0]"),
        ("conversations", {"metadata": {"a": 1}}, "metadata.a"),
        ("conversations", {"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ("responses", {"input": [{"type": "item_reference"}]}, "input[0].id"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    sqlite_server: TestServer, sqlite_chat: str, path: str, body: Json, field: str
) -> None:
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/{path}", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
