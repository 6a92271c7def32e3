"""What somebody writes is not lost when it cannot be taken, and odd words of theirs keep every page whole."""

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, FilePayload, Page, expect

from holdfast.features.cases.model import NewCase
from holdfast.features.cases.service import CaseService
from holdfast.features.chat.service import ChatService
from holdfast.features.intelligence.model import NewDecision
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.browsing import Person, signed_in
from tests.support.pages.chatting import Room
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow
_LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


async def _sign_in(page: Page, server: TestServer) -> None:
    await page.goto(f"{server.url}/sign-in?link={await server.link(server.start.owner_id)}")
    await page.get_by_role("button", name="Continue").click()
    await page.locator("html[data-ready]").wait_for(state="attached")


async def _write_a_decision(person: Person) -> None:
    await person.open("/w/default/decisions")
    await person.page.get_by_role("button", name="New decision").click()
    await person.page.get_by_label("What was decided?").fill("Keep what was written")
    await person.page.get_by_label("Why?").fill("Writing it <b>twice</b> is no fun.")


async def test_what_was_written_is_there_again_after_signing_in_anew(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await _write_a_decision(person)
        await page.context.clear_cookies(name="holdfast_session")
        await page.get_by_role("button", name="Save").click()
        await page.wait_for_url("**/sign-in")
        await _sign_in(page, server)
        await expect(page.locator("#unsent pre")).to_contain_text("Writing it <b>twice</b> is no fun.")
        await person.check()
        await page.get_by_role("link", name="Back to the form").click()
        await person.ready()
        await expect(page.get_by_label("What was decided?")).to_have_value("Keep what was written")
        await expect(page.get_by_label("Why?")).to_be_visible()
        await page.get_by_role("button", name="Save").click()
        await page.get_by_role("heading", name="Keep what was written").wait_for()
        await expect(page.locator("#unsent")).to_be_hidden()
        assert await page.evaluate("[sessionStorage.length, document.cookie]") == [0, ""]


async def test_what_was_written_is_there_again_after_signing_in_in_another_tab(
    server: TestServer, browser: Browser
) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await _write_a_decision(person)
        other = await page.context.new_page()
        await _sign_in(other, server)
        await page.get_by_role("button", name="Save").click()
        await page.get_by_role("heading", name="That did not work").wait_for()
        await page.get_by_role("link", name="Back to the form").click()
        await person.ready()
        await page.get_by_role("button", name="Save").click()
        await page.get_by_role("heading", name="Keep what was written").wait_for()


async def test_a_secret_that_was_written_is_not_kept(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.open("/w/default/settings/secrets")
        await page.get_by_label("Name").fill("LINEAR_API_KEY")
        await page.get_by_label("Value").fill("canary-that-no-tab-keeps")
        await page.context.clear_cookies(name="holdfast_session")
        await page.get_by_role("button", name="Save the secret").click()
        await page.wait_for_url("**/sign-in")
        assert "canary" not in await page.evaluate("JSON.stringify(sessionStorage)")


async def test_who_corrects_what_was_corrected_meanwhile_sees_both(server: TestServer, browser: Browser) -> None:
    memories, workspace = server.services[MemoryService], server.start.workspace_id
    saved = await memories.save(server.owner, workspace, NewMemory("The deploy runs on Fridays at noon."))
    assert saved.memory is not None
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.open(f"/w/default/memory/{saved.memory.slug}")
        await page.get_by_label("What holds now").fill("The deploy runs on Tuesdays.")
        await memories.supersede(server.owner, workspace, saved.memory.id, NewMemory("The deploy runs on Mondays."))
        await page.get_by_role("button", name="Correct").click()
        await page.get_by_role("alert").get_by_text("Somebody corrected it meanwhile").wait_for()
        await page.get_by_role("heading", name="The deploy runs on Mondays", level=1).wait_for()
        await expect(page.get_by_label("What holds now")).to_have_value("The deploy runs on Tuesdays.")
        await page.get_by_role("button", name="Correct").click()
        await page.get_by_role("heading", name="The deploy runs on Tuesdays", level=1).wait_for()


async def test_a_word_without_an_end_stays_within_a_phone(server: TestServer, browser: Browser) -> None:
    services, workspace = server.services, server.start.workspace_id
    saved = await services[MemoryService].save(server.owner, workspace, NewMemory(_LONG))
    assert saved.memory is not None
    made = await services[IntelligenceService].decisions.track(server.owner, workspace, NewDecision(_LONG, _LONG))
    case = await services[CaseService].add(server.owner, workspace, NewCase(title=_LONG, criteria=(_LONG,)))
    async with server.client() as client:
        file = {"file": (f"{_LONG[:120]}.md", f"# {_LONG}\n\n{_LONG}\n".encode(), "text/markdown")}
        document = (await client.post(f"/api/workspaces/{workspace}/documents", files=file)).json()
    async with signed_in(browser, server, server.start.owner_id, size="phone") as person:
        for path in (
            "/",
            "/w/default/memory",
            f"/w/default/memory/{saved.memory.slug}",
            f"/w/default/decisions/{made.id}",
            f"/w/default/cases/{case.id}",
            f"/w/default/documents/{document['id']}",
        ):
            await person.open(path)
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await person.page.evaluate(wider) <= 0, path


async def test_words_on_buttons_are_not_broken(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id, locale="de-DE") as person:
        await person.open("/w/default/connect")
        for button in await person.page.get_by_role("button", name=re.compile("herunterladen")).all():
            box = await button.bounding_box()
            assert box is not None and box["height"] < 40, "one line"


async def test_a_name_that_turns_what_follows_turns_nothing_beside_it(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.open("/chat/default")
        file = FilePayload(name="odd \u202etxt.md", mimeType="text/markdown", buffer=b"The giraffe is fed at noon.")
        await page.get_by_label("Your message").fill("x")
        await page.locator(".composer input[type=file]").set_input_files([file])
        name = page.locator(".composer bdi", has_text="odd").first
        await name.wait_for()
        named, state = await name.bounding_box(), await page.locator(".composer .tag .state").first.bounding_box()
        assert named is not None and state is not None
        assert state["x"] >= named["x"] + named["width"]


async def test_what_no_server_took_is_given_back_to_send_again(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        page, room = person.page, Room(person)
        await person.open("/chat/default")
        await room.ask("When does the deploy run?")
        await page.context.set_offline(True)
        await room.write("Said into the void.")
        await page.get_by_role("alert").wait_for()
        await expect(page.get_by_label("Your message")).to_have_value("Said into the void.")
        await page.context.set_offline(False)
        await page.context.clear_cookies(name="holdfast_session")
        await page.get_by_label("Your message").press("Enter")
        await page.get_by_role("alert").get_by_text("credential").wait_for()
        await expect(page.get_by_label("Your message")).to_have_value("Said into the void.")
        await expect(room.said).to_have_count(1)


async def test_many_chats_push_nothing_out_of_the_navigation(server: TestServer, browser: Browser) -> None:
    for at in range(40):
        await server.services[ChatService].create(server.owner, server.start.workspace_id, title=f"Chat {at}")
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/chat/default")
        await person.page.locator("#side").evaluate("side => side.scrollTo(0, side.scrollHeight)")
        last = await person.page.locator("#chats a").last.bounding_box()
        leave = await person.page.get_by_role("button", name="Sign out").bounding_box()
        assert last is not None and leave is not None
        assert last["y"] + last["height"] <= leave["y"]


async def test_an_impatient_hand_sends_a_form_once(server: TestServer, browser: Browser) -> None:
    pressed = """form => [1, 2, 3].map(() => {
        const submitter = form.querySelector("button");
        return form.dispatchEvent(new SubmitEvent("submit", {bubbles: true, cancelable: true, submitter}));
    })"""
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/settings/keys")
        form = person.page.locator("#key-form")
        assert await form.evaluate(pressed) == [True, False, False]
        await expect(form.locator("[aria-busy=true]")).to_have_count(1)


async def test_a_secret_is_saved_once_its_value_is_written(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.open("/w/default/settings/secrets")
        save = page.get_by_role("button", name="Save the secret")
        await expect(save).to_be_disabled()
        await page.get_by_label("Name").fill("LINEAR_API_KEY")
        await page.get_by_label("Value").press_sequentially("x")
        await expect(save).to_be_enabled()


async def test_where_one_is_stands_in_sight(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/settings/usage")
        for shown in (person.page.locator("#side a[aria-current]").last, person.page.locator("#side .who button")):
            await expect(shown).to_be_in_viewport(ratio=1)
        here = await person.page.locator("#side a[aria-current]").last.bounding_box()
        who = await person.page.locator("#side .who").bounding_box()
        assert here is not None and who is not None and here["y"] + here["height"] <= who["y"]


@pytest.mark.parametrize("path", ["/sign-in", "/sign-in?link=x", "/join?invitation=x"])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_pages_before_signing_in_are_fit_for_everybody(
    server: TestServer, browser: Browser, path: str, theme: str
) -> None:
    async with signed_in(browser, server, server.start.owner_id, size="phone", theme=theme) as person:
        await person.page.goto(f"{server.url}{path}")
        assert await person.violations() == []
