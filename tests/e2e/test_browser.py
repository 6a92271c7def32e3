"""A person in a real browser: sign in, look around, sign out; and the API's documentation page."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database) as running:
        yield running


async def test_a_person_signs_in_by_link_sees_their_team_and_signs_out(server: TestServer, browser: Browser) -> None:
    link = await server.link(server.start.owner_id)
    page = await browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    await page.goto(f"{server.url}/sign-in?link={link}")
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("heading", name="Good to see you").wait_for()
    await page.get_by_text("My team").wait_for()
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
    await page.get_by_text("Ada <script>", exact=True).wait_for()


async def _api_page(server: TestServer, page: Page, problems: list[str]) -> None:
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    await page.goto(f"{server.url}/api/docs")
    await page.get_by_text("/api/workspaces/{workspace_id}/memories").first.wait_for()


async def _open(page: Page, method: str, path: str) -> Locator:
    """The form of one operation."""
    exactly = re.compile(f"^{method}{re.escape(path)}[A-Z]")
    form = page.locator("details.operation").filter(has=page.locator("summary").filter(has_text=exactly))
    await form.locator("summary").first.click()
    return form


async def test_the_api_page_lists_every_operation_and_finds_some(server: TestServer, browser: Browser) -> None:
    page, problems = await browser.new_page(), list[str]()
    await _api_page(server, page, problems)
    assert await page.locator("details.operation").count() > 60
    await page.get_by_label("Find").fill("post documents")
    shown = page.locator("details.operation:visible")
    assert 0 < await shown.count() < 10 and "/documents" in await shown.first.inner_text()
    assert problems == []


async def test_a_call_is_tried_with_a_pasted_key_that_stays_on_the_page(server: TestServer, browser: Browser) -> None:
    page, problems = await browser.new_page(), list[str]()
    await _api_page(server, page, problems)
    assert "Paste a key" in await page.locator("#who").inner_text()
    await page.get_by_label("API key").fill(server.key)
    await page.get_by_label("API key").press("Enter")
    await page.get_by_text("The key is used").wait_for()
    form = await _open(page, "POST", "/api/workspaces/{workspace_id}/memories")
    # The only workspace is filled in once the key is known; the body begins with what is needed.
    await expect(form.get_by_label("workspace_id")).to_have_value(server.start.workspace_id)
    body = json.loads(await form.locator("textarea").input_value())
    assert body["content"] == ""
    await form.locator("textarea").fill(json.dumps({"content": "The deploy runs on <b>Fridays</b>"}))
    await form.get_by_role("button", name="Send").click()
    await form.get_by_text("201 Created").wait_for()
    assert "the-deploy-runs-on" in await form.locator(".answer pre").first.inner_text()
    assert server.key not in await form.locator(".curl").inner_text()
    form = await _open(page, "GET", "/api/workspaces/{workspace_id}/search")
    await form.get_by_label("q in query").fill("deploy")
    await form.get_by_role("button", name="Send").click()
    await form.get_by_text("<b>Fridays</b>").first.wait_for()
    assert problems == []
    stored = await page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert server.key not in stored


async def test_a_call_is_tried_by_whoever_is_signed_in_and_mistakes_are_shown(
    server: TestServer, browser: Browser
) -> None:
    page, problems = await browser.new_page(), list[str]()
    await page.goto(f"{server.url}/sign-in?link={await server.link(server.start.owner_id)}")
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("link", name="API documentation").click()
    await _api_page(server, page, problems)
    await page.get_by_text("what you send is done in your name").wait_for()
    form = await _open(page, "POST", "/api/projects")
    await form.locator("textarea").fill("{ oops")
    await form.get_by_role("button", name="Send").click()
    await form.get_by_text("The body is not JSON").wait_for()
    await form.locator("textarea").fill('{"name": "Rocket"}')
    await form.get_by_role("button", name="Send").click()
    await form.get_by_text("201 Created").wait_for()
    assert problems == []
    assert "Rocket" in {each.name for each in (await server.services.identity.projects(server.owner, limit=9)).items}
    await form.locator("textarea").fill('{"nome": "Rocket"}')
    await form.get_by_role("button", name="Send").click()
    await form.get_by_text("422").wait_for()
    assert "nome" in await form.locator(".answer pre").first.inner_text()


async def test_files_are_sent_and_streams_are_followed_from_the_api_page(
    server: TestServer, browser: Browser, tmp_path: Path
) -> None:
    note = tmp_path / "note.md"
    note.write_text("# Zoo\n\nThe giraffe is fed at noon.\n")
    page, problems = await browser.new_page(), list[str]()
    await _api_page(server, page, problems)
    await page.get_by_label("API key").fill(server.key)
    await page.get_by_label("API key").press("Enter")
    following = await _open(page, "GET", "/api/workspaces/{workspace_id}/events")
    await expect(following.get_by_label("workspace_id")).to_have_value(server.start.workspace_id)
    await following.get_by_role("button", name="Send").click()
    await following.get_by_text(": following").wait_for()
    form = await _open(page, "POST", "/api/workspaces/{workspace_id}/documents")
    await form.locator("input[type=file]").set_input_files(note)
    await form.get_by_role("button", name="Send").click()
    await form.get_by_text("201 Created").wait_for()
    await following.get_by_text("document.create").first.wait_for()
    await following.get_by_role("button", name="Stop").click()
    await following.get_by_text("stopped").wait_for()
    assert problems == []


async def test_the_api_page_runs_nothing_of_its_own_inline_and_nothing_from_elsewhere(server: TestServer) -> None:
    async with server.stranger() as client:
        page = await client.get("/api/docs")
        assets = [await client.get(f"/api/docs.{kind}") for kind in ("js", "css")]
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert (
        "<style" not in page.text and page.text.count("<script") == page.text.count('<script src="/api/docs.js"') == 1
    )
    assert [each.status_code for each in assets] == [200, 200]
    script = assets[0].text
    assert "innerHTML" not in script and "eval(" not in script and "//cdn" not in script
