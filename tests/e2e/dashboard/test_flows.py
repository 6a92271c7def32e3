"""What people come for, done in a real browser by mouse and by keyboard alone, on both widths and in both themes."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser

from holdfast.features.artifacts.model import ArtifactReference
from holdfast.features.artifacts.service import ArtifactService
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.browsing import Person, signed_in
from tests.support.pages.dashboard import people, seed, seed_repository
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow

_WAYS = [
    ("mouse", "desk", "light"),
    ("mouse", "phone", "dark"),
    ("keyboard", "desk", "dark"),
    ("keyboard", "phone", "light"),
]


def _each_way(*roles: str) -> Iterable[tuple[str, str, str, str]]:
    """Every way of doing it, each as another of those who may."""
    return [(*way, roles[at % len(roles)]) for at, way in enumerate(_WAYS)]


def _flow(*roles: str) -> pytest.MarkDecorator:
    rows = _each_way(*roles)
    return pytest.mark.parametrize("way", rows, ids=[" ".join(row) for row in rows])


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    paths = (str(tmp_path / "code"),)
    async with serving(
        sqlite_database, requests_per_minute=100_000, data_dir=tmp_path / "data", repository_paths=paths
    ) as running:
        await seed(running)
        yield running


@asynccontextmanager
async def _someone(server: TestServer, browser: Browser, way: tuple[str, str, str, str]) -> AsyncIterator[Person]:
    by, size, theme, role = way
    ids = await people(server)
    async with signed_in(browser, server, ids[role], size=size, theme=theme, by_keyboard=by == "keyboard") as person:
        yield person
        await person.check()


@_flow("owner", "admin", "member", "workspace admin")
async def test_a_memory_is_found_and_corrected(
    server: TestServer, browser: Browser, way: tuple[str, str, str, str]
) -> None:
    async with _someone(server, browser, way) as person:
        page = person.page
        await person.open("/w/default/memory")
        await person.write(page.get_by_role("searchbox", name="Search"), "deploy on fridays")
        await page.get_by_text("rate limit").first.wait_for(state="hidden")
        await person.press(page.get_by_role("link", name="The deploy runs on Fridays"))
        await person.write(page.get_by_label("What holds now"), "The deploy runs on Mondays at nine.")
        await person.press(page.get_by_role("button", name="Correct"))
        await page.get_by_role("status").get_by_text("Corrected").wait_for()
        await page.get_by_role("heading", name="The deploy runs on Mondays at nine", level=1).wait_for()
        # Its history tells what it said before.
        await page.get_by_role("link", name="The deploy runs on Fridays").wait_for()
        assert person.steps <= 2


@_flow("owner", "admin", "member", "workspace admin")
async def test_a_contradiction_is_settled(server: TestServer, browser: Browser, way: tuple[str, str, str, str]) -> None:
    acts = {"admin": "Keep this one", "workspace admin": "Keep both"}
    async with _someone(server, browser, way) as person:
        page = person.page
        await person.press(page.locator("#overview").get_by_role("link", name="The rate limit is 60").first)
        await page.get_by_role("heading", name="Contradictions").wait_for()
        await person.ready()
        await person.check()
        await person.press(page.get_by_role("button", name=acts.get(way[3], "It replaced the older")).first)
        await page.get_by_text("Nothing contradicts").wait_for()
        assert person.steps <= 2


@_flow("owner", "admin")
async def test_a_key_is_minted_and_rotated(
    server: TestServer, browser: Browser, way: tuple[str, str, str, str]
) -> None:
    async with _someone(server, browser, way) as person:
        page = person.page
        await person.open("/settings/keys")
        await person.write(page.get_by_label("Name", exact=True), "laptop")
        await person.press(page.get_by_role("button", name="Make the key"))
        first = await page.locator("[data-secret]").inner_text()
        await person.press(page.get_by_role("button", name="Rotate laptop"))
        await page.get_by_text("revoked").wait_for()
        second = await page.locator("[data-secret]").inner_text()
        assert first.startswith("xero_") and second.startswith("xero_") and first != second
        assert person.steps <= 2
    async with server.client(first) as old, server.client(second) as new:
        assert ((await old.get("/api/me")).status_code, (await new.get("/api/me")).status_code) == (401, 200)


@_flow("owner", "admin", "workspace admin")
async def test_a_secret_is_set(server: TestServer, browser: Browser, way: tuple[str, str, str, str]) -> None:
    async with _someone(server, browser, way) as person:
        page = person.page
        await person.open("/w/default/settings/secrets")
        await person.write(page.get_by_label("Name"), "LINEAR_API_KEY")
        await person.write(page.get_by_label("Value"), "canary-that-no-page-shows")
        await person.press(page.get_by_role("button", name="Save the secret"))
        await page.get_by_role("link", name="Replace LINEAR_API_KEY").wait_for()
        assert "canary" not in await page.content()
        assert person.steps <= 1


@_flow("owner", "admin", "member", "workspace admin")
async def test_a_repository_is_asked_and_the_cited_lines_open_in_one_step(
    server: TestServer, browser: Browser, way: tuple[str, str, str, str], tmp_path: Path
) -> None:
    slug = await seed_repository(server, tmp_path / "code")
    async with _someone(server, browser, way) as person:
        page = person.page
        await person.open(f"/w/default/repos/{slug}")
        await person.write(page.get_by_label("Question"), "How does Invoice compute its total?")
        await person.press(page.get_by_role("button", name="Ask"))
        cited = page.locator('a[href*="/files?"]').first
        await cited.wait_for()
        await person.check()
        person.steps = 0
        await person.press(cited)
        await page.locator("li.cited").first.wait_for()
        assert person.steps == 1


@_flow("owner", "admin", "member", "workspace admin")
async def test_two_versions_are_compared(server: TestServer, browser: Browser, way: tuple[str, str, str, str]) -> None:
    artifacts, workspace = server.services[ArtifactService], server.start.workspace_id
    (made,) = (await artifacts.page(server.owner, workspace)).items
    await artifacts.update(server.owner, workspace, ArtifactReference(made.id), "<h1>Hello once more</h1>")
    async with _someone(server, browser, way) as person:
        page = person.page
        await person.open(f"/w/default/artifacts/{made.id}")
        await person.choose_older(page.get_by_label("From"))
        await person.press(page.get_by_role("button", name="Compare"))
        await page.get_by_role("heading", name="Version 1 to 3").wait_for()
        await page.get_by_text("+<h1>Hello once more</h1>").wait_for()
        assert person.steps == 1


async def test_a_retraction_is_undone(server: TestServer, browser: Browser) -> None:
    async with _someone(server, browser, ("mouse", "desk", "light", "member")) as person:
        page = person.page
        await person.open("/w/default/memory/the-deploy-runs-on-fridays-at-noon")
        await person.press(page.get_by_role("button", name="Retract"))
        await person.press(page.get_by_role("button", name="Undo: say it again"))
        await page.get_by_role("status").get_by_text("It holds again.").wait_for()
        await person.open("/w/default/memory")
        await page.get_by_role("link", name="The deploy runs on Fridays").wait_for()
