"""Proves who gets in, and that refusals have OpenAI's shape."""

import pytest

from tests.fakes.llm.model import FakeModel
from tests.support.server import TestServer, serving

HELLO = {"model": "any", "messages": [{"role": "user", "content": "Hello"}]}


async def test_refusals_have_openais_shape(server: TestServer, upstream: FakeModel, chat: str) -> None:
    reader = await server.mint("read", name="reader")
    other = await server.another_tenant()
    thief = await server.mint(owner=other.owner, project_id=other.project_id)
    async with server.client() as own, server.client(reader.secret) as weak, server.client(thief.secret) as foreign:
        answers = [
            await server.stranger().post(f"{chat}/chat/completions", json=HELLO),
            await weak.post(f"{chat}/chat/completions", json=HELLO),
            await foreign.post(f"{chat}/chat/completions", json=HELLO),
            await own.post(f"{server.url}/{server.start.project_id}/nowhere/v1/chat/completions", json=HELLO),
            await own.get(f"{chat}/chat/completions"),
            await own.post(f"{chat}/chat/completions", content=b"{"),
            await own.post(f"{chat}/chat/completions", json=[]),
            await own.post(f"{chat}/chat/completions", json={"messages": []}),
            await own.post(f"{chat}/chat/completions", json=HELLO, headers={"X-Xerotier-Workspace": "ws_nope"}),
        ]

    assert [answer.status_code for answer in answers] == [401, 403, 404, 404, 404, 400, 400, 400, 404]
    for answer in answers:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answers[0].json()["error"]["code"] == "invalid_api_key"
    assert answers[7].json()["error"]["param"] == "messages"
    assert upstream.requests == []


async def test_another_tenants_endpoint_is_not_found_like_one_that_is_not_there(server: TestServer, chat: str) -> None:
    other = await server.another_tenant()
    thief = await server.mint(owner=other.owner, project_id=other.project_id)
    missing = f"{server.url}/proj_{'0' * 32}/main/v1"
    async with server.client(thief.secret) as foreign:
        for path in ("/models", "/models/fake-model"):
            theirs, nobodys = await foreign.get(chat + path), await foreign.get(missing + path)
            assert (theirs.status_code, nobodys.status_code) == (404, 404)
            said = theirs.json()["error"]["message"].replace(server.start.project_id, "proj_" + "0" * 32)
            assert said == nobodys.json()["error"]["message"]


@pytest.mark.parametrize("limit", [3])
async def test_too_many_requests_are_told_when_to_come_back(sqlite_database: object, limit: int) -> None:
    async with serving(sqlite_database, chat_requests_per_minute=limit) as server, server.client() as client:  # type: ignore[arg-type]
        url = f"{server.url}/{server.start.project_id}/default/v1/models"
        answers = [await client.get(url) for _ in range(limit + 1)]

    assert [answer.status_code for answer in answers] == [200] * limit + [429]
    assert answers[-1].json()["error"] | {"message": ""} == {
        "message": "",
        "type": "rate_limit_error",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    assert int(answers[-1].headers["retry-after"]) >= 1


async def test_models_are_those_of_the_endpoint(server: TestServer, chat: str) -> None:
    default = f"{server.url}/{server.start.project_id}/default/v1"
    async with server.client() as client:
        mine = (await client.get(f"{chat}/models")).json()
        embedded = (await client.get(f"{default}/models")).json()
        one = (await client.get(f"{chat}/models/fake-model")).json()
        none = await client.get(f"{chat}/models/other")

    assert [model["id"] for model in mine["data"]] == ["fake-model"]
    assert [model["id"] for model in embedded["data"]] == ["holdfast-extractive"]
    assert one == mine["data"][0]
    assert none.status_code == 404


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("POST /completions", "Send `messages` to POST /chat/completions"),
        ("GET /chat/completions", "It takes POST."),
        ("POST /audio/speech", "/chat/completions, /embeddings, /responses"),
    ],
)
async def test_what_is_not_served_is_told_what_is(sqlite_server: TestServer, path: str, said: str) -> None:
    method, _, rest = path.partition(" ")
    url = f"{sqlite_server.url}/{sqlite_server.start.project_id}/default/v1{rest}"
    async with sqlite_server.client() as client:
        answer = await client.request(method, url, json={"model": "any", "prompt": "Hello", "messages": []})
    error = answer.json()["error"]
    assert answer.status_code == 404
    assert (error["type"], error["code"], error["param"]) == ("not_found_error", "not_found", None)
    assert error["message"].startswith(f"No operation '{path}' here. ") and said in error["message"]


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/{project}/chat/completions", "/{project}/default/responses", "/v1/messages"]
)
async def test_a_base_url_that_leaves_something_out_is_told_what_it_needs(sqlite_server: TestServer, path: str) -> None:
    path = path.replace("{project}", sqlite_server.start.project_id)
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_server.url}{path}", json=HELLO)
    assert answer.status_code == 404
    assert "/{project_id}/{endpoint}/v1" in answer.json()["error"]["message"]
