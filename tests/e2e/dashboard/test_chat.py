"""Chatting in a real browser: tools, questions, branches, stopping, finding, deleting and connecting a client."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, FilePayload, Route, expect

from holdfast.features.chat.service import ChatService
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm.model import FakeModel, Turn, calls, model, says
from tests.support.attacks.markup import PAYLOADS
from tests.support.pages.browsing import Person, signed_in
from tests.support.pages.chatting import Room
from tests.support.pages.dashboard import people, seed
from tests.support.server import TestServer, serving
from tests.surfaces.openai.endpoint import connect

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize(("size", "theme"), [("phone", "dark"), ("desk", "light")])
ANSWER = (
    "## Deploys\n\nThe deploy runs **every Friday**. See [the runbook](https://example.com/run).\n\n```sh\nmake\n```\n"
)


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


@pytest.fixture
async def upstream(server: TestServer) -> AsyncIterator[FakeModel]:
    async with model() as fake:
        await connect(server, fake, "main")
        yield fake


async def _enter(person: Person, path: str = "/chat/default") -> Room:
    await person.open(path)
    room = Room(person)
    await room.choose("main")
    return room


@pytest.mark.contract("XM-21")
@pytest.mark.parametrize(
    ("by", "size", "theme", "role"),
    [
        ("mouse", "phone", "dark", "admin"),
        ("keyboard", "desk", "light", "member"),
    ],
)
async def test_a_chat_with_tools_and_a_question_that_is_answered(
    server: TestServer, upstream: FakeModel, browser: Browser, by: str, size: str, theme: str, role: str
) -> None:
    user_id = (await people(server))[role]
    plan = {"identifier": "plan", "title": "Roll-out plan", "type": "text/html", "content": "<h1>Plan</h1>"}
    upstream.script[:] = [
        calls(("calculator", {"expression": "17*3"}), ("create_artifact", plan)),
        says(ANSWER),
        calls(("ask_user", {"question": "Which environment?", "options": ["staging", "production"]})),
        says("Staging is quiet."),
    ]
    async with signed_in(browser, server, user_id, size=size, theme=theme, by_keyboard=by == "keyboard") as person:
        room = await _enter(person)
        page = person.page
        await person.press(page.locator(".composer summary"))
        await person.tick(page.get_by_label("Calculate"))
        answer = await room.ask("How do we deploy, and what is 17*3?")
        await expect(answer.get_by_role("heading", name="Deploys")).to_be_visible()
        await expect(answer.get_by_role("link", name="the runbook")).to_have_attribute(
            "href", "https://example.com/run"
        )
        calculated = answer.locator(".tool", has_text="Calculated")
        await person.press(calculated.locator("summary"))
        await expect(calculated).to_contain_text("51")
        await expect(page).to_have_url(re.compile(r"/chat/default/chat_"))
        await expect(page.get_by_role("heading", level=1)).to_have_text("How do we deploy, and what is 17*3?")
        await person.press(answer.get_by_role("link", name=re.compile("Roll-out plan")))
        frame = page.frame_locator("#manager iframe")
        await expect(frame.get_by_role("heading", name="Plan")).to_be_visible()
        await person.check()
        if size == "phone":
            await person.press(page.locator("#manager").get_by_role("button", name="Close"))
        await room.ask("Look at the logs")
        await person.tick(page.get_by_label("staging"))
        await person.press(page.get_by_role("button", name="Answer"))
        await expect(room.answers.last).to_contain_text("Staging is quiet.")
        await expect(room.said.last).to_have_text("staging")
        assert upstream.requests[-1]["messages"][-1]["content"] == '{"answer":"staging"}'
        await person.check()
        await page.reload()
        await person.ready()
        assert await room.answers.count() == 3
        await expect(page.locator(".question")).to_contain_text("answered")
        await person.check()
    assert upstream.refused == []


@pytest.mark.parametrize(
    ("asked", "act", "heard", "shown"),
    [
        ({"style": "confirm"}, "button:Yes", '{"answer":true}', "Yes"),
        ({"style": "rating"}, "button:4", '{"answer":4}', "4"),
        (
            {"style": "form", "fields": [{"label": "Town", "key": "town", "required": True}]},
            "fill:Town",
            '{"answer":{"town":"Oslo"}}',
            "town: Oslo",
        ),
        ({"options": ["a", "b"], "multi_select": True}, "check:a,b", '{"answer":["a","b"]}', "a, b"),
        ({}, "fill:In your own words", '{"answer":"Oslo"}', "Oslo"),
    ],
    ids=["confirm", "rating", "form", "several", "words"],
)
async def test_every_style_of_question_is_answered_by_keyboard(
    server: TestServer,
    upstream: FakeModel,
    browser: Browser,
    asked: dict[str, object],
    act: str,
    heard: str,
    shown: str,
) -> None:
    upstream.script[:] = [calls(("ask_user", {"question": "Well?", **asked})), says("Thanks.")]
    async with signed_in(browser, server, server.start.owner_id) as person:
        room = await _enter(person)
        await room.ask("Ask me")
        kind, _, what = act.partition(":")
        if kind == "button":
            await person.page.get_by_role("button", name=what, exact=True).focus()
            await person.page.keyboard.press("Enter")
        elif kind == "fill":
            await person.page.get_by_label(what).fill("Oslo")
            await person.page.keyboard.press("Enter")
        else:
            for each in what.split(","):
                await person.page.get_by_label(each, exact=True).focus()
                await person.page.keyboard.press("Space")
            await person.page.get_by_role("button", name="Answer").press("Enter")
        await expect(room.answers.last).to_contain_text("Thanks.")
        await expect(room.said.last).to_have_text(shown)
        assert upstream.requests[-1]["messages"][-1]["content"] == heard
        assert len(await room.said.all()) == 2, "the answer is said once"
        await person.check()


async def test_an_answer_is_stopped_and_what_was_said_is_kept(
    server: TestServer, upstream: FakeModel, browser: Browser
) -> None:
    upstream.script[:] = [Turn(content="One two three four", pieces=4, stall_after=3), says("Again, whole.")]
    async with signed_in(browser, server, server.start.owner_id) as person:
        room = await _enter(person)
        await room.write("Count")
        await expect(person.page.locator(".draft .prose")).to_contain_text("One two")
        await person.page.keyboard.press("Escape")
        await expect(room.answers.last).to_contain_text("One two")
        await expect(room.answers.last.locator(".state", has_text="Stopped")).to_be_visible()
        async with asyncio.timeout(20):
            await upstream.hung_up.wait()
        await person.check()
        await room.answers.last.get_by_role("button", name="Ask again").click()
        await expect(room.answers.last).to_contain_text("Again, whole.")
        await expect(room.answers.last.locator(".branches")).to_contain_text("2/2")
        await person.check()


async def test_the_answer_to_an_answered_question_is_stopped_by_keyboard_too(
    server: TestServer, upstream: FakeModel, browser: Browser
) -> None:
    upstream.script[:] = [
        calls(("ask_user", {"question": "Which?", "options": ["staging", "production"]})),
        Turn(content="One two three four", pieces=4, stall_after=3),
    ]
    async with signed_in(browser, server, server.start.owner_id) as person:
        room = await _enter(person)
        await room.ask("Look at the logs")
        await person.page.get_by_label("staging").check()
        await person.page.get_by_role("button", name="Answer").press("Enter")
        await expect(person.page.locator(".draft .prose")).to_contain_text("One two")
        # The form that had the focus is switched off by now.
        await person.page.keyboard.press("Escape")
        await expect(room.answers.last.locator(".state", has_text="Stopped")).to_be_visible()
        await person.check()


@BOTH
async def test_edit_retry_and_branches(
    server: TestServer, upstream: FakeModel, browser: Browser, size: str, theme: str
) -> None:
    upstream.script[:] = [says("Blue."), says("Red."), says("Green.")]
    async with signed_in(browser, server, server.start.owner_id, size=size, theme=theme) as person:
        room = await _enter(person)
        await room.ask("Which colour?")
        await room.answers.last.get_by_role("button", name="Ask again").press("Enter")
        await expect(room.answers.last).to_contain_text("Red.")
        await person.page.locator(".mine").get_by_role("button", name="Edit and send again").press("Enter")
        await person.page.locator("form.edit textarea").fill("Which other colour?")
        await person.check()
        await person.page.locator("form.edit textarea").press("Enter")
        await expect(room.answers.last).to_contain_text("Green.")
        await expect(room.said).to_have_text(["Which other colour?"])
        await expect(person.page.locator(".mine .branches")).to_contain_text("2/2")
        await person.page.get_by_role("link", name="The branch before").press("Enter")
        await expect(room.said).to_have_text(["Which colour?"])
        await expect(person.page.get_by_role("link", name="The next branch")).to_be_focused()
        await expect(room.answers.last).to_contain_text("Red.")
        await room.answers.last.get_by_role("link", name="The branch before").click()
        await expect(room.answers.last).to_contain_text("Blue.")
        await person.check()
    assert [len(each["messages"]) for each in upstream.requests] == [1, 1, 1], "each begins where it was changed"


async def test_what_was_not_answered_is_asked_again(server: TestServer, upstream: FakeModel, browser: Browser) -> None:
    upstream.script[:] = [Turn(status=400, body={"error": {"message": "Too tired."}}), says("Rested.")]
    async with signed_in(browser, server, server.start.owner_id) as person:
        room = await _enter(person)
        await room.write("Are you there?")
        await person.page.get_by_role("alert").get_by_text("Too tired.").wait_for()
        await person.page.reload()
        await person.ready()
        await person.page.get_by_role("button", name="Ask again").press("Enter")
        await expect(room.answers.last).to_contain_text("Rested.")
        await expect(room.said).to_have_text(["Are you there?"])
        await expect(person.page.get_by_role("button", name="Ask again")).to_have_count(1)


async def test_an_old_chat_is_found_by_its_words_and_a_deleted_one_comes_back(
    server: TestServer, browser: Browser
) -> None:
    await seed(server)
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.open("/chat/default")
        await page.get_by_text("New chat").first.click()
        await page.keyboard.press("/")
        await page.keyboard.type("DEPLOY fridays")
        found = page.locator("#chats a", has_text="Fridays at noon")
        await found.first.wait_for()
        await person.check()
        await found.first.press("Enter")
        await expect(page.locator(".message:target")).to_contain_text("Fridays at noon")
        await person.ready()
        await page.locator(".room-head summary").click()
        await page.get_by_label("Title").fill("Feeding <b>times</b>")
        await page.get_by_role("button", name="Rename").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Feeding <b>times</b>")
        await person.ready()
        await page.locator(".room-head summary").click()
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="Export as Markdown").click()
        exported = await (await downloading.value).path()
        assert "The deploy runs on Fridays at noon." in exported.read_text()
        await page.get_by_role("button", name="Delete").click()
        await expect(page.locator("#chats")).to_contain_text("No chat yet.")
        await person.check()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Feeding <b>times</b>")
        await expect(page.locator(".answer").first).to_be_visible()
        await person.check()


async def test_a_citation_opens_its_source_beside_the_answer(server: TestServer, browser: Browser) -> None:
    await seed(server)
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/chat/default")
        answer = await Room(person).ask("When does the deploy run?")
        await answer.locator(".cite").first.click()
        await expect(person.page.locator("#manager")).to_contain_text("The deploy runs on Fridays at noon.")
        await expect(person.page.locator("#manager").get_by_role("link", name="Whole page")).to_be_visible()
        await person.check()


async def test_a_file_is_attached_before_the_first_word_and_read(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/chat/default")
        words = b"# Tides\n\nThe ferry leaves at nine.\n"
        file = FilePayload(name="tides.md", mimeType="text/markdown", buffer=words)
        await person.page.locator(".composer [type=file]").set_input_files(files=[file])
        chip = person.page.locator("#files a", has_text="tides.md")
        await expect(chip).to_contain_text("ready")
        answer = await Room(person).ask("When does the ferry leave?")
        await expect(answer).to_contain_text("The ferry leaves at nine.")
        await person.check()


async def test_somebody_elses_message_appears_without_a_reload(
    server: TestServer, upstream: FakeModel, browser: Browser
) -> None:
    upstream.script[:] = [says("First."), says("Second.")]
    async with signed_in(browser, server, server.start.owner_id) as person, server.client() as other:
        room = await _enter(person)
        await room.ask("One")
        chat = (await server.services[ChatService].list(server.owner, server.start.workspace_id)).items[0]
        url = f"/{server.start.project_id}/main/v1/chat/completions"
        last = await room.answers.last.get_attribute("data-id")
        body = {
            "model": "m",
            "x_chat_id": chat.id,
            "x_parent_message_id": last,
            "messages": [{"role": "user", "content": "Two"}],
        }
        answered = await other.post(url, json=body, headers={"X-Xerotier-Workspace": server.start.workspace_id})
        assert answered.status_code == 200
        await expect(room.answers.last).to_contain_text("Second.")
        await person.check()


async def test_nothing_that_anybody_wrote_runs_while_it_streams_or_afterwards(
    server: TestServer, upstream: FakeModel, browser: Browser
) -> None:
    every = "\n\n".join(PAYLOADS)
    stored = [("save_memory", {"content": attack}) for attack in PAYLOADS[:8]]
    page = {"identifier": "x", "title": PAYLOADS[0], "type": "text/html", "content": every.replace("\0", "")}
    upstream.script[:] = [
        calls(*stored, ("create_artifact", page)),
        says(every, pieces=300),
        calls(("ask_user", {"question": every[:3000], "options": [each[:400] for each in PAYLOADS[:40]]})),
    ]
    async with signed_in(browser, server, server.start.owner_id) as person:
        room = await _enter(person)
        answer = await room.ask(every)
        await answer.locator(".made").click()
        await person.page.locator("#manager iframe").wait_for()
        await room.ask("And now?")
        await person.page.locator("form.reply").wait_for()
        assert await person.page.evaluate("window.__owned") is None
        await person.page.goto(f"{server.url}/chat?q=owned")
        await person.ready()
        assert await person.page.evaluate("window.__owned") is None
        links = await person.page.evaluate("[...document.links].map((link) => link.protocol)")
        assert set(links) <= {"http:", "https:", "mailto:"}
        # The frame's own policy refuses what the artifact wants to load or run, and says so.
        blocked = ("Blocked script execution", "violates the following Content Security Policy", "Refused to")
        assert [each for each in person.problems if not any(words in each for words in blocked)] == []


async def test_a_research_in_depth_tells_how_far_it_is_and_keeps_its_report(
    server: TestServer, browser: Browser
) -> None:
    await seed(server)
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/chat/default")
        await person.page.locator(".composer summary").click()
        await person.page.get_by_label("Deep Think").check()
        await Room(person).write("When does the deploy run, and on what day?")
        await expect(person.page.locator(".running")).to_contain_text("Plan")
        answer = Room(person).answers.last
        await expect(answer).to_contain_text("Fridays", timeout=30_000)
        await person.check()


async def test_a_diagram_is_drawn_in_a_frame_of_no_origin_and_versions_are_compared_beside(
    server: TestServer, upstream: FakeModel, browser: Browser
) -> None:
    drawn = {"identifier": "flow", "title": "Flow", "type": "text/x-mermaid", "content": "graph TD; Build-->Deploy"}
    upstream.script[:] = [
        calls(("create_artifact", drawn)),
        says("Drawn."),
        calls(("update_artifact", {"identifier": "flow", "content": "graph TD; Build-->Release"})),
        says("Changed."),
    ]
    async with signed_in(browser, server, server.start.owner_id) as person:
        room = await _enter(person)
        answer = await room.ask("Draw it")
        await answer.locator(".made").click()
        beside = person.page.locator("#manager")
        frame = person.page.frame_locator("#manager iframe")
        await expect(frame.locator("svg")).to_contain_text("Deploy")
        origin = await frame.locator("body").evaluate("() => window.origin")
        assert origin == "null"
        answer = await room.ask("Change it")
        await answer.locator(".made").click()
        await expect(frame.locator("svg")).to_contain_text("Release")
        await beside.get_by_role("link", name="What changed in version 2").click()
        await expect(beside.locator(".diff .add")).to_contain_text("Release")
        await person.check()


async def test_what_somebody_begins_to_change_is_left_alone_by_news_that_were_on_their_way(
    server: TestServer, upstream: FakeModel, browser: Browser
) -> None:
    upstream.script[:] = [says("Blue.")]
    async with signed_in(browser, server, server.start.owner_id) as person:
        room = await _enter(person)
        await room.ask("Which colour?")
        page, held, asked = person.page, asyncio.Event(), asyncio.Event()

        async def hold(route: Route) -> None:
            asked.set()
            await held.wait()
            await route.continue_()

        await page.route("**/chat/default/*", hold)
        await page.evaluate("document.dispatchEvent(new CustomEvent('holdfast:live', {detail: ['chat.message']}))")
        await asyncio.wait_for(asked.wait(), 30)
        await page.get_by_role("button", name="Edit and send again").click()
        async with page.expect_response("**/chat/default/*"):
            held.set()
        # One more turn of the page, in which it would have put the news in place of what is being written.
        await page.evaluate("new Promise((done) => setTimeout(done, 0))")
        await page.get_by_role("button", name="Cancel").click()
        await expect(room.said).to_have_text(["Which colour?"])


async def test_a_failed_answer_says_so_and_the_next_message_goes_on_from_there(
    server: TestServer, upstream: FakeModel, browser: Browser
) -> None:
    upstream.script[:] = [says("Blue."), Turn(status=400), says("Green.")]
    async with signed_in(browser, server, server.start.owner_id) as person:
        room = await _enter(person)
        await room.ask("Which colour?")
        for _ in range(2):
            await room.person.page.get_by_role("button", name="Edit and send again").click()
            await person.page.get_by_role("button", name="Cancel").click()
            await expect(room.said).to_have_text(["Which colour?"])
        await room.write("Another")
        await expect(person.page.get_by_role("alert")).to_contain_text("The answer failed")
        person.problems.clear()
        await room.ask("Go on")
        await expect(room.said).to_have_text(["Which colour?", "Another", "Go on"])
        said = [each["content"] for each in upstream.requests[-1]["messages"] if each["role"] == "user"]
        assert said == ["Which colour?", "Another", "Go on"]
        await person.check()
