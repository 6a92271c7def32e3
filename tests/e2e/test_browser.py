"""A person in a real browser: sign in, look around, sign out; and the API's documentation page."""

import os
import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database) as running:
        yield running


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        reason = "Chromium is not installed (Debian: apt-get install chromium)."
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(reason)
        pytest.skip(reason)
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield launched
        await launched.close()


async def test_a_person_signs_in_by_link_sees_their_team_and_signs_out(server: TestServer, browser: Browser) -> None:
    link = await server.link(server.start.owner_id)
    page = await browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    await page.goto(f"{server.url}/sign-in?link={link}")
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("heading", name="My team").wait_for()
    assert server.start.workspace_id in await page.content()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_label("E-mail").wait_for()
    await page.goto(server.url)
    assert page.url.endswith("/sign-in")
    assert problems == []


async def test_a_wrong_password_is_said_and_a_right_one_opens(server: TestServer, browser: Browser) -> None:
    await server.services.identity.create_user(
        server.owner, email="ada@example.com", name="Ada <script>", password="a long password"
    )
    page = await browser.new_page()
    for password in ("wrong password", "a long password"):
        await page.goto(f"{server.url}/sign-in")
        await page.get_by_label("E-mail").fill("ada@example.com")
        await page.get_by_label("Password").fill(password)
        await page.get_by_role("button", name="Sign in").click()
        if password == "wrong password":
            await page.get_by_role("alert").wait_for()
    await page.get_by_text("Ada <script>").wait_for()


async def test_the_api_page_lists_every_operation(server: TestServer, browser: Browser) -> None:
    page = await browser.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    await page.goto(f"{server.url}/api/docs")
    await page.get_by_text("/api/workspaces/{workspace_id}/memories").first.wait_for()
    assert await page.locator("details").count() > 60
    assert problems == []
