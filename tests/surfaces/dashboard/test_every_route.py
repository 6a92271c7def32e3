"""Every page against every person: nobody gets an error of ours, strangers and foreign workspaces get nothing."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from holdfast.server.dashboard import MODULES
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.dashboard import addresses, page_rows, seed
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        await seed(running)
        yield running


async def _people(server: TestServer, stack: AsyncExitStack) -> dict[str, httpx.AsyncClient]:
    identity, workspaces = server.services.identity, server.services.workspaces
    found = {"owner": server.start.owner_id}
    for role in ("admin", "member", "workspace admin"):
        email = f"{role.replace(' ', '-')}@example.com"
        made = await identity.create_user(
            server.owner, email=email, name=role, role="admin" if role == "admin" else "member"
        )
        found[role] = made.id
    await workspaces.set_admin(server.owner, server.start.workspace_id, found["workspace admin"], admin=True)
    return {role: await stack.enter_async_context(await server.browser(id)) for role, id in found.items()}


async def test_every_page_opens_for_whoever_may_see_it_and_says_no_to_others(server: TestServer) -> None:
    pages = await addresses(server)
    async with AsyncExitStack() as stack:
        people = await _people(server, stack)
        for row in page_rows(server):
            if row.method != "GET":
                continue
            assert row.path in pages, f"tests/support/pages/dashboard.py says no address for {row.path}"
            for role, client in people.items():
                answer = await client.get(pages[row.path])
                assert answer.status_code in (200, 303, 403), (row.path, role, answer.status_code, answer.text[-600:])
                if role == "owner":
                    assert answer.status_code in (200, 303), (row.path, answer.text[-600:])


async def test_no_page_shows_itself_to_a_stranger_or_of_a_foreign_workspace(server: TestServer) -> None:
    pages, other = await addresses(server), await server.another_tenant()
    own = (await server.services.workspaces.get(server.owner, server.start.workspace_id)).slug
    async with server.stranger() as stranger, await server.browser(server.start.owner_id) as owner:
        for path, url in pages.items():
            assert (await stranger.get(url)).headers.get("location") == "/sign-in", path
            if "{ws}" in path:
                foreign = re.sub(rf"(/w/|/chat/){re.escape(own)}", rf"\g<1>{other.workspace_id}", url)
                assert (await owner.get(foreign)).status_code == 404, path


async def test_no_form_is_taken_without_the_sessions_token(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        del owner.headers["X-CSRF-Token"]
        for row in page_rows(server):
            if row.method == "POST":
                path = re.sub(r"\{\w+\}", "default", row.path)
                refused = await owner.post(path, data={"csrf": "invented"})
                assert refused.status_code == 403, (row.path, refused.status_code)


async def test_no_row_of_the_navigation_leads_nowhere(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        page = (await owner.get("/")).text
        links = set(re.findall(r'href="(/[^"#]*)"', page)) - {"/favicon.ico"}
        for link in sorted(each for each in links if not each.startswith("/static/")):
            assert (await owner.get(link)).status_code in (200, 303), link
    assert len(MODULES) > 1
