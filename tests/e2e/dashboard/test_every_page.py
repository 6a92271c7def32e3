"""Every page in a real browser: nothing breaks, nothing is wider than the screen, and axe finds nothing."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.browsing import signed_in
from tests.support.pages.dashboard import addresses, page_rows, seed
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow

FRAMELESS = ("/find", "/download", "/frame", "/statement")


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


@pytest.mark.parametrize(
    ("size", "theme"), [("phone", "light"), ("phone", "dark"), ("desk", "light"), ("desk", "dark")]
)
@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
async def test_every_page_works_and_reads_well(
    server: TestServer, browser: Browser, size: str, theme: str, full: bool
) -> None:
    if full:
        await seed(server)
    pages = await addresses(server)
    async with signed_in(browser, server, server.start.owner_id, size=size, theme=theme) as person:
        for row in page_rows(server):
            # What shows one thing has nothing to show before there is one; parts and files have no frame to be read in.
            of_one = row.path.count("{") > row.path.count("{ws}")
            if row.method != "GET" or row.path.endswith(FRAMELESS) or (of_one and not full):
                continue
            await person.open(pages[row.path])
            if await person.page.locator("nav.side").count():
                await person.check()


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


async def test_what_another_person_saves_appears_without_a_reload(server: TestServer, browser: Browser) -> None:
    await seed(server)
    async with signed_in(browser, server, server.start.owner_id) as person, server.client() as other:
        await person.page.get_by_text("The deploy runs on Fridays").first.wait_for()
        async with person.page.expect_request(lambda request: request.url.endswith("/events")):
            await person.open("/")
        path = f"/api/workspaces/{server.start.workspace_id}/memories"
        saved = await other.post(path, json={"content": "The build cache lives on the second disk."})
        assert saved.status_code == 201
        await person.page.get_by_text("The build cache lives on the second disk").first.wait_for()
        assert person.problems == []
