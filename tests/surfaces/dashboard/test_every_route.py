"""Every page against every person: nobody gets an error of ours, strangers and foreign workspaces get nothing."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from html import unescape

import httpx
import pytest

from holdfast.features.identity.sessions.sign_in import principal_of
from holdfast.server.dashboard import MODULES
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.dashboard.shell.declarations import PageRow
from holdfast.surfaces.http.routes import Routes
from tests.support.pages.dashboard import addresses, page_rows, people, seed
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        await seed(running)
        yield running


async def _people(server: TestServer, stack: AsyncExitStack) -> dict[str, httpx.AsyncClient]:
    found = await people(server)
    return {role: await stack.enter_async_context(await server.browser(id)) for role, id in found.items()}


async def test_every_page_opens_for_whoever_may_see_it_and_says_no_to_others(server: TestServer) -> None:
    pages = await addresses(server)
    async with AsyncExitStack() as stack:
        roles = await _people(server, stack)
        for row in page_rows(server):
            if row.method != "GET":
                continue
            assert row.path in pages, f"tests/support/pages/dashboard.py says no address for {row.path}"
            for role, client in roles.items():
                answer = await client.get(pages[row.path])
                assert answer.status_code in (200, 303, 403), (row.path, role, answer.status_code, answer.text[-600:])
                if role == "owner":
                    assert answer.status_code in (200, 303), (row.path, answer.text[-600:])


async def test_nobody_is_shown_a_form_or_a_link_that_would_be_refused_to_them(server: TestServer) -> None:
    """Looked up in what is declared, since sending every form of every page would change what the others show."""
    pages, rows, ids = await addresses(server), page_rows(server), await people(server)
    forms: Routes[PageRow] = Routes()
    for row in rows:
        forms.add(row.method, row.path, row)
    shown_to: dict[str, set[str]] = {}
    for role, id in ids.items():
        session = await server.services.sign_in.by_link(await server.link(id))
        principal, followed = principal_of(session.session), set[str]()
        async with await server.browser(id) as client:
            for url in pages.values():
                page = await client.get(url)
                if page.status_code != 200 or "<main" not in page.text:
                    continue
                for method, action in re.findall(r'<form[^>]*method="(post)"[^>]*action="([^"]+)"', page.text):
                    found = forms.match(method.upper(), unescape(action))
                    if found is None:
                        assert action in ("/sign-out", "/client-bundle"), action
                        continue
                    access = found[0].access
                    assert access.missing(principal) is None, (role, url, action)
                    administered = access.level == "workspace" and access.role == "admin"
                    assert role != "member" or not administered, (role, url, action)
                    shown_to.setdefault(found[0].path, set()).add(role)
                links = set(re.findall(r'href="(/(?:w|settings)/[^"#]*)"', page.text)) - followed
                followed |= links
                for link in links:
                    assert (await client.get(unescape(link))).status_code in (200, 303), (role, url, link)
    assert shown_to["/w/{ws}/settings/secrets"] == {"owner", "admin", "workspace admin"}
    assert shown_to["/settings/people"] == shown_to["/settings/endpoints"] == {"owner", "admin"}
    assert shown_to["/w/{ws}/memory/{slug}/correct"] == set(ids)


async def test_what_is_not_shown_to_a_member_is_refused_when_it_is_forced(server: TestServer) -> None:
    ids = await people(server)
    async with await server.browser(ids["member"]) as mo:
        for row in page_rows(server):
            if row.method != "POST" or row.access.role != "admin":
                continue
            path = row.path.replace("{ws}", "default").replace("{user_id}", ids["admin"])
            path = path.replace("{project_id}", server.start.project_id).replace("{name}", "default")
            answer = await mo.post(re.sub(r"\{\w+\}", "0", path), data={"name": "TAKEN", "value": "x", "admin": "yes"})
            assert answer.status_code in (403, 404), (row.path, answer.status_code)
        workspace = await server.services.workspaces.get(server.owner, server.start.workspace_id)
        assert workspace.name == "Default"


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
