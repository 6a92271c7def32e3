"""The way from the first page to a client that calls: two steps at a desk and on a phone, by mouse and by keyboard."""

import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.browsing import Person, signed_in
from tests.support.pages.dashboard import people
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "claude-code", "version": "1"},
    },
}


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


async def _downloaded(person: Person, button: Locator) -> Path:
    async with person.page.expect_download() as downloading:
        await person.press(button)
    bundle = await downloading.value
    assert bundle.suggested_filename == "xerotier-claude-code.zip"
    return await bundle.path()


async def _call_with(server: TestServer, bundle: Path) -> None:
    """Introduce oneself as the client does that reads the downloaded file."""
    with zipfile.ZipFile(bundle) as files:
        [connection] = json.loads(files.read(".mcp.json"))["mcpServers"].values()
    async with server.client(connection["headers"]["Authorization"].removeprefix("Bearer ")) as client:
        headers = {"Accept": "application/json, text/event-stream"}
        answer = await client.post(f"/{server.start.project_id}/v1/mcp", json=HELLO, headers=headers)
        assert answer.status_code == 200


@pytest.mark.contract("XM-20")
@pytest.mark.contract("XM-21")
@pytest.mark.parametrize(
    ("by", "size", "theme", "role"),
    [
        ("mouse", "phone", "dark", "owner"),
        ("mouse", "desk", "light", "admin"),
        ("keyboard", "phone", "light", "admin"),
        ("keyboard", "desk", "dark", "owner"),
    ],
)
async def test_from_the_first_page_to_a_connected_client_in_two_steps(
    server: TestServer, browser: Browser, by: str, size: str, theme: str, role: str
) -> None:
    user_id = (await people(server))[role]
    async with signed_in(browser, server, user_id, size=size, theme=theme, by_keyboard=by == "keyboard") as person:
        page = person.page
        await person.check()
        await person.press(page.get_by_role("main").get_by_role("link", name="Connect a client"))
        await person.ready()
        bundle = await _downloaded(person, page.get_by_role("button", name="Download for Claude Code"))
        assert person.steps == 2
        card = page.locator("#client-claude-code")
        await expect(card).to_contain_text("waits for its first call")
        await _call_with(server, bundle)
        await expect(card.get_by_text("connected", exact=True)).to_be_visible()
        await expect(card).to_contain_text("A download makes a new key and ends the connection of")
        await person.check()
        await person.open("/")
        await expect(page.get_by_role("heading", name="Needs you")).to_be_visible()


async def test_a_client_is_connected_beside_a_chat_too(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.press(page.get_by_role("link", name="Chat", exact=True))
        await person.ready()
        bundle = await _downloaded(person, page.get_by_role("button", name="Download for Claude Code"))
        assert person.steps == 2
        await _call_with(server, bundle)
        await expect(page.locator("#client-claude-code").get_by_text("connected", exact=True)).to_be_visible()
        await person.check()


async def test_the_first_page_offers_to_connect_until_a_client_has_called(server: TestServer, browser: Browser) -> None:
    known = NewMemory("The deploy runs on Fridays at noon.")
    await server.services[MemoryService].save(server.owner, server.start.workspace_id, known)
    async with signed_in(browser, server, server.start.owner_id) as person:
        offer = person.page.get_by_role("main").get_by_role("link", name="Connect a client")
        await expect(offer).to_be_visible()
        await person.press(offer)
        await person.ready()
        bundle = await _downloaded(person, person.page.get_by_role("button", name="Download for Claude Code"))
        await _call_with(server, bundle)
        await person.open("/")
        await expect(person.page.get_by_text("The deploy runs on Fridays").first).to_be_visible()
        await expect(offer).to_have_count(0)
