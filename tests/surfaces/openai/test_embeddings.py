"""Proves `/embeddings`: the upstream's, or the embedded ones."""

import base64

import numpy as np

from holdfast.features.usage.model import UsageFilter
from tests.fakes.llm.model import FakeModel, says
from tests.support.server import TestServer


def default(server: TestServer) -> str:
    return f"{server.url}/{server.start.project_id}/default/v1/embeddings"


async def test_without_an_upstream_the_embedder_of_search_answers(server: TestServer) -> None:
    async with server.client() as client:
        plain = await client.post(default(server), json={"model": "x", "input": ["a cat", "a dog"]})
        coded = await client.post(default(server), json={"model": "x", "input": "a cat", "encoding_format": "base64"})

    first, second = plain.json()["data"]
    assert (first["index"], second["index"], plain.json()["object"]) == (0, 1, "list")
    vector = np.frombuffer(base64.b64decode(coded.json()["data"][0]["embedding"]), "<f4")
    assert np.allclose(vector, first["embedding"])
    assert np.isclose(np.linalg.norm(vector), 1.0, atol=1e-3)
    assert plain.json()["usage"]["prompt_tokens"] > 0


async def test_what_cannot_be_embedded_is_refused_by_field(sqlite_server: TestServer) -> None:
    wrong = [
        {},
        {"input": ""},
        {"input": []},
        {"input": [1, 2]},
        {"input": ["a"] * 2049},
        {"input": "a" * 40_000},
        {"input": "a", "encoding_format": "int8"},
        {"input": "a", "dimensions": 7},
    ]
    async with sqlite_server.client() as client:
        answers = [await client.post(default(sqlite_server), json=body) for body in wrong]

    assert {answer.status_code for answer in answers} == {400}
    params = [answer.json()["error"]["param"] for answer in answers]
    assert params == ["input"] * 6 + ["encoding_format", "dimensions"]


async def test_an_upstream_gets_the_clients_own_body(
    sqlite_server: TestServer, upstream: FakeModel, sqlite_chat: str
) -> None:
    body = {"object": "list", "data": [], "usage": {"prompt_tokens": 7, "total_tokens": 7}, "odd": 1}
    upstream.script = [says("", body=body)]
    asked = {"model": "text-embedding-3-small", "input": "a cat", "odd": True}
    async with sqlite_server.client() as client:
        answer = await client.post(f"{sqlite_chat}/embeddings", json=asked)

    assert answer.json() == body
    assert upstream.requests == [asked]
    rows = await sqlite_server.services.usage.report(sqlite_server.owner, UsageFilter(source="chat"), ["source"])
    assert {row.kind: row.amount for row in rows} == {"requests": 1, "model_calls": 1, "tokens_in": 7}
