"""The board of cases in a real browser: moved by drag, by button and by key, and what is refused says why."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect

from holdfast.features.cases.model import NewCase
from holdfast.features.cases.service import CaseService
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.browsing import Person, signed_in
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow
BOARD = "/w/default/cases?view=board"


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


async def _case(server: TestServer, title: str) -> str:
    return (await server.services[CaseService].add(server.owner, server.start.workspace_id, NewCase(title=title))).id


async def _in(person: Person, id: str, state: str) -> None:
    """The card stands in the column of that state, on a page that is alive."""
    await expect(person.page.locator(f'[data-state="{state}"] #{id}')).to_be_visible()
    await person.ready()


async def test_a_card_is_moved_by_drag_by_button_and_by_key(server: TestServer, browser: Browser) -> None:
    id = await _case(server, "Mend the gate")
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.open(BOARD)
        await page.locator(f"#{id}").drag_to(page.locator('[data-state="PLANNING"]'))
        await _in(person, id, "PLANNING")
        await page.get_by_role("button", name="IMPLEMENTING: Mend the gate").click()
        await _in(person, id, "IMPLEMENTING")
        # The card that was moved has the focus, so that keys go on from it.
        await expect(page.locator(f"#{id}")).to_be_focused()
        await page.keyboard.press("Shift+ArrowRight")
        await _in(person, id, "VERIFYING")
        await page.keyboard.press("Shift+ArrowLeft")
        await _in(person, id, "IMPLEMENTING")
        await person.check()


async def test_a_card_is_moved_by_a_finger_that_rests_on_it_first(server: TestServer, browser: Browser) -> None:
    id = await _case(server, "Mend the gate")
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.open(BOARD)
        touch = await page.context.new_cdp_session(page)
        await touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})

        async def middle(selector: str) -> dict[str, float]:
            box = await page.locator(selector).bounding_box()
            assert box is not None
            return {"x": box["x"] + box["width"] / 2, "y": box["y"] + min(box["height"] / 2, 40)}

        async def send(kind: str, *points: dict[str, float]) -> None:
            await touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(points)})

        begin, end = await middle(f"#{id}"), await middle('[data-state="PLANNING"]')
        await send("touchStart", begin)
        await expect(page.locator(f"#{id}.held")).to_be_visible()
        await send("touchMove", end)
        await expect(page.locator('[data-state="PLANNING"].over')).to_be_visible()
        await send("touchEnd")
        await _in(person, id, "PLANNING")

        # A finger that moves at once scrolls, and moves nothing.
        begin, end = await middle(f"#{id}"), await middle('[data-state="IMPLEMENTING"]')
        await send("touchStart", begin)
        await send("touchMove", end)
        await send("touchEnd")
        await _in(person, id, "PLANNING")
        await person.check()


async def test_a_drop_that_is_refused_names_where_the_card_can_go(server: TestServer, browser: Browser) -> None:
    id = await _case(server, "Mend the gate")
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.open(BOARD)
        await page.locator(f"#{id}").drag_to(page.locator('[data-state="VERIFYING"]'))
        await expect(page.get_by_role("alert")).to_contain_text("PLANNING, BLOCKED, CANCELLED")
        await _in(person, id, "OPEN")
        person.problems = [each for each in person.problems if "409" not in each]
        await person.check()


@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_blocking_a_case_asks_for_the_reason(server: TestServer, browser: Browser, size: str) -> None:
    id = await _case(server, "Mend the gate")
    async with signed_in(browser, server, server.start.owner_id, size=size, theme="dark") as person:
        page = person.page
        await person.open(BOARD)
        await page.get_by_role("button", name="BLOCKED: Mend the gate").click()
        await expect(page.get_by_label("Reason")).to_be_focused()
        await page.keyboard.type("No paint")
        await page.keyboard.press("Enter")
        await _in(person, id, "BLOCKED")
        await expect(page.locator(f"#{id}")).to_contain_text("No paint")
        person.problems = [each for each in person.problems if "422" not in each]
        await person.check()
