"""Proves that what a request allows Anthropic's own server tools holds for ours, streamed and not."""

from typing import Any

import pytest
from anthropic import AsyncAnthropic, BadRequestError

from tests.fakes.llm.model import FakeModel, calls, says
from tests.fakes.web import Site, html
from tests.fakes.web_search.searxng import FakeSearXNG, hit
from tests.support.server import TestServer
from tests.surfaces.anthropic.test_server_tools import FETCH, SEARCH, ask, client, engine, pages, server
from tests.surfaces.anthropic.wires import texts

__all__ = ("client", "engine", "pages", "server")
Json = dict[str, Any]


def results(message: Any, kind: str) -> list[Any]:
    return [block.to_dict()["content"] for block in message.content if block.type == kind]


@pytest.mark.contract("XA-12")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("type", ["web_search_20250305", "web_search_20260209"])
async def test_a_search_beyond_max_uses_is_told_as_exceeded(
    client: AsyncAnthropic, openai_upstream: FakeModel, engine: FakeSearXNG, stream: bool, type: str
) -> None:
    engine.results = [hit("Tides", "http://unreachable.example/", "High at six.")]
    openai_upstream.script = [
        calls(("web_search", {"query": "high tide"})),
        calls(("web_search", {"query": "low tide"})),
        says("At six."),
    ]
    message = await ask(client, stream, tools=[{"type": type, "name": "web_search", "max_uses": 1}])

    first, second = results(message, "web_search_tool_result")
    assert [each["title"] for each in first] == ["Tides"]
    assert second == {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    assert texts(message) == ["At six."] and openai_upstream.refused == []


@pytest.mark.parametrize(
    ("limits", "seen"),
    [
        ({"allowed_domains": ["good.example"]}, ["good", "below"]),
        ({"allowed_domains": ["good.example/docs"]}, ["good"]),
        ({"blocked_domains": ["good.example"]}, ["bad", "alike"]),
    ],
)
async def test_hits_are_those_of_the_domains_that_are_allowed(
    client: AsyncAnthropic, openai_upstream: FakeModel, engine: FakeSearXNG, limits: Json, seen: list[str]
) -> None:
    engine.results = [
        hit("good", "http://good.example/docs/a", ""),
        hit("bad", "http://bad.example/", ""),
        hit("below", "http://www.good.example/", ""),
        hit("alike", "http://notgood.example/", ""),
    ]
    openai_upstream.script = [calls(("web_search", {"query": "high tide"})), says("At six.")]
    message = await ask(client, False, tools=[{**SEARCH, **limits}])

    [hits] = results(message, "web_search_tool_result")
    assert [each["title"] for each in hits] == seen
    shown = [tool["function"]["parameters"]["properties"] for tool in openai_upstream.requests[0]["tools"]]
    assert not any("allowed_domains" in properties for properties in shown)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_page_outside_of_the_domains_is_not_read(
    client: AsyncAnthropic, openai_upstream: FakeModel, pages: Site, stream: bool
) -> None:
    pages.pages["/tides"] = html("<main><p>High tide is at six.</p></main>")
    url = f"http://127.0.0.1:{pages.port}/tides"
    openai_upstream.script = [calls(("fetch_url", {"url": url})), says("I may not.")]
    message = await ask(client, stream, tools=[{**FETCH, "allowed_domains": ["good.example"]}])

    assert results(message, "web_fetch_tool_result") == [
        {"type": "web_fetch_tool_result_error", "error_code": "url_not_allowed"}
    ]


async def test_the_model_is_told_where_the_user_is(client: AsyncAnthropic, openai_upstream: FakeModel) -> None:
    where = {"type": "approximate", "city": "Bern", "country": "CH"}
    openai_upstream.script = [says("Sunny.")]
    await ask(client, False, tools=[{**SEARCH, "user_location": where}])

    told = [tool["function"]["description"] for tool in openai_upstream.requests[0]["tools"]]
    assert any("Bern, CH" in description for description in told)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"max_uses": 0}, "max_uses"),
        ({"allowed_domains": "good.example"}, "allowed_domains"),
        ({"allowed_domains": ["https://good.example"]}, "allowed_domains"),
        ({"allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}, "blocked_domains"),
    ],
)
async def test_limits_that_make_no_sense_are_refused_by_name(
    server: TestServer, client: AsyncAnthropic, wrong: Json, field: str
) -> None:
    with pytest.raises(BadRequestError, match=field):
        await ask(client, False, tools=[{**SEARCH, **wrong}])
