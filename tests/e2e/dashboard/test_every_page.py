"""Every page in a real browser: nothing breaks, nothing is wider than the screen, and axe finds nothing."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.browsing import signed_in
from tests.support.pages.dashboard import addresses, people, repository_addresses, seed, seed_repository
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow

FRAMELESS = ("/find", "/download", "/frame", "/statement", "/chats", "/files")


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    paths = (str(tmp_path / "code"),)
    async with serving(
        sqlite_database, requests_per_minute=100_000, data_dir=tmp_path / "data", repository_paths=paths
    ) as running:
        yield running


@pytest.mark.parametrize(
    ("size", "theme"), [("phone", "light"), ("phone", "dark"), ("desk", "light"), ("desk", "dark")]
)
@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
async def test_every_page_works_and_reads_well(
    server: TestServer, browser: Browser, size: str, theme: str, full: bool, tmp_path: Path
) -> None:
    if full:
        await seed(server)
    pages = dict(await addresses(server))
    if full:
        pages |= repository_addresses(await seed_repository(server, tmp_path / "code"))
    async with signed_in(browser, server, server.start.owner_id, size=size, theme=theme) as person:
        for path, url in pages.items():
            # What shows one thing has nothing to show before there is one; parts and files have no frame to be read in.
            of_one = path.count("{") > path.count("{ws}") or path.endswith("/source")
            is_part = path.endswith(FRAMELESS) and "/repos/" not in path
            if is_part or (of_one and not full):
                continue
            await person.open(url)
            if await person.page.locator("nav.side").count():
                await person.check()


@pytest.mark.parametrize("role", ["admin", "member", "workspace admin"])
async def test_every_page_that_others_than_the_owner_are_shown_reads_well(
    server: TestServer, browser: Browser, role: str
) -> None:
    await seed(server)
    ids = await people(server)
    async with signed_in(browser, server, ids[role], size="phone") as person:
        places = await person.page.locator("nav.side li a").evaluate_all(
            "links => links.map(link => link.getAttribute('href'))"
        )
        assert len(places) > 12
        for url in places:
            if url != "/api/docs":
                await person.open(url)
                await person.check()


async def test_every_answer_that_is_a_refusal_reads_well(server: TestServer, browser: Browser) -> None:
    await seed(server)
    ids = await people(server)
    async with signed_in(browser, server, ids["member"], theme="dark") as person:
        for url, heading in (
            ("/w/default/memory/nothing-of-that-name", "There is nothing here"),
            ("/settings/people", "This is not yours to do"),
            ("/w/default/memory?as_of=never", "That did not work"),
        ):
            await person.page.goto(server.url + url)
            await person.page.get_by_role("heading", name=heading).wait_for()
            person.problems.clear()  # Chromium says on the console that the answer was a 4xx.
            await person.check()


async def test_a_refused_form_says_what_is_wrong_where_it_is(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/settings/keys")
        await person.page.get_by_label("Name", exact=True).fill("x")
        await person.page.get_by_label("inference").uncheck()
        await person.page.get_by_role("button", name="Make the key").click()
        await person.page.get_by_role("alert").wait_for()
        person.problems.clear()
        await person.check()


async def test_a_list_that_is_on_its_way_reads_well(server: TestServer, browser: Browser) -> None:
    await seed(server)
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/w/default/memory")
        arrived = asyncio.Event()

        async def hold(route: Route) -> None:
            await arrived.wait()
            await route.continue_()

        await person.page.route("**/memory?q=*", hold)
        await person.page.get_by_role("searchbox", name="Search").fill("deploy")
        await person.page.locator(".htmx-request").first.wait_for(state="attached")
        rows = "getComputedStyle(document.querySelector('#memories'), '::after')"
        assert await person.page.evaluate(f"{rows}.content") == '""', "rows to come are drawn over the list"
        assert await person.page.evaluate(f"{rows}.animationName") == "none", "and stand still for who wants that"
        await person.check()
        arrived.set()
        await person.page.get_by_text("rate limit").first.wait_for(state="hidden")


async def test_the_palette_finds_pages_and_memories_by_keyboard_alone(server: TestServer, browser: Browser) -> None:
    await seed(server)
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.page.keyboard.press("Control+k")
        await person.page.get_by_role("dialog", name="Find anything").wait_for()
        await person.page.keyboard.type("deploy fridays")
        await person.page.get_by_role("dialog").get_by_text("The deploy runs on Fridays").first.wait_for()
        await person.check()
        await person.page.keyboard.press("Escape")
        await person.page.get_by_role("dialog").wait_for(state="hidden")
        await person.page.keyboard.press("?")
        await person.page.get_by_role("heading", name="Keys").wait_for()


async def test_the_navigation_opens_and_closes_on_a_phone(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id, size="phone") as person:
        menu = person.page.get_by_role("button", name="Open the navigation")
        await menu.click()
        await person.page.get_by_role("link", name="Home").wait_for()
        await person.page.keyboard.press("Escape")
        await person.page.get_by_role("link", name="Home").wait_for(state="hidden")
        await person.check()
