"""Proves turns on the wire: events in the stream, whole answers, errors, hang-ups, and the embedded default."""

import json
from typing import Any

import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from tests.fakes.llm.model import KEY, USAGE, FakeModel, calls, model, says
from tests.support.server import TestServer
from tests.surfaces.openai.endpoint import connect
from tests.surfaces.openai.test_passthrough import HELLO, until

SUM = {"messages": [{"role": "user", "content": "What is 6 * 7?"}], "web_search_options": {"x_tools": ["calculator"]}}


def events(text: str) -> list[dict[str, Any]]:
    """What a stream said, without its end."""
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.contract("XS-1")
async def test_a_turn_with_tools_streams_events_between_chunks(
    server: TestServer, upstream: FakeModel, chat: str
) -> None:
    upstream.script = [calls(("calculator", {"expression": "6*7"})), says("It is 42.")]
    async with server.client() as client:
        answer = await client.post(f"{chat}/chat/completions", json={**SUM, "stream": True})

    told = events(answer.text)
    kinds = [event["type"] for event in told if "type" in event]
    text = "".join(choice["delta"].get("content") or "" for event in told for choice in event["choices"])
    assert kinds[0] == "x_research.calculating"
    assert kinds[-1] == "x_chat.metadata"
    assert text == "It is 42."
    assert {event["object"] for event in told} == {"chat.completion.chunk"}
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert upstream.refused == []


@pytest.mark.parametrize("asked", [{}, {"stream_options": {"include_usage": True}}], ids=["not asked", "asked"])
@pytest.mark.parametrize("more", [{}, {"x_chat_id": "c"}], ids=["no chat", "chat"])
async def test_a_stream_tells_its_usage_once_and_last(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str, asked: Any, more: Any
) -> None:
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}
    upstream.script = [calls(("calculator", {"expression": "6*7"}), usage=usage), says("It is 42.", usage=usage)]
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/chat/completions", json={**SUM, "stream": True, **asked, **more})

    told = events(answer.text)
    assert [event for event in told if event.get("usage")] == told[-1:]
    assert told[-1]["type"] == "x_chat.metadata" and told[-1]["choices"] == []
    sums = {key: told[-1]["usage"][key] for key in usage}
    assert sums == {
        "prompt_tokens": 20,
        "completion_tokens": 10,
        "total_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 8},
    }


async def test_a_turn_with_tools_answers_whole(server: TestServer, upstream: FakeModel, chat: str) -> None:
    upstream.script = [calls(("calculator", {"expression": "6*7"})), says("It is 42.")]
    async with server.client() as client:
        answer = (await client.post(f"{chat}/chat/completions", json=SUM)).json()

    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "It is 42."
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["total_tokens"] > 0
    assert answer["x_events"][-1]["type"] == "x_chat.metadata"


async def test_names_with_dots_are_rewritten_on_the_way(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    tool = {"type": "function", "function": {"name": "files.read", "parameters": {"type": "object"}}}
    upstream.script = [calls(("files_read", {"path": "a"})), calls(("files_read", {"path": "a"}))]
    async with sqlite_server.client() as client:
        whole = await client.post(f"{sqlite_chat}/chat/completions", json={**HELLO, "tools": [tool]})
        streamed = await client.post(f"{sqlite_chat}/chat/completions", json={**HELLO, "tools": [tool], "stream": True})

    call = whole.json()["choices"][0]["message"]["tool_calls"][0]
    assert call["function"] == {"name": "files.read", "arguments": '{"path": "a"}'}
    names = [
        call["function"]["name"]
        for event in events(streamed.text)
        for choice in event["choices"]
        for call in choice["delta"].get("tool_calls") or ()
        if call["function"].get("name")
    ]
    assert names == ["files.read"]
    assert upstream.refused == []


async def test_a_turn_that_cannot_begin_is_refused_with_its_status(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    upstream.script = [says("", status=400, body={"error": {"message": "No.", "type": "invalid_request_error"}})]
    async with sqlite_server.client() as client:
        wrong = await client.post(f"{sqlite_chat}/chat/completions", json={**SUM, "n": 99, "stream": True})
        refused = await client.post(f"{sqlite_chat}/chat/completions", json={**SUM, "stream": True})

    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "n")
    assert (refused.status_code, refused.json()["error"]["message"]) == (400, "No.")


@pytest.mark.parametrize("stream", [True, False])
async def test_several_answers_use_tools_and_are_branches_of_the_chat(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str, stream: bool
) -> None:
    texts = iter(["It is 42.", "42 it is."])
    summing = calls(("calculator", {"expression": "6*7"}))
    upstream.choose = lambda body: says(next(texts)) if body["messages"][-1]["role"] == "tool" else summing
    body = {**SUM, "n": 2, "x_chat_id": "two", "stream": stream}
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/chat/completions", json=body)
        kept = await client.get(f"/api/workspaces/{sqlite_server.start.workspace_id}/chats/two/messages")
    told = events(answer.text) if stream else answer.json()["x_events"]
    said = {0: "", 1: ""}
    if stream:
        for choice in (choice for event in told for choice in event["choices"]):
            said[choice["index"]] += choice["delta"].get("content") or ""
    else:
        said = {choice["index"]: choice["message"]["content"] for choice in answer.json()["choices"]}
    assert sorted(said.values()) == ["42 it is.", "It is 42."]
    question, *answers = kept.json()["items"]
    assert {each["parent_id"] for each in answers} == {question["id"]}
    assert [each["message"]["content"] for each in answers] == [said[0], said[1]]
    assert told[-1]["message_ids"] == [each["id"] for each in answers]
    assert upstream.refused == []


async def test_two_equal_answers_are_one_branch_named_once(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    upstream.choose = lambda body: says("It is 42.")
    body = {**SUM, "n": 2, "x_chat_id": "twice"}
    async with sqlite_server.client() as client:
        answer = (await client.post(f"{sqlite_chat}/chat/completions", json=body)).json()
        kept = await client.get(f"/api/workspaces/{sqlite_server.start.workspace_id}/chats/twice/messages")
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["It is 42."] * 2
    _, only = kept.json()["items"]
    assert answer["x_events"][-1]["message_id"] == only["id"]
    assert "message_ids" not in answer["x_events"][-1]


async def test_a_turn_that_fails_in_the_middle_says_so_in_the_stream(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    upstream.script = [says("One two three.", pieces=3, cut_after=3)]
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/chat/completions", json={**SUM, "stream": True})

    last = [line for line in answer.text.splitlines() if line.startswith("data: ")][-1]
    assert json.loads(last[6:])["error"]["code"] == "upstream_cut"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_hangs_up_ends_the_turn(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str, stream: bool
) -> None:
    upstream.script = [says("One two three.", pieces=3, stall_after=3)]
    async with sqlite_server.client() as client:
        request = client.build_request("POST", f"{sqlite_chat}/chat/completions", json={**SUM, "stream": stream})
        if stream:
            answer = await client.send(request, stream=True)
            await answer.aclose()
        else:
            import asyncio

            asking = asyncio.create_task(client.send(request))
            await until(upstream.asked.is_set)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
    await until(upstream.hung_up.is_set)


async def test_the_default_endpoint_answers_from_the_workspaces_knowledge(server: TestServer) -> None:
    url = f"{server.url}/{server.start.project_id}/default/v1/chat/completions"
    async with server.client() as client:
        saved = await client.post(
            f"/api/workspaces/{server.start.workspace_id}/memories",
            json={"content": "The staging database runs on the host called heron.", "title": "Staging database"},
        )
        assert saved.is_success
        question = {"messages": [{"role": "user", "content": "Which host runs the staging database?"}]}
        answer = (await client.post(url, json=question)).json()
        total = (await client.post(url, json={"messages": [{"role": "user", "content": "What is 12*12?"}]})).json()
        streamed = await client.post(url, json={**question, "stream": True})

    said = answer["choices"][0]["message"]["content"]
    assert "heron" in said and "[1]" in said and "holdfast endpoints add" in said
    assert answer["model"] == "holdfast-extractive"
    assert "144" in total["choices"][0]["message"]["content"]
    assert "heron" in "".join(
        choice["delta"].get("content") or "" for event in events(streamed.text) for choice in event["choices"]
    )


async def test_a_chat_is_kept_by_body_and_by_header(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    upstream.script = [says("Hi."), says("Hi again.")]
    async with sqlite_server.client() as client:
        await client.post(f"{sqlite_chat}/chat/completions", json={**HELLO, "x_chat_id": "one"})
        await client.post(f"{sqlite_chat}/chat/completions", json=HELLO, headers={"X-Xerotier-Chat": "two"})
        wrong = await client.post(f"{sqlite_chat}/chat/completions", json={**HELLO, "x_chat_id": 7})

    page = await sqlite_server.services.chats.list(sqlite_server.owner, sqlite_server.start.workspace_id)
    assert {chat.id for chat in page.items} == {"one", "two"}
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "x_chat_id")


async def test_a_second_upstream_answers_when_the_first_is_away(sqlite_server: TestServer, upstream: FakeModel) -> None:
    from dataclasses import replace

    url = await connect(sqlite_server, upstream)
    services, owner, project_id = sqlite_server.services, sqlite_server.owner, sqlite_server.start.project_id
    endpoint = await services.endpoints.get(owner, project_id, "main")
    away = EndpointUpstream(base_url="http://127.0.0.1:9/v1", model="away")
    await services.endpoints.put(owner, project_id, "main", [away, replace(endpoint.upstreams[0], priority=1)])
    upstream.script = [says("Here.")]
    async with sqlite_server.client() as client:
        answer = await client.post(f"{url}/chat/completions", json=HELLO)

    assert answer.json()["choices"][0]["message"]["content"] == "Here."


@pytest.mark.one_process("each learns by itself how an upstream fares")
async def test_an_endpoint_with_a_second_upstream_does_not_feel_the_firsts_429(
    sqlite_server: TestServer, upstream: FakeModel
) -> None:
    upstream.otherwise = says("", status=429, headers={"retry-after": "3600"}, body={"error": {"message": "later"}})
    async with model() as second, sqlite_server.client() as client:
        second.otherwise = says("From the second.")
        url = await connect(sqlite_server, upstream)
        services, owner, start = sqlite_server.services, sqlite_server.owner, sqlite_server.start
        await services.secrets.set(owner, start.workspace_id, "SECOND_KEY", KEY)
        specs = [
            EndpointUpstream(base_url=upstream.url, model="a", key_secret="MODEL_KEY"),
            EndpointUpstream(base_url=second.url, model="b", key_secret="SECOND_KEY", priority=1),
        ]
        await services.endpoints.put(owner, start.project_id, "main", specs)
        asked = [HELLO, {**HELLO, "x_chat_id": "c"}, {**HELLO, "web_search_options": {"x_tools": ["calculator"]}}]
        answers = [await client.post(f"{url}/chat/completions", json=body) for body in (*asked, *asked)]
    told = [answer.json()["choices"][0]["message"]["content"] for answer in answers]
    assert told == ["From the second."] * 6
    assert len(upstream.requests) == 1


async def test_the_embedded_model_does_not_quote_what_its_own_chat_said(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    question = "Where do grey herons nest in spring?"
    upstream.script = [says("Grey herons nest in tall trees in spring.")]
    asked = {"model": "any", "messages": [{"role": "user", "content": question}]}
    default = sqlite_chat.replace("/main/", "/default/")
    async with sqlite_server.client() as client:
        await client.post(f"{sqlite_chat}/chat/completions", json={**asked, "x_chat_id": "birds"})
        same = await client.post(f"{default}/chat/completions", json={**asked, "x_chat_id": "birds"})
        other = await client.post(f"{default}/chat/completions", json={**asked, "x_chat_id": "else"})

    assert "tall trees" not in same.json()["choices"][0]["message"]["content"]
    assert "tall trees" in other.json()["choices"][0]["message"]["content"]


async def test_the_embedded_model_does_not_quote_its_own_reports(sqlite_server: TestServer, sqlite_chat: str) -> None:
    from holdfast.features.artifacts.model import NewArtifact

    workspace_id = sqlite_server.start.workspace_id
    for name in ("deep-think-20261116-120000.md", "herons.md"):
        text = f"Grey herons nest in tall trees in spring, says {name}."
        new = NewArtifact(name, "Herons", "text/markdown", text)
        await sqlite_server.services.artifacts.create(sqlite_server.owner, workspace_id, new)
    asked = {"model": "any", "messages": [{"role": "user", "content": "Where do grey herons nest in spring?"}]}
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat.replace('/main/', '/default/')}/chat/completions", json=asked)

    said = answer.json()["choices"][0]["message"]["content"]
    assert "says herons.md" in said
    assert "deep-think" not in said
