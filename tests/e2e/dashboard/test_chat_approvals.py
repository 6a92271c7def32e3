"""A chat whose model calls a tool that needs a person: the card, decided inside the chat, and the turn that goes on."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Locator, expect

from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm.model import FakeModel, calls, model, says
from tests.fakes.mcp.inside import InsideServers
from tests.support.execution.counting import enrolled
from tests.support.pages.browsing import Person, signed_in
from tests.support.pages.chatting import Room
from tests.support.pages.dashboard import people
from tests.support.server import TestServer, serving
from tests.surfaces.openai.endpoint import connect

pytestmark = pytest.mark.slow

COUNT = calls(("demo.count", {"name": "a"}))


@pytest.fixture
async def inside() -> InsideServers:
    return InsideServers()


@pytest.fixture
async def upstream() -> AsyncIterator[FakeModel]:
    async with model() as fake:
        yield fake


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, inside: InsideServers) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, instead=inside.instead(), requests_per_minute=100_000) as running:
        await enrolled(running.services, running.owner, running.start.workspace_id)
        yield running


async def asked(person: Person, room: Room, text: str = "Count one, please.") -> Locator:
    """Ask with the tool ticked, and wait for the card."""
    menu = person.page.locator(".composer details.menu")
    await menu.locator("summary").click()
    await person.page.get_by_label("demo.count").check()
    await person.page.keyboard.press("Escape")
    await room.ask(text)
    card = person.page.locator(".question", has_text="Approve demo.count?").last
    await expect(card.get_by_role("button", name="Approve")).to_be_visible()
    return card


@pytest.mark.contract("XM-11")
@pytest.mark.parametrize(("size", "theme"), [("phone", "dark"), ("desk", "light")])
@pytest.mark.parametrize("decision", ["Approve", "Deny"])
async def test_a_person_decides_inside_the_chat_and_the_turn_goes_on_by_itself(
    server: TestServer,
    inside: InsideServers,
    upstream: FakeModel,
    browser: Browser,
    size: str,
    theme: str,
    decision: str,
) -> None:
    await connect(server, upstream, "main")
    upstream.script[:] = [COUNT, says("I know what came of it.")]
    async with signed_in(browser, server, server.start.owner_id, size=size, theme=theme) as person:
        await person.open("/chat/default")
        room = Room(person)
        await room.choose("main")
        card = await asked(person, room)
        await expect(card).to_contain_text('"name": "a"')
        assert inside.server.runs["count"] == 0
        await person.check()
        await card.get_by_role("button", name=decision).click()
        await expect(room.answers.last).to_contain_text("I know what came of it.")
        await expect(card).to_contain_text("approved" if decision == "Approve" else "denied")
        await expect(card.get_by_role("button")).to_have_count(0)
        # What the model was told of its call is not shown as something that the person said.
        await expect(room.said).to_have_count(1)
        await person.page.get_by_text("What came of the call").click()
        await expect(person.page.locator(".message.other")).to_contain_text("demo.count")
        await person.check()
    assert inside.server.runs["count"] == int(decision == "Approve")
    assert upstream.refused == []


@pytest.mark.contract("XM-11")
async def test_the_card_is_there_after_a_restart_and_still_decides(
    sqlite_database: SqliteDatabase, inside: InsideServers, upstream: FakeModel, browser: Browser
) -> None:
    upstream.script[:] = [COUNT, says("It was counted after all.")]
    async with serving(sqlite_database, instead=inside.instead()) as before:
        await enrolled(before.services, before.owner, before.start.workspace_id)
        await connect(before, upstream, "main")
        async with signed_in(browser, before, before.start.owner_id) as person:
            await person.open("/chat/default")
            room = Room(person)
            await room.choose("main")
            await asked(person, room)
            path = person.page.url.removeprefix(before.url)
    async with (
        serving(sqlite_database, instead=inside.instead()) as after,
        signed_in(browser, after, after.start.owner_id) as person,
    ):
        await person.open(path)
        await person.page.locator(".question").get_by_role("button", name="Approve").click()
        await expect(Room(person).answers.last).to_contain_text("It was counted after all.")
    assert inside.server.runs["count"] == 1


async def test_a_tool_allowed_for_the_rest_of_a_chat_is_not_asked_about_there_again(
    server: TestServer, inside: InsideServers, upstream: FakeModel, browser: Browser
) -> None:
    await connect(server, upstream, "main")
    upstream.script[:] = [COUNT, says("Counted."), calls(("demo.count", {"name": "b"})), says("And again.")]
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/chat/default")
        room = Room(person)
        await room.choose("main")
        card = await asked(person, room)
        await card.get_by_label("Allow this tool for the rest of this chat").check()
        await card.get_by_role("button", name="Approve").click()
        await expect(room.answers.last).to_contain_text("Counted.")
        await room.ask("Once more.")
        await expect(room.answers.last).to_contain_text("And again.")
        await expect(person.page.locator(".question")).to_have_count(1)
    assert inside.server.runs["count"] == 2


async def test_a_card_of_a_destructive_tool_decides_one_call_and_a_member_decides_none(
    server: TestServer, upstream: FakeModel, browser: Browser
) -> None:
    await connect(server, upstream, "main")
    change = ToolChange(destructive=True)
    await server.services[ToolPins].set(server.owner, server.start.workspace_id, "demo", "count", change)
    upstream.script[:] = [COUNT]
    async with signed_in(browser, server, server.start.owner_id) as person:
        await person.open("/chat/default")
        room = Room(person)
        await room.choose("main")
        card = await asked(person, room)
        await expect(card.get_by_role("checkbox")).to_have_count(0)
        path = person.page.url.removeprefix(server.url)
    async with signed_in(browser, server, (await people(server))["member"]) as member:
        await member.open(path)
        card = member.page.locator(".question")
        await expect(card).to_contain_text("An admin of the workspace has to decide.")
        await expect(card.get_by_role("button")).to_have_count(0)
        await member.check()
