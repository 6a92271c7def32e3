"""The frame of the pages: who gets in, how languages and themes are chosen, what browsers may keep."""

import gzip
import re
from collections.abc import AsyncIterator

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.dashboard.shell import app, view
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database) as running:
        yield running


async def test_a_stranger_is_sent_to_the_sign_in_page_and_a_key_opens_no_page(server: TestServer) -> None:
    async with server.stranger() as stranger, server.client() as key:
        for client in (stranger, key):
            answer = await client.get("/")
            assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


async def test_every_page_runs_only_what_the_server_itself_sends(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        page = await owner.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert page.headers["cache-control"] == "no-store"
    assert "<style" not in page.text and " style=" not in page.text and " onclick=" not in page.text
    assert re.findall(r"<script(?! src=\"/static/)", page.text) == []


async def test_static_files_are_kept_for_good_under_a_name_that_changes_with_them(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner, server.stranger() as stranger:
        page = (await owner.get("/")).text
        found = re.search(r'href="(/static/[0-9a-f]{12}/app\.css)"', page)
        assert found is not None
        kept = await stranger.get(found[1])
        assert "immutable" in kept.headers["cache-control"] and kept.headers["content-encoding"] == "gzip"
        plain = await stranger.get(found[1], headers={"Accept-Encoding": "identity"})
        assert plain.text == kept.text and "content-encoding" not in plain.headers
        old = await stranger.get("/static/000000000000/app.css")
        assert old.headers["cache-control"] == "no-store"
        for path in ("/static/x/nothing.css", "/static/x/../shell/app.py", "/static/x/vendor/README.md", "/static/"):
            assert (await stranger.get(path)).status_code == 404


async def test_a_page_and_what_it_loads_stay_small(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        page = (await owner.get("/")).text
        loaded = set(re.findall(r'(?:src|href)="(/static/[^"#]+\.(?:js|css))"', page))
        loaded |= {re.sub(r"app\.js$", f"{name}.js", url) for url in loaded for name in ("live", "keys")}
        total = sum([len(gzip.compress((await owner.get(url)).content, 9)) for url in loaded])
    assert total < 60 * 1024


async def test_the_language_is_the_readers_and_can_be_chosen(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        german = await owner.get("/", headers={"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"})
        assert '<html lang="de"' in german.text and ">Start<" in german.text.replace("</svg>", ">")
        other = await owner.get("/", headers={"Accept-Language": "fr"})
        assert '<html lang="en"' in other.text
        owner.cookies.set("holdfast_language", "en")
        chosen = await owner.get("/", headers={"Accept-Language": "de"})
        assert '<html lang="en"' in chosen.text


async def test_a_chosen_theme_holds_and_an_unknown_one_is_none(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        owner.cookies.set("holdfast_theme", "dark")
        assert 'data-theme="dark"' in (await owner.get("/")).text
        owner.cookies.set("holdfast_theme", '"><script>')
        assert "data-theme" not in (await owner.get("/")).text


async def test_a_notice_is_shown_once_and_as_text(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        owner.cookies.set("holdfast_notice", "%3Cb%3EDone%3C%2Fb%3E")
        page = await owner.get("/")
        assert "&lt;b&gt;Done&lt;/b&gt;" in page.text
        assert "holdfast_notice=;" in page.headers["set-cookie"] and "Max-Age=0" in page.headers["set-cookie"]


async def test_what_is_not_there_is_said_in_the_frame(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        page = await owner.get("/settings/<b>nothing")
        assert page.status_code == 404 and "There is nothing here" in page.text and "<b>nothing" not in page.text
        part = await owner.get("/settings/nothing", headers={"HX-Request": "true"})
        assert part.status_code == 404 and "<html" not in part.text and 'role="alert"' in part.text


async def test_a_browser_is_told_in_the_frame_that_nothing_is_at_a_path_and_a_program_in_json(
    server: TestServer,
) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    async with await server.browser(server.start.owner_id) as owner, server.stranger() as stranger:
        page = await owner.get("/nothing/at/all", headers=browser)
        assert page.status_code == 404 and "There is nothing here" in page.text and 'class="side"' in page.text
        program = await owner.get("/nothing/at/all")
        assert (program.status_code, program.json()["error"]["code"]) == (404, "not_found")
        elsewhere = await stranger.get("/nothing/at/all", headers=browser)
        assert (elsewhere.status_code, elsewhere.headers["location"]) == (303, "/sign-in")


@pytest.mark.parametrize(("written", "to"), [("/settings", "/settings/profile"), ("/w/default", "/w/default/memory")])
async def test_an_address_that_is_shortened_leads_to_a_page(server: TestServer, written: str, to: str) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        assert (await owner.get(written)).headers["location"] == to
        assert (await owner.get("/w/nowhere")).status_code == 404


async def test_a_workspace_beyond_those_that_are_listed_is_opened_and_found(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "LISTED", 3)
    workspaces, project = server.services.workspaces, server.start.project_id
    for at in range(8):
        await workspaces.create(server.owner, project, f"Team {at}")
    async with await server.browser(server.start.owner_id) as owner:
        page = (await owner.get("/w/team-6/memory")).text
        assert set(re.findall(r'href="/w/([^"/]+)/memory"', page)) == {"default", "team-0", "team-1", "team-6"}
        assert "<strong>Team 6</strong>" in page and "Find another" in page
        found = await owner.get("/find", params={"q": "team 5"}, headers={"HX-Request": "true"})
        assert '<a href="/w/team-5/memory">' in found.text
        # More than are asked for at once.
        monkeypatch.setattr(app, "MOST_SEEN", 3)
        assert (await owner.get("/w/elsewhere/memory")).status_code == 404
        assert (await owner.get("/w/team-7/memory")).status_code == 200
        # A page of no workspace keeps the one that was looked at.
        owner.cookies.set("holdfast_workspace", "team-7")
        assert "<strong>Team 7</strong>" in (await owner.get("/settings/keys")).text


async def test_who_is_not_signed_in_is_spoken_to_in_their_language(server: TestServer) -> None:
    async with server.stranger() as stranger:
        page = (await stranger.get("/sign-in", headers={"Accept-Language": "de"})).text
        assert '<html lang="de">' in page and "Bei Holdfast anmelden" in page
        refused = await stranger.post("/sign-in", data={"email": "a@b.c"}, headers={"Accept-Language": "de"})
        assert "Das hat nicht geklappt." in refused.text
        assert "Einer Organisation beitreten" in (await stranger.get("/join", headers={"Accept-Language": "de"})).text
