"""Proves tools that run here for an Anthropic client: told as its own server tools, and never in the way of a model."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from anthropic import AsyncAnthropic, PermissionDeniedError
from anthropic.types import Message

from holdfast.features.audit.model import AuditFilter
from holdfast.features.usage.model import UsageFilter
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm import messages as claude
from tests.fakes.llm.messages import FakeMessages
from tests.fakes.llm.model import FakeModel, calls, says
from tests.fakes.web import Site, html, site
from tests.fakes.web_search.searxng import FakeSearXNG, hit, searxng
from tests.support.server import TestServer, serving
from tests.surfaces.anthropic.wires import base_url, of_anthropic, of_openai, put, texts

Json = dict[str, Any]
HELLO: Json = {"model": "any", "max_tokens": 2048, "messages": [{"role": "user", "content": "When is high tide?"}]}
SEARCH: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
FETCH: Json = {"type": "web_fetch_20250910", "name": "web_fetch"}
WEATHER: Json = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


@pytest.fixture
async def engine() -> AsyncIterator[FakeSearXNG]:
    async with searxng() as made:
        yield made


@pytest.fixture
async def pages() -> AsyncIterator[Site]:
    async with site() as made:
        yield made


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, engine: FakeSearXNG, pages: Site) -> AsyncIterator[TestServer]:
    places = (engine.url.removeprefix("http://"), f"127.0.0.1:{pages.port}")
    async with serving(
        sqlite_database, web_search="searxng", web_search_url=engine.url, fetch_allow=places, upstream_allow=()
    ) as running:
        yield running


@pytest.fixture
async def client(
    server: TestServer, openai_upstream: FakeModel, anthropic_upstream: FakeMessages
) -> AsyncIterator[AsyncAnthropic]:
    """A client of the endpoint `other`; `claude` is in front of an Anthropic model."""
    await put(server, "other", of_openai(openai_upstream))
    await put(server, "claude", of_anthropic(anthropic_upstream))
    async with AsyncAnthropic(base_url=base_url(server, "other"), api_key=server.key, max_retries=0) as made:
        yield made


async def ask(client: AsyncAnthropic, stream: bool, **more: Any) -> Message:
    """One answer, either way; its events are the whole message."""
    if not stream:
        whole: Message = await client.messages.create(**{**HELLO, **more})
        return whole
    async with client.messages.stream(**{**HELLO, **more}) as events:
        return await events.get_final_message()


@pytest.mark.contract("XA-12")
@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_own_search_and_fetch_are_served_by_ours(
    client: AsyncAnthropic, openai_upstream: FakeModel, engine: FakeSearXNG, pages: Site, stream: bool
) -> None:
    url = f"http://127.0.0.1:{pages.port}/tides"
    engine.results = [hit("Tides", url, "High at six.")]
    pages.pages["/tides"] = html("<main><p>High tide is at six.</p></main>")
    openai_upstream.script = [
        calls(("web_search", {"query": "high tide"})),
        calls(("fetch_url", {"url": url})),
        says("At six."),
    ]
    message = await ask(client, stream, tools=[SEARCH, FETCH])

    blocks = [block.to_dict() for block in message.content]
    assert [block["type"] for block in blocks] == [
        *("server_tool_use", "web_search_tool_result", "server_tool_use", "web_fetch_tool_result", "text"),
    ]
    search, found, fetch, page = blocks[:4]
    assert (search["name"], search["input"]) == ("web_search", {"query": "high tide"})
    assert (fetch["name"], fetch["input"]) == ("web_fetch", {"url": url})
    assert str(search["id"]).startswith("srvtoolu_") and found["tool_use_id"] == search["id"]
    assert page["tool_use_id"] == fetch["id"]
    hits: Any = found["content"]
    assert [(each["type"], each["title"], each["url"]) for each in hits] == [("web_search_result", "Tides", url)]
    document: Any = page["content"]
    assert document["url"] == url and "High tide is at six." in document["content"]["source"]["data"]
    assert texts(message) == ["At six."] and message.stop_reason == "end_turn"
    ran = message.usage.server_tool_use
    assert ran is not None and (ran.web_search_requests, ran.web_fetch_requests) == (1, 1)
    # Three rounds at ten and five each.
    assert (message.usage.input_tokens, message.usage.output_tokens) == (30, 15)
    assert openai_upstream.refused == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_search_that_fails_is_told_as_one(
    client: AsyncAnthropic, openai_upstream: FakeModel, engine: FakeSearXNG, stream: bool
) -> None:
    engine.formats = ()
    openai_upstream.script = [calls(("web_search", {"query": "high tide"})), says("I could not look.")]
    message = await ask(client, stream, tools=[SEARCH])

    found: Any = message.content[1].to_dict()
    assert found["content"] == {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    assert texts(message) == ["I could not look."]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ({"type": "tool", "name": "web_search"}, {"type": "function", "function": {"name": "web_search"}}),
        ({"type": "tool", "name": "web_fetch"}, {"type": "function", "function": {"name": "fetch_url"}}),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
    ],
)
async def test_a_choice_of_a_server_tool_reaches_the_model_by_our_name(
    client: AsyncAnthropic, openai_upstream: FakeModel, choice: Json, sent: Any
) -> None:
    await ask(client, False, tools=[SEARCH, FETCH], tool_choice=choice)

    assert openai_upstream.requests[0]["tool_choice"] == sent
    assert openai_upstream.refused == []


@pytest.mark.contract("XA-12")
@pytest.mark.parametrize("by", ["metadata", "header"])
@pytest.mark.parametrize("stream", [False, True])
async def test_ours_run_here_and_the_clients_own_go_back_to_it(
    client: AsyncAnthropic, openai_upstream: FakeModel, by: str, stream: bool
) -> None:
    chosen: Json = {"extra_headers": {"X-Xerotier-Tools": "calculator"}}
    if by == "metadata":
        chosen = {"metadata": {"x_tools": ["calculator"], "user_id": "u1"}}
    openai_upstream.script = [
        calls(("calculator", {"expression": "6*7"}), content="First the sum."),
        calls(("weather", {"city": "Oslo"})),
        says("42, and it rains."),
    ]
    first = await ask(client, stream, tools=[WEATHER], **chosen)
    assert first.stop_reason == "tool_use"
    kinds = [block.type for block in first.content]
    assert kinds == ["text", "mcp_tool_use", "mcp_tool_result", "tool_use"]
    call = first.content[3]
    assert call.type == "tool_use" and call.input == {"city": "Oslo"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "Rain."}
    history = [
        *HELLO["messages"],
        {"role": "assistant", "content": [block.to_dict() for block in first.content]},
        {"role": "user", "content": [result]},
    ]
    second = await ask(client, stream, tools=[WEATHER], messages=history, **chosen)

    assert texts(second) == ["42, and it rains."]
    assert openai_upstream.refused == []
    assert not any("x_tools" in json.dumps(request) for request in openai_upstream.requests)


@pytest.mark.parametrize("name", ["claude", "other"])
async def test_what_ran_here_is_not_sent_to_a_model_that_never_asked_for_it(
    server: TestServer,
    client: AsyncAnthropic,
    openai_upstream: FakeModel,
    anthropic_upstream: FakeMessages,
    engine: FakeSearXNG,
    name: str,
) -> None:
    engine.results = [hit("Tides", "http://unreachable.example/", "High at six.")]
    openai_upstream.script = [
        calls(("web_search", {"query": "tide"}), ("calculator", {"expression": "6*7"})),
        says("At six."),
    ]
    first = await ask(client, False, tools=[SEARCH], metadata={"x_tools": ["calculator"]})
    assert len(first.content) == 5
    theirs = {"type": "server_tool_use", "id": "srvtoolu_theirs", "name": "web_search", "input": {}}
    sealed = {"type": "web_search_result", "title": "A", "url": "http://a", "encrypted_content": claude.ENCRYPTED}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_theirs", "content": [sealed]}
    history = [
        *HELLO["messages"],
        {"role": "assistant", "content": [*(block.to_dict() for block in first.content), theirs, found]},
        {"role": "user", "content": "Thanks."},
    ]
    async with client.with_options(base_url=base_url(server, name)) as plain:
        await ask(plain, False, messages=history)

    assert (anthropic_upstream.refused, openai_upstream.refused) == ([], [])
    if name == "claude":
        kept = anthropic_upstream.requests[0]["messages"][1]["content"]
        assert [block["type"] for block in kept] == ["text", "server_tool_use", "web_search_tool_result"]


async def test_a_turn_is_counted_limited_and_audited_as_on_the_other_wire(
    server: TestServer, client: AsyncAnthropic, openai_upstream: FakeModel
) -> None:
    openai_upstream.script = [calls(("calculator", {"expression": "6*7"})), says("42.")]
    await ask(client, False, metadata={"x_tools": ["calculator"], "x_chat_id": "sums"})
    services = server.services
    rows = await services.usage.report(server.owner, UsageFilter(source="chat"), ["model"])
    used = {(row.kind, row.model): row.amount for row in rows}
    reader = await server.mint("read", name="reader")
    async with client.with_options(api_key=reader.secret) as weak:
        with pytest.raises(PermissionDeniedError):
            await ask(weak, False)
    denied = await services.audit.list(server.owner, AuditFilter(outcome="denied"))

    assert (used["tokens_in", "fake-model"], used["tokens_out", "fake-model"]) == (20, 10)
    assert [event.action for event in denied.items] == ["chat"]
