"""Proves memories and search over REST, through the whole server: keys, gate, models, errors."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.server import TestServer


@dataclass(frozen=True, slots=True)
class Rest:
    """A client with a key, and where its memories live."""

    client: httpx.AsyncClient
    base: str

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.client.request(method, self.base + path, **options)

    async def save(self, content: str, **fields: Any) -> dict[str, Any]:
        answer = await self.call("POST", "/memories", json={"content": content, **fields})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())


@pytest.fixture
async def rest(sqlite_server: TestServer) -> AsyncIterator[Rest]:
    async with sqlite_server.client() as client:
        yield Rest(client, f"/api/workspaces/{sqlite_server.start.workspace_id}")


async def test_a_memory_is_saved_read_edited_retracted_and_removed(rest: Rest) -> None:
    saved = await rest.save("The queue is RabbitMQ", tags=["infra"], occurred_at="2026-01-05")
    assert (saved["status"], saved["slug"], saved["category"]) == ("saved", "the-queue-is-rabbitmq", "fact")
    by_slug = (await rest.call("GET", "/memories/the-queue-is-rabbitmq")).json()
    by_id = (await rest.call("GET", f"/memories/{saved['memory_id']}")).json()
    assert by_slug == by_id
    assert by_slug["occurred_at"] == "2026-01-05T00:00:00.000Z"
    assert (by_slug["trust"], by_slug["tags"], by_slug["revision"]) == ("agent", ["infra"], 1)
    edited = await rest.call("PATCH", "/memories/the-queue-is-rabbitmq", json={"content": "The queue is NATS"})
    assert (edited.status_code, edited.json()["revision"]) == (200, 2)
    history = (await rest.call("GET", "/memories/the-queue-is-rabbitmq/history")).json()
    assert [each["content"] for each in history["items"]] == ["The queue is RabbitMQ"]
    gone = await rest.call("POST", "/memories/the-queue-is-rabbitmq/retract", json={"note": "replaced"})
    assert (gone.json()["status"], gone.json()["status_note"]) == ("retracted", "replaced")
    assert (await rest.call("GET", "/memories")).json() == {"items": [], "next_cursor": None}
    assert len((await rest.call("GET", "/memories", params={"status": "any"})).json()["items"]) == 1
    assert (await rest.call("DELETE", "/memories/the-queue-is-rabbitmq")).status_code == 204
    assert (await rest.call("GET", "/memories/the-queue-is-rabbitmq")).status_code == 404


async def test_a_repetition_answers_with_the_existing_memory(rest: Rest) -> None:
    first = await rest.save("Standup is at nine")
    second = await rest.save("standup is at nine.")
    assert (second["status"], second["memory_id"]) == ("duplicate", first["memory_id"])


async def test_what_is_refused_says_why_and_does_not_repeat_a_credential(rest: Rest) -> None:
    secret = "AKIA" + "QYLPMN5HHHFPZAM2"
    answer = await rest.call("POST", "/memories", json={"content": f"use {secret}"})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "memory_rejected"
    assert "AWS" in answer.json()["error"]["message"]
    assert secret not in answer.text
    long = await rest.call("POST", "/memories", json={"content": "many words " * 5_000})
    assert long.status_code == 422
    assert "2,000 words" in long.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "options", "field"),
    [
        ("POST", "/memories", {"json": {}}, "content"),
        ("POST", "/memories", {"json": {"content": "x y z", "occurred_at": "yesterday"}}, "occurred_at"),
        ("POST", "/memories", {"json": {"content": "x y z", "colour": "red"}}, "colour"),
        ("GET", "/memories", {"params": {"limit": "0"}}, "limit"),
        ("GET", "/memories", {"params": {"cursor": "nonsense"}}, "cursor"),
        ("GET", "/search", {}, "q"),
        ("GET", "/search", {"params": {"q": "x", "types": "poems"}}, "types"),
        ("GET", "/search", {"params": {"q": "x", "as_of": "whenever"}}, "as_of"),
    ],
)
async def test_a_wrong_field_is_named(rest: Rest, method: str, path: str, options: dict[str, Any], field: str) -> None:
    answer = await rest.call(method, path, **options)
    assert answer.status_code == 422
    assert [wrong["field"] for wrong in answer.json()["error"]["fields"]] == [field]


async def test_recall_and_search_find_what_was_saved(rest: Rest) -> None:
    old = await rest.save("The office is in Berlin", occurred_at="2024-01-01")
    await rest.save("The office moved to Munich", occurred_at="2025-06-01", supersedes=old["slug"])
    now = (await rest.call("POST", "/memories/recall", json={"query": "where is the office"})).json()["items"]
    assert [each["content"] for each in now] == ["The office moved to Munich"]
    assert 0 <= now[0]["relevance"] <= 1
    body = {"query": "where is the office", "as_of": "2024-07-01"}
    then = (await rest.call("POST", "/memories/recall", json=body)).json()["items"]
    assert [each["content"] for each in then] == ["The office is in Berlin"]
    found = (await rest.call("GET", "/search", params={"q": "office", "types": "memory,decision", "limit": "5"})).json()
    assert [(each["type"], each["slug"]) for each in found["items"]] == [("memory", "the-office-moved-to-munich")]
    then = (await rest.call("GET", "/search", params={"q": "office", "as_of": "2024-07-01"})).json()["items"]
    assert [each["slug"] for each in then] == [old["slug"]]


async def test_a_search_tells_what_made_the_place_of_each_result_where_that_is_asked_for(rest: Rest) -> None:
    await rest.save("Ann: I moved my desk to the office in Munich!")
    await rest.save("The office is open on Mondays")
    asked = {"q": "where is the office of Ann"}
    plain: list[dict[str, object]] = []
    async with asyncio.timeout(60):
        # Both are found once what was saved while the model was loaded has its vectors.
        while len(plain) < 2:
            plain = (await rest.call("GET", "/search", params=asked)).json()["items"]
    assert all("explanation" not in each for each in plain)
    told = (await rest.call("GET", "/search", params=asked | {"explain": "true"})).json()["items"]
    assert [each["id"] for each in told] == [each["id"] for each in plain]
    spoken, noted = (next(each for each in told if each["slug"].startswith(slug)) for slug in ("ann", "the"))
    assert spoken["explanation"]["author"] > 0 and "session" in spoken["explanation"]
    assert noted["explanation"]["words"] > 0 and "session" not in noted["explanation"]
    wrong = await rest.call("GET", "/search", params=asked | {"explain": "perhaps"})
    assert wrong.status_code == 422 and wrong.json()["error"]["fields"][0]["field"] == "explain"


async def test_a_list_goes_on_where_its_cursor_points(rest: Rest) -> None:
    for number in range(3):
        await rest.save(f"Host {number} runs Debian")
    first = (await rest.call("GET", "/memories", params={"limit": "2"})).json()
    second = (await rest.call("GET", "/memories", params={"limit": "2", "cursor": first["next_cursor"]})).json()
    assert len({each["id"] for each in first["items"] + second["items"]}) == 3
    assert second["next_cursor"] is None


async def test_another_workspace_and_no_key_see_nothing(rest: Rest) -> None:
    saved = await rest.save("The plan is simple enough")
    elsewhere = "/api/workspaces/ws_" + "0" * 32
    answer = await rest.client.get(f"{elsewhere}/memories/{saved['memory_id']}")
    assert answer.status_code == 404
    answer = await rest.call("GET", "/memories", headers={"Authorization": "Bearer nonsense"})
    assert answer.status_code == 401


async def test_names_that_no_store_keeps_are_not_found_rather_than_failures(server: TestServer) -> None:
    base = f"/api/workspaces/{server.start.workspace_id}"
    async with server.client() as client:
        for path in ("/memories/%F0%9F%99%82", "/memories/" + "a" * 3000):
            assert (await client.get(base + path)).status_code == 404, path
        for path in ("/memories/%00", "/memories/%F0%9F%99%82%0A"):
            assert (await client.get(base + path)).status_code == 400, path
        for path in ("/memories?tag=%00", "/memories?author=a%00b", "/memories?session_id=%00", "/search?q=a%00b"):
            assert (await client.get(base + path)).status_code == 200, path
        body = {"content": "Words to keep", "session_id": "a\x00b", "supersedes": "x\x00"}
        assert (await client.post(base + "/memories", json=body)).status_code == 404
        assert (await client.post(base + "/memories", json=body | {"supersedes": None})).status_code == 201


async def test_an_exported_archive_is_imported_again_with_nothing_new(rest: Rest) -> None:
    await rest.save("The first rule is kindness", tags=["rules"])
    await rest.save("The second rule is patience")
    exported = await rest.call("GET", "/export")
    assert (exported.status_code, exported.headers["content-type"]) == (200, "application/zip")
    brought = await rest.call("POST", "/import", content=exported.content)
    assert brought.status_code == 200, brought.text
    assert (brought.json()["created"], brought.json()["unchanged"]) == ({}, 2)
    assert (await rest.call("GET", "/export")).content == exported.content


async def test_json_lines_are_imported_and_what_is_wrong_is_named(rest: Rest) -> None:
    lines = b'{"content": "The port is 8787", "category": "fact"}\n{"content": "ok"}\nnot json\n'
    brought = await rest.call("POST", "/import", content=lines)
    answer = brought.json()
    assert answer["created"] == {"memory": 1}
    assert [each["file"] for each in answer["problems"]] == ["import.jsonl", "import.jsonl"]
    found = await rest.call("GET", "/memories/the-port-is-8787")
    assert found.json()["category"] == "fact"


async def test_an_empty_or_broken_import_is_refused(rest: Rest) -> None:
    for body in (b"", b"PK\x03\x04 broken"):
        assert (await rest.call("POST", "/import", content=body)).status_code == 422
