"""The palette finds pages, what is known, and what people chat, connect and decide."""

import re
from pathlib import Path

from holdfast.core.principal import Principal
from holdfast.features.catalog.model import NewEntry
from holdfast.features.catalog.service import ServerCatalog
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.dashboard import CHAT, addresses, seed, seed_repository
from tests.support.server import TestServer, serving


async def _found(server: TestServer, user_id: str, query: str, *, of: Principal | None = None) -> dict[str, str]:
    async with await server.browser(user_id, of) as person:
        page = (await person.get("/find", params={"q": query}, headers={"HX-Request": "true"})).text
    rows = re.findall(r'<a href="([^"]+)">\s*(.*?)\s*</a>', page, re.DOTALL)
    return {url: re.sub(r"<[^>]+>|\s+", " ", text) for url, text in rows}


async def test_everything_that_exists_is_found(sqlite_server: TestServer) -> None:
    server = sqlite_server
    await seed(server)
    await addresses(server)  # a server with tools, and a call that waits
    owner = server.start.owner_id
    chats = await _found(server, owner, "giraffe fed")
    assert any(url.startswith(f"/chat/default/{CHAT}?at=") and "Chat" in text for url, text in chats.items()), chats
    assert "/w/default/settings/mcp-servers/demo" in await _found(server, owner, "demo")
    counted = await _found(server, owner, "demo.count")
    assert any(url.startswith("/approve/") for url in counted) and any("/invocations/inv_" in url for url in counted)
    assert any("/cases/" in url for url in await _found(server, owner, "mend the gate"))
    other = await server.services.workspaces.create(server.owner, server.start.project_id, "Far <b>away</b>")
    named = await _found(server, owner, "far <b>")
    assert f"/w/{other.slug}/memory" in named and "&lt;b&gt;away" in named[f"/w/{other.slug}/memory"]


async def test_nothing_of_another_organization_is_found(sqlite_server: TestServer) -> None:
    server = sqlite_server
    await seed(server)
    far = NewEntry(name="far", shape="remote", url="https://mcp.example.com/mcp")
    await server.services[ServerCatalog].register(server.owner, server.start.workspace_id, far)
    other = await server.another_tenant()
    stranger = await server.services.identity.create_user(other.owner, email="eve@example.com", name="Eve")
    for query in ("giraffe", "far", "deploy", "demo"):
        assert await _found(server, stranger.id, query, of=other.owner) == {}, query


async def test_what_a_repository_has_opens_where_it_stands(sqlite_database: SqliteDatabase, tmp_path: Path) -> None:
    async with serving(sqlite_database, repository_paths=str(tmp_path)) as server:
        slug = await seed_repository(server, tmp_path)
        files = await _found(server, server.start.owner_id, "invoice total lines")
        assert any(url.startswith(f"/w/default/repos/{slug}/files?path=src%2Fbilling.py&amp;start=1") for url in files)
        commits = await _found(server, server.start.owner_id, "add invoices")
        assert f"/w/default/repos/{slug}" in commits
        assert "/" not in {**files, **commits}


async def test_what_is_found_is_a_page_for_whoever_has_no_scripts(sqlite_server: TestServer) -> None:
    await seed(sqlite_server)
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        for path in ("/find", "/find?q=deploy"):
            page = (await owner.get(path)).text
            assert page.startswith("<!doctype html>") and '<input type="search" name="q"' in page, path
        assert "The deploy runs on Fridays" in page
