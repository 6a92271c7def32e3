"""Rights that a running agent asks for: a dialog over its live page, one after the other, by mouse and by keyboard."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect

from holdfast.core.clock import Clock
from holdfast.core.ids import new_id
from holdfast.features.agents.sessions import store as session_store
from holdfast.features.agents.sessions.base import SessionBase
from holdfast.features.agents.sessions.model import AgentSession, SessionQuestion
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.execution.policies.grants import Grants
from holdfast.storage.database import Tx
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.browsing import signed_in
from tests.support.pages.dashboard import people, seed_sessions
from tests.support.server import TestServer, serving

pytestmark = [pytest.mark.slow, pytest.mark.contract("XA-7")]


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


async def ask(server: TestServer, session: AgentSession, scope: str) -> None:
    """What the session's own tool does when its agent asks for a right."""
    services = server.services
    base = services[SessionBase]

    def work(tx: Tx) -> None:
        details = {"grant_type": "tool_scope", "scope": "once", "details": {"scope": scope}}
        new = SessionQuestion(
            id=new_id("qst"),
            session_id=session.id,
            workspace_id=session.workspace_id,
            request_id=scope,
            kind="grant",
            question=f"I need {scope}.",
            details=details,
            created_at=services[Clock].now(),
        )
        session_store.insert_question(tx, new)
        base.publish(tx, session, "asked")

    await services.database.write(work)


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
@pytest.mark.parametrize(("size", "theme"), [("phone", "dark"), ("desk", "light")])
async def test_rights_are_given_in_a_dialog_one_after_the_other(
    server: TestServer, browser: Browser, by: str, size: str, theme: str
) -> None:
    waiting, _ = await seed_sessions(server)
    await ask(server, waiting, "linear.close")
    ids = await people(server)
    admin, keyboard = ids["workspace admin"], by == "keyboard"
    async with signed_in(browser, server, admin, size=size, theme=theme, by_keyboard=keyboard) as person:
        page = person.page
        await person.open(f"/w/default/sessions/{waiting.id}")
        dialog = page.locator("dialog[open]")
        await expect(dialog).to_contain_text("linear.write")
        await expect(dialog).to_contain_text("1 of 2")
        # What somebody was about to type decides nothing: the focus is on the words.
        await expect(dialog.get_by_role("heading")).to_be_focused()
        await person.check()
        # A third one comes while the first is read.
        await ask(server, waiting, "linear.delete")
        await expect(dialog).to_contain_text("1 of 3")
        await person.press(dialog.get_by_role("button", name="Allow once"))
        await expect(dialog).to_contain_text("linear.close")
        # Put off: nothing is decided, the next one is shown, and the card still asks.
        await page.keyboard.press("Escape")
        await expect(dialog).to_contain_text("linear.delete")
        await person.press(dialog.get_by_role("button", name="Refuse"))
        await expect(dialog).to_have_count(0)
        card = page.locator(".asks")
        await expect(card).to_have_count(1)
        await expect(card).to_contain_text("linear.close")
        await person.check()
        assert page.url.endswith(waiting.id)
        await page.reload()
        await expect(dialog).to_contain_text("linear.close")
        # Somebody else decides it meanwhile.
        questions = await server.services[AgentSessions].questions(server.owner, waiting.id)
        (left,) = [each for each in questions if each.state == "pending"]
        async with await server.browser(server.start.owner_id) as other:
            path = f"/w/default/sessions/{waiting.id}/questions/{left.id}/decide"
            assert (await other.post(path, data={"decision": "persistent"})).status_code == 303
        await expect(dialog).to_have_count(0)
        await page.get_by_text("Somebody decided it meanwhile.").wait_for()
    grants = await server.services[Grants].list(server.owner, server.start.workspace_id)
    assert sorted((each.details["scope"], each.scope) for each in grants) == [
        ("linear.close", "persistent"),
        ("linear.write", "once"),
    ]


async def test_a_right_that_is_asked_for_while_somebody_writes_waits_for_them(
    server: TestServer, browser: Browser
) -> None:
    waiting, _ = await seed_sessions(server)
    async with signed_in(browser, server, server.start.owner_id) as person:
        page = person.page
        await person.open(f"/w/default/sessions/{waiting.id}")
        dialog = page.locator("dialog[open]")
        await expect(dialog).to_contain_text("linear.write")
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await page.get_by_label("Say something to it").press_sequentially("Look at")
        await ask(server, waiting, "linear.close")
        await expect(page.locator("rights-asked dialog")).to_have_count(2)
        assert await dialog.count() == 0
        await page.keyboard.press("Tab")
        await expect(dialog).to_contain_text("linear.close")
        await person.check()


async def test_who_may_not_decide_sees_no_dialog(server: TestServer, browser: Browser) -> None:
    waiting, _ = await seed_sessions(server)
    ids = await people(server)
    async with signed_in(browser, server, ids["member"]) as person:
        await person.open(f"/w/default/sessions/{waiting.id}")
        await expect(person.page.get_by_text("An admin of this workspace decides.")).to_be_visible()
        assert await person.page.locator("rights-asked").count() == 0
        await person.check()
