"""What people come for, done in a browser by each role, by mouse and by keyboard alone, on both widths and themes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm.model import model
from tests.fakes.mcp.inside import InsideServers
from tests.support.execution.counting import enrolled
from tests.support.pages.browsing import signed_in
from tests.support.pages.dashboard import people, seed
from tests.support.pages.flows import ALL, FLOWS, Scene
from tests.support.server import TestServer, serving
from tests.surfaces.openai.endpoint import connect

pytestmark = pytest.mark.slow

_SCREENS = (("desk", "light"), ("phone", "dark"), ("desk", "dark"), ("phone", "light"))


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    async with serving(
        sqlite_database,
        requests_per_minute=100_000,
        data_dir=tmp_path / "data",
        repository_paths=(str(tmp_path / "code"),),
        instead=InsideServers().instead(),
    ) as running:
        await seed(running)
        await enrolled(running.services, running.owner, running.start.workspace_id)
        yield running


@pytest.mark.contract("XM-11")
@pytest.mark.contract("XM-21")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("by", ["mouse", "keyboard"])
@pytest.mark.parametrize("role", sorted(ALL))
async def test_each_role_does_what_it_may_in_no_more_steps_than_stated_and_nothing_else(
    server: TestServer, browser: Browser, tmp_path: Path, role: str, by: str
) -> None:
    user_id = (await people(server))[role]
    size, theme = _SCREENS[(sorted(ALL).index(role) + (by == "keyboard")) % len(_SCREENS)]
    async with (
        model() as upstream,
        await server.browser(user_id) as forced,
        signed_in(browser, server, user_id, size=size, theme=theme, by_keyboard=by == "keyboard") as person,
    ):
        await connect(server, upstream, "main")
        scene = Scene(person, role, server, upstream, tmp_path / "code", forced)
        for flow in FLOWS:
            try:
                if role in flow.roles:
                    person.steps = 0
                    await flow.run(scene)
                    assert person.steps <= flow.steps, f"{person.steps} steps"
                    await person.check()
                elif flow.refused is not None:
                    await flow.refused(scene)
            except BaseException as failed:
                failed.add_note(f"{role} by {by} at the {size}: {flow.name}")
                raise
        assert upstream.refused == []


async def test_a_retraction_is_undone(server: TestServer, browser: Browser) -> None:
    async with signed_in(browser, server, (await people(server))["member"]) as person:
        page = person.page
        await person.open("/w/default/memory/the-deploy-runs-on-fridays-at-noon")
        await person.press(page.get_by_role("button", name="Retract"))
        await person.press(page.get_by_role("button", name="Undo: say it again"))
        await page.get_by_role("status").get_by_text("It holds again.").wait_for()
        await person.open("/w/default/memory")
        await page.get_by_role("link", name="The deploy runs on Fridays").wait_for()
        await person.check()
