"""Proves artifacts over REST, through the whole server."""

from typing import Any

import httpx
import pytest

from tests.support.server import TestServer

NOTE = {"identifier": "notes.md", "title": "Notes", "type": "text/markdown", "content": "# One\n\nfirst\n"}


@pytest.fixture
async def base(sqlite_server: TestServer) -> str:
    return f"/api/workspaces/{sqlite_server.start.workspace_id}/artifacts"


async def _created(client: httpx.AsyncClient, base: str, **changes: Any) -> dict[str, Any]:
    answer = await client.post(base, json={**NOTE, **changes})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_an_artifact_is_created_updated_compared_and_deleted(sqlite_server: TestServer, base: str) -> None:
    async with sqlite_server.client() as client:
        made = await _created(client, base)
        one = f"{base}/{made['id']}"
        updated = await client.put(one, json={"content": "# One\n\nsecond\n", "title": "New notes"})
        assert (updated.status_code, updated.json()["version"], updated.json()["title"]) == (200, 2, "New notes")

        newest = (await client.get(one)).json()
        first = (await client.get(one, params={"version": 1})).json()
        assert (newest["content"], newest["content_truncated"]) == ("# One\n\nsecond\n", False)
        assert (first["content"], first["title"], first["latest_version"]) == (NOTE["content"], "Notes", 2)

        versions = (await client.get(f"{one}/versions")).json()
        assert [each["version"] for each in versions["items"]] == [2, 1]
        change = (await client.get(f"{one}/diff")).json()
        assert (change["added_lines"], change["removed_lines"]) == (1, 1)
        assert "-first\n+second\n" in change["diff"]

        assert (await client.delete(one)).status_code == 204
        gone = await client.get(one)
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "not_found")


async def test_content_is_a_download_that_no_browser_runs(sqlite_server: TestServer, base: str) -> None:
    async with sqlite_server.client() as client:
        page = "<script>alert(1)</script>" + "x" * 1_100_000
        made = await _created(client, base, type="text/html", content=page)
        read = (await client.get(f"{base}/{made['id']}")).json()
        content = await client.get(f"{base}/{made['id']}/content")

    assert (read["content"], read["content_truncated"]) == (None, True)
    assert content.text == page
    assert content.headers["content-disposition"] == 'attachment; filename="notes.md"'
    assert content.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in content.headers["content-security-policy"]


async def test_what_is_wrong_is_told_by_field(sqlite_server: TestServer, base: str) -> None:
    async with sqlite_server.client() as client:
        wrong = await client.post(base, json={**NOTE, "identifier": "a b", "type": "image/png"})
        assert wrong.status_code == 422
        assert [each["field"] for each in wrong.json()["error"]["fields"]] == ["identifier", "type"]
        await _created(client, base)
        twice = await client.post(base, json=NOTE)
        assert (twice.status_code, twice.json()["error"]["code"]) == (409, "identifier_taken")
        one = f"{base}/{(await client.get(base)).json()['items'][0]['id']}"
        stale = await client.put(one, json={"content": "x", "expected_version": 7})
        assert (stale.status_code, stale.json()["error"]["code"]) == (409, "version_conflict")


async def test_lists_are_paged_and_filtered(sqlite_server: TestServer, base: str) -> None:
    async with sqlite_server.client() as client:
        await client.post(base.replace("/artifacts", "/chats"), json={"id": "chat_1"})
        for number in range(5):
            await _created(client, base, identifier=f"n{number}", chat_id="chat_1" if number < 2 else None)
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = (await client.get(base, params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
            seen += [each["identifier"] for each in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        of_chat = (await client.get(base, params={"chat_id": "chat_1"})).json()["items"]

    assert sorted(seen) == [f"n{number}" for number in range(5)]
    assert {each["identifier"] for each in of_chat} == {"n0", "n1"}


async def test_another_tenants_artifact_is_not_there(sqlite_server: TestServer, base: str) -> None:
    other = await sqlite_server.another_tenant()
    key = await sqlite_server.mint(owner=other.owner, project_id=other.project_id)
    async with sqlite_server.client() as client, sqlite_server.client(key.secret) as stranger:
        made = await _created(client, base)
        for answer in (
            await stranger.get(f"{base}/{made['id']}"),
            await stranger.put(f"{base}/{made['id']}", json={"content": "x"}),
            await stranger.delete(f"{base}/{made['id']}"),
            await stranger.get(f"/api/workspaces/{other.workspace_id}/artifacts/{made['id']}"),
        ):
            assert answer.status_code == 404
