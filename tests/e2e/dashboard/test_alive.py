"""What lives in the browser: events in every tab, keys, dropped files, the graph by keyboard."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, Page, Route, expect

from holdfast.features.cases.model import NewCase, NewLink
from holdfast.features.cases.proofs.model import NewProof
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.service import CaseService
from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.intelligence.model import NewDecision, NewRelation, Ref
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.features.secrets.service import Secrets
from holdfast.features.usage.service import Usage
from holdfast.storage.database import Tx
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.browsing import signed_in
from tests.support.pages.dashboard import seed, work_done
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow

_DROP = """(target, {name, text}) => {
  const carried = new DataTransfer();
  carried.items.add(new File([text], name, {type: "text/markdown"}));
  target.dispatchEvent(new DragEvent("drop", {dataTransfer: carried, bubbles: true, cancelable: true}));
}"""


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000, data_dir=tmp_path / "data") as running:
        await seed(running)
        yield running


async def test_what_another_person_saves_appears_without_a_reload(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person, server.client() as other:
        await person.page.get_by_text("The deploy runs on Fridays").first.wait_for()
        async with person.page.expect_request(lambda request: request.url.endswith("/events")):
            await person.open("/")
        path = f"/api/workspaces/{server.start.workspace_id}/memories"
        saved = await other.post(path, json={"content": "The build cache lives on the second disk."})
        assert saved.status_code == 201
        await person.page.get_by_text("The build cache lives on the second disk").first.wait_for()
        assert person.problems == []


async def test_a_case_shows_its_proofs_as_they_come_and_what_was_unfolded_stays_so(
    server: TestServer, browser: Browser
) -> None:
    cases, proofs, place = server.services[CaseService], server.services[ProofService], server.start.workspace_id
    case = await cases.add(server.owner, place, NewCase(title="Mend the roof", criteria=("It is dry",)))
    first = await proofs.add(server.owner, place, case.id, NewProof(kind="word", claim="I touched it"))
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        async with page.expect_request(lambda request: _is_stream(request.url)):
            await person.open(f"/w/default/cases/{case.id}")
        unfolded = page.locator(f"#{first.proof.id}")
        await unfolded.locator("summary").click()
        reported = NewProof(kind="reported", outcome="failed", claim="It drips", criteria=("c1",))
        second = await proofs.add(server.owner, place, case.id, reported)
        await page.locator(f"#{second.proof.id}").wait_for()
        await expect(unfolded).to_have_attribute("open", "")
        assert person.problems == []


async def test_three_tabs_hear_of_everything_over_one_connection(server: TestServer, browser: Browser) -> None:
    listening: list[str] = []
    async with signed_in(browser, server, server.start.owner_id) as person, server.client() as other:
        context = person.page.context
        context.on("request", lambda request: listening.append(request.url) if _is_stream(request.url) else None)
        tabs: list[Page] = [person.page, await context.new_page(), await context.new_page()]
        async with context.expect_event("request", lambda request: _is_stream(request.url)):
            for tab in tabs:
                await tab.goto(f"{server.url}/w/default/memory")
        for tab in tabs:
            await tab.locator("html[data-ready]").wait_for(state="attached")
        path = f"/api/workspaces/{server.start.workspace_id}/memories"
        saved = await other.post(path, json={"content": "The build cache lives on the second disk."})
        assert saved.status_code == 201
        for tab in tabs:
            await tab.get_by_text("The build cache lives on the second disk").first.wait_for()
        # Whoever listens next takes the lock over; meanwhile there is one stream for all.
        open_now = [each for each in listening if _is_stream(each)]
        assert 1 <= len(open_now) <= 2, open_now


def _is_stream(url: str) -> bool:
    return url.endswith("/events")


async def test_a_decision_and_an_artifact_appear_on_their_pages_without_a_reload(
    server: TestServer, browser: Browser
) -> None:
    intelligence, workspace = server.services[IntelligenceService], server.start.workspace_id
    async with signed_in(browser, server, server.start.owner_id) as person:
        async with person.page.expect_request(lambda request: _is_stream(request.url)):
            await person.open("/w/default/decisions")
        await intelligence.decisions.track(server.owner, workspace, NewDecision("Ship on Thursdays", "Quiet day."))
        await person.page.get_by_role("link", name="Ship on Thursdays").wait_for()
        await person.check()


async def test_single_keys_do_nothing_once_they_are_switched_off(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/w/default/memory")
        await person.page.keyboard.press("j")
        assert await person.page.evaluate("document.activeElement.className") == "title"
        await person.open("/settings/profile")
        await person.page.get_by_label("Single keys").uncheck()
        await person.page.locator("form", has=person.page.get_by_label("Theme")).get_by_role("button").click()
        await person.page.get_by_role("status").wait_for()
        await person.open("/w/default/memory")
        await person.page.keyboard.press("j")
        await person.page.keyboard.press("?")
        assert await person.page.evaluate("document.activeElement.tagName") == "BODY"
        await person.page.keyboard.press("Control+k")
        await person.page.get_by_role("dialog", name="Find anything").wait_for()
        assert person.problems == []


async def test_a_dropped_file_is_taken_and_an_unwanted_one_says_why(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/w/default/documents")
        place = person.page.locator("drop-upload")
        await place.evaluate(_DROP, {"name": "zoo.md", "text": "# Zoo\n\nThe giraffe is fed at noon."})
        await person.page.get_by_role("link", name="Zoo").wait_for()
        await work_done(server)
        await person.page.get_by_text("ready").nth(1).wait_for()
        assert person.problems == []
        await place.evaluate(_DROP, {"name": "empty.md", "text": ""})
        await person.page.get_by_role("alert").get_by_text("empty.md").wait_for()


async def test_a_dropped_file_is_imported_and_reported(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/w/default/memory/import")
        place = person.page.locator("import-files")
        note = {"name": "note.md", "text": "# Giraffes\n\nThe giraffe house opens at nine in the morning.\n"}
        await place.evaluate(_DROP, note)
        await person.page.get_by_text("1 new (Memories 1)").wait_for()
        await place.evaluate(_DROP, note)
        await person.page.get_by_text("1 known already").wait_for()
        await person.check()


async def test_what_is_typed_before_the_palette_is_there_is_searched_and_enter_waits_for_it(
    server: TestServer, browser: Browser
) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        asked, answer = asyncio.Event(), asyncio.Event()

        async def late(route: Route) -> None:
            asked.set()
            await answer.wait()
            await route.continue_()

        await page.route("**/find", late)
        await person.open("/w/default/memory")
        await page.keyboard.press("Control+k")
        await asked.wait()
        await page.keyboard.type("giraffe")
        answer.set()
        await expect(page.get_by_role("searchbox", name="Find anything")).to_have_value("giraffe")
        await page.keyboard.press("Enter")
        # What is found first depends on what other tests left; the first page of the navigation it is not.
        await page.wait_for_url(re.compile(r"/(w/default/(documents|memory)|chat/default)/."))
        assert person.problems == []


async def test_the_graph_of_500_nodes_is_walked_by_keyboard_with_its_table_beside(
    server: TestServer, browser: Browser
) -> None:
    services, workspace = server.services, server.start.workspace_id
    memories, relations = services[MemoryService], services[IntelligenceService].relations
    made = []
    for at in range(500):
        saved = await memories.save(server.owner, workspace, NewMemory(f"Service {at} is run by team {at} alone."))
        assert saved.memory is not None
        made.append(Ref("memory", saved.memory.id))
    for at in range(1, 500):
        await relations.relate(server.owner, workspace, NewRelation(made[at], made[at // 3], "depends_on"))
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/w/default/graph")
        nodes = person.page.locator("graph-view [data-node]")
        assert await nodes.count() == 500
        await person.reach(nodes.first)
        seen = set()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "+", "+", "-"):
            await person.page.keyboard.press(key)
            seen.add(await person.page.evaluate("document.activeElement.dataset.node"))
        assert len(seen) >= 4 and await person.page.locator("line.near").count() > 0
        assert await person.page.locator("table tbody tr").count() >= 400
        await person.check()
        await person.page.keyboard.press("Enter")
        await person.page.get_by_role("link", name="Everything").wait_for()
        await person.check()


async def test_what_is_around_a_case_is_walked_by_keyboard_on_its_page(server: TestServer, browser: Browser) -> None:
    cases, workspace = server.services[CaseService], server.start.workspace_id
    roof = await cases.add(server.owner, workspace, NewCase(title="Mend the roof"))
    for title in ("Buy slate", "Rent a ladder", "Ask the neighbour"):
        await cases.add(server.owner, workspace, NewCase(title=title, links=(NewLink("blocks", roof.id),)))
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open(f"/w/default/cases/{roof.id}")
        nodes = person.page.locator("graph-view [data-node]")
        assert await nodes.count() == 4
        await person.reach(nodes.first)
        assert await person.page.evaluate("document.activeElement.dataset.node") == roof.id
        assert await person.page.locator("line.near").count() == 3
        await person.page.keyboard.press("ArrowRight")
        assert await person.page.evaluate("document.activeElement.dataset.node") != roof.id
        assert await person.page.locator("#graph table tbody tr").count() == 3
        await person.check()
        await person.page.keyboard.press("Enter")
        await person.page.get_by_role("link", name="Everything").wait_for()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/settings/keys", "night watch"),
        ("/settings/people", "Edsger Dijkstra"),
        ("/settings/people", "barbara@example.com"),
        ("/w/default/settings/members", "Edsger Dijkstra"),
        ("/settings/endpoints", "second-model"),
        ("/settings/audit", "key.create"),
        ("/settings/usage", "never-seen-model"),
        ("/w/default/settings/secrets", "LINEAR_API_KEY"),
    ],
)
async def test_what_somebody_else_sets_up_appears_without_a_reload(
    server: TestServer, browser: Browser, path: str, text: str
) -> None:
    services = server.services
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open(f"{path}?action=key.create" if path.endswith("audit") else path)
        shown = person.page.get_by_role("main").get_by_text(text)
        before = await shown.count()
        await services.keys.create(server.owner, NewKey(name="night watch", project_id=server.start.project_id))
        await services.identity.create_user(server.owner, email="edsger@example.com", name="Edsger Dijkstra")
        await services[Invitations].invite(server.owner, email="barbara@example.com", name="", role="member")
        upstream = EndpointUpstream(base_url="https://api.example.com/v1", model="second-model")
        await services[Endpoints].create(server.owner, server.start.project_id, "second", [upstream])
        await services[Secrets].set(server.owner, server.start.workspace_id, "LINEAR_API_KEY", "a value")
        services[Usage].log(
            server.owner, source="rest", operation="ask", model="never-seen-model", tokens_in=9, tokens_out=9
        )
        await expect(shown).not_to_have_count(before)
        await person.check()


async def test_what_happens_in_another_workspace_appears_where_all_are_shown(
    server: TestServer, browser: Browser
) -> None:
    other = await server.services.workspaces.create(server.owner, server.start.project_id, "Other")
    async with signed_in(browser, server, server.start.owner_id) as person, server.client() as client:
        await person.open("/chat")
        body = {"model": "any", "x_chat_id": "far", "messages": [{"role": "user", "content": "What is a quokka?"}]}
        url, within = f"/{server.start.project_id}/default/v1/chat/completions", {"X-Xerotier-Workspace": other.id}
        (await client.post(url, json=body, headers=within)).raise_for_status()
        await person.page.get_by_role("main").get_by_role("link", name="What is a quokka?").wait_for()


async def test_what_was_saved_while_the_page_was_on_its_way_appears_too(server: TestServer, browser: Browser) -> None:
    memories, workspace = server.services[MemoryService], server.start.workspace_id

    async def late(route: Route) -> None:
        # The page is made; what happens before its scripts run is heard all the same.
        answer = await route.fetch()
        await memories.save(server.owner, workspace, NewMemory("The build cache lives on the second disk."))
        await route.fulfill(response=answer)

    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.page.route("**/w/default/memory", late)
        await person.open("/w/default/memory")
        await person.page.get_by_role("link", name="The build cache lives").wait_for()


async def test_a_form_that_somebody_fills_in_is_left_alone_by_what_happens(
    server: TestServer, browser: Browser
) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/settings/people")
        await person.page.get_by_role("button", name="Remove Grace Hopper").click()
        dialog = person.page.get_by_role("dialog", name="Remove Grace Hopper?")
        await dialog.get_by_label("Also revoke the keys").check()
        other = await person.page.context.new_page()
        await other.goto(f"{server.url}/settings/people")
        await server.services.identity.create_user(server.owner, email="edsger@example.com", name="Edsger Dijkstra")
        await other.get_by_text("Edsger Dijkstra", exact=True).wait_for()
        await expect(dialog.get_by_label("Also revoke the keys")).to_be_checked()
        # Once the dialog is closed, the list is looked at again.
        await dialog.get_by_role("button", name="Cancel").click()
        await person.page.get_by_text("Edsger Dijkstra", exact=True).wait_for()
        assert person.problems == []


async def test_a_list_that_is_searched_stays_searched_when_somebody_else_saves(
    server: TestServer, browser: Browser
) -> None:
    memories, workspace = server.services[MemoryService], server.start.workspace_id
    async with signed_in(browser, server, server.start.owner_id) as person, server.client() as other:
        page, listed = person.page, person.page.locator("#memories")
        async with page.expect_request(lambda request: _is_stream(request.url)):
            await person.open("/w/default/memory")
        await page.get_by_role("searchbox", name="Search").fill("deploy fridays")
        await expect(listed).not_to_contain_text("rate limit")
        async with page.expect_response(lambda answer: "/w/default/memory?" in answer.url):
            await memories.save(server.owner, workspace, NewMemory(content="The cache lives on the second disk."))
        await expect(listed).to_contain_text("Fridays")
        await expect(listed).not_to_contain_text("rate limit")
        await page.get_by_role("link", name="#ops").first.click()
        await expect(page.get_by_role("searchbox", name="Search")).to_have_value("deploy fridays")
        async with page.expect_request(lambda request: _is_stream(request.url)):
            await person.open("/w/default/documents")
        found = page.locator("#found")
        await page.get_by_role("searchbox").fill("giraffe")
        await expect(found).to_contain_text("is fed at noon")
        async with page.expect_response(lambda answer: "/w/default/documents" in answer.url):
            file = {"file": ("more.md", b"# More\n\nNothing else.\n", "text/markdown")}
            (await other.post(f"/api/workspaces/{workspace}/documents", files=file)).raise_for_status()
        await expect(found).to_contain_text("is fed at noon")
        await person.check()


@pytest.mark.parametrize("path", ["/w/default/memory", "/w/default/documents", "/chat", "/chat/default"])
async def test_what_was_asked_last_is_shown_however_slow_the_answers_before(
    server: TestServer, browser: Browser, path: str
) -> None:
    asked: list[str] = []
    is_last = asyncio.Event()

    async def slow(route: Route) -> None:
        asked.append(parse_qs(urlsplit(route.request.url).query, keep_blank_values=True)["q"][0])
        if asked[-1] == "third":
            is_last.set()
            await route.continue_()

    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open(path)
        await person.page.route(re.compile(r"[?&]q="), slow)
        form = person.page.locator("form[role=search]:has([name=q][type=search])").first
        for words in ("first", "second", "third"):
            await form.evaluate("(form, words) => { form.elements.q.value = words; form.requestSubmit(); }", words)
        async with asyncio.timeout(20):
            await is_last.wait()
        await person.check()
    assert asked == ["first", "second", "third"], "no answer was waited for, and none was left out"


async def test_the_slider_goes_back_to_what_was_known_on_a_day_by_keyboard(
    server: TestServer, browser: Browser
) -> None:
    def age(tx: Tx) -> None:
        tx.execute("UPDATE workspace SET created_at = created_at - :by", {"by": 10 * 24 * 60 * 60 * 1000})

    await server.services.database.write(age)
    async with signed_in(browser, server, server.start.owner_id) as person:
        page, listed = person.page, person.page.locator("#memories")
        await person.open("/w/default/memory")
        slider = page.get_by_role("slider", name="As of")
        await slider.focus()
        await page.keyboard.press("ArrowLeft")
        await expect(listed).to_contain_text("No memory fits")
        await expect(page.locator("[name=as_of]")).not_to_have_value("")
        await person.check()
        await page.reload()
        await person.ready()
        await expect(slider).to_have_value("9")
        await slider.focus()
        await page.keyboard.press("End")
        await expect(listed).to_contain_text("Fridays")
        await person.check()
