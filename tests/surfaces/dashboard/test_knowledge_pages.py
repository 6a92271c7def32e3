"""The pages of documents, artifacts, decisions and clients over the wire."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from holdfast.features.artifacts.model import ArtifactReference, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.dashboard import work_done
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


@pytest.fixture
async def owner(server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(await server.browser(server.start.owner_id))


async def _artifact(server: TestServer, type: str = "text/plain", content: str = "one\ntwo\n") -> str:
    new = NewArtifact(identifier="made", title="Made <b>", type=type, content=content)
    return (await server.services[ArtifactService].create(server.owner, server.start.workspace_id, new)).id


async def test_two_versions_are_compared_line_by_line(server: TestServer, owner: httpx.AsyncClient) -> None:
    id, service = await _artifact(server), server.services[ArtifactService]
    await service.update(server.owner, server.start.workspace_id, ArtifactReference(id), "one\n<i>three</i>\n")
    chosen = await owner.get(f"/w/default/artifacts/{id}/compare?from=1&to=2")
    page = (await owner.get(chosen.headers["location"])).text
    assert '<div class="cut">-two</div>' in page and '<div class="add">+&lt;i&gt;three&lt;/i&gt;</div>' in page
    assert "1 line added" in page
    for compare, status in (("1..9", 404), ("x", 422), ("1..", 422)):
        assert (await owner.get(f"/w/default/artifacts/{id}?compare={compare}")).status_code == status


async def test_markup_of_an_artifact_is_shown_where_it_can_do_nothing(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    id = await _artifact(server, "text/html", "<script>alert(1)</script><h1>Hello</h1>")
    page = (await owner.get(f"/w/default/artifacts/{id}")).text
    assert "<iframe" in page and " sandbox " in page and "<script>alert" not in page
    frame = await owner.get(f"/w/default/artifacts/{id}/frame")
    policy = frame.headers["content-security-policy"]
    assert "sandbox" in policy and "default-src 'none'" in policy and "script-src" not in policy
    download = await owner.get(f"/w/default/artifacts/{id}/download")
    assert download.headers["content-type"] == "application/octet-stream"
    assert download.headers["content-disposition"].startswith("attachment")


async def test_an_artifact_is_deleted_by_its_form(server: TestServer, owner: httpx.AsyncClient) -> None:
    id = await _artifact(server)
    assert (await owner.post(f"/w/default/artifacts/{id}/delete")).status_code == 303
    assert (await owner.get(f"/w/default/artifacts/{id}")).status_code == 404


async def test_a_document_is_listed_asked_shown_and_deleted(server: TestServer, owner: httpx.AsyncClient) -> None:
    file = {"file": ("zoo.md", b"# Zoo\n\nThe giraffe is fed at noon.\n", "text/markdown")}
    made = await owner.post(f"/api/workspaces/{server.start.workspace_id}/documents", files=file)
    assert made.status_code == 201
    id = made.json()["id"]
    await work_done(server)
    assert "zoo.md" in (await owner.get("/w/default/documents")).text
    assert "giraffe" in (await owner.get("/w/default/documents?q=giraffe+fed+noon")).text
    assert "The giraffe is fed at noon." in (await owner.get(f"/w/default/documents/{id}")).text
    assert (await owner.post(f"/w/default/documents/{id}/delete")).status_code == 303
    assert "zoo.md" not in (await owner.get("/w/default/documents")).text


async def test_a_decision_is_put_on_record_and_changed(owner: httpx.AsyncClient) -> None:
    form = {
        "title": "Use <b>PostgreSQL</b>",
        "rationale": "Row locks.",
        "alternatives": "MySQL\nSQLite",
        "status": "open",
    }
    made = await owner.post("/w/default/decisions", data={**form, "blocking": "1"})
    page = (await owner.get(made.headers["location"])).text
    assert "Use &lt;b&gt;PostgreSQL" in page and "Row locks." in page and "MySQL" in page
    assert "work waits for it" in (await owner.get("/w/default/decisions?status=open")).text
    await owner.post(made.headers["location"], data={"status": "accepted"})
    assert "work waits for it" not in (await owner.get("/w/default/decisions")).text
    assert (await owner.get("/w/default/decisions?status=nope")).status_code == 422
    graph = await owner.get(f"/w/default/graph?centre={made.headers['location'].rpartition('/')[2]}")
    assert graph.status_code == 200 and "Use &lt;b&gt;PostgreSQL" in graph.text


async def test_a_client_card_says_what_a_download_ends_and_turns_green(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    before = (await owner.get("/w/default/connect")).text
    assert "holdfast mcp setup claude-code --write ." in before and "connected" not in before.split("<main")[1]
    form = {"client": "cursor", "workspace": server.start.workspace_id, "tier": "core"}
    made = await owner.post("/client-bundle", data={**form, "csrf": owner.headers["X-CSRF-Token"]})
    assert made.headers["content-type"] == "application/zip"
    waiting = (await owner.get("/w/default/connect")).text
    assert "waits for its first call" in waiting and "ends the connection of" in waiting and "never used" in waiting
