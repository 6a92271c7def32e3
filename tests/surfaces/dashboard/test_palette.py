"""The palette finds pages, what is known, and what people chat, connect and decide."""

import re

from holdfast.core.principal import Principal
from holdfast.features.catalog.model import NewEntry
from holdfast.features.catalog.service import ServerCatalog
from tests.support.pages.dashboard import CHAT, addresses, seed
from tests.support.server import TestServer


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
