"""Owns people in a real browser: a signed-in page that keeps every problem it met, and what axe finds on it."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Dialog, Locator, Page, async_playwright

from tests.support.server import TestServer

AXE = Path(__file__).parents[2] / "node/node_modules/axe-core/axe.min.js"
_MOST_TABS = 150
SIZES = {"phone": (390, 844), "desk": (1440, 900)}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A headless browser; without one the test is skipped, in continuous integration it fails."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        reason = "Chromium is not installed (Debian: apt-get install chromium)."
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(reason)
        pytest.skip(reason)
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield launched
        await launched.close()


@dataclass
class Person:
    """Somebody who is signed in, and what went wrong on their pages: script errors, refused content, bad answers."""

    page: Page
    server: TestServer
    problems: list[str] = field(default_factory=list)
    by_keyboard: bool = False
    """Whether they have no mouse: everything is reached by Tab and done by keys."""
    steps: int = 0
    """How often they pressed something: buttons, links, rows."""

    async def press(self, wanted: Locator) -> None:
        """Press a button or follow a link."""
        self.steps += 1
        if not self.by_keyboard:
            await wanted.click()
            return
        await self.reach(wanted)
        await self.page.keyboard.press("Enter")

    async def write(self, wanted: Locator, text: str) -> None:
        """Replace what a field says."""
        if not self.by_keyboard:
            await wanted.fill(text)
            return
        await self.reach(wanted)
        await self.page.keyboard.press("Control+a")
        await self.page.keyboard.type(text)

    async def tick(self, wanted: Locator) -> None:
        """Tick a box, or choose the first of several answers."""
        if not self.by_keyboard:
            await wanted.check()
            return
        await self.reach(wanted)
        await self.page.keyboard.press("Space")

    async def choose_older(self, wanted: Locator) -> None:
        """Choose the option below the one that is chosen."""
        if not self.by_keyboard:
            at = await wanted.evaluate("select => select.selectedIndex")
            await wanted.select_option(index=at + 1)
            return
        await self.reach(wanted)
        await self.page.keyboard.press("ArrowDown")

    async def reach(self, wanted: Locator) -> None:
        """Bring the focus to something with Tab alone."""
        await wanted.wait_for()
        for _ in range(_MOST_TABS):
            if await wanted.evaluate("element => element === document.activeElement"):
                return
            await self.page.keyboard.press("Tab")
        pytest.fail(f"Tab does not lead to {wanted} on {self.page.url}")

    async def open(self, path: str) -> None:
        """Go to one of the server's pages."""
        await self.page.goto(f"{self.server.url}{path}")
        await self.ready()

    async def ready(self) -> None:
        """The page's own scripts run; what has no frame, such as a download, has none."""
        if await self.page.locator("nav.side").count():
            await self.page.locator("html[data-ready]").wait_for(state="attached")

    async def check(self) -> None:
        """Nothing went wrong, nothing is wider than the screen, and axe finds nothing on the page as it is."""
        assert self.problems == [], self.problems
        widest = await self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert widest <= 0, f"{self.page.url} is {widest} px wider than the screen"
        found = await self.violations()
        assert found == [], "\n".join(found)

    async def violations(self) -> list[str]:
        """What axe finds, a line each."""
        if not AXE.is_file():
            pytest.fail("axe-core is not installed: scripts/setup node")
        # Evaluated by the debugger, so the page's own policy stays as it is.
        await self.page.evaluate(AXE.read_text())
        found: dict[str, Any] = await self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{self.page.url} {each['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
            for each in found["violations"]
            for node in each["nodes"]
        ]


@asynccontextmanager
async def signed_in(
    browser: Browser,
    server: TestServer,
    user_id: str,
    *,
    size: str = "desk",
    theme: str = "light",
    by_keyboard: bool = False,
    **options: Any,
) -> AsyncIterator[Person]:
    """A person's own window, signed in by a link."""
    width, height = SIZES[size]
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
        **options,
    )
    page = await context.new_page()
    person = Person(page, server, by_keyboard=by_keyboard)
    page.on("dialog", _agree)
    page.on("pageerror", lambda error: person.problems.append(str(error)))
    page.on("console", lambda said: person.problems.append(said.text) if said.type == "error" else None)
    link = await server.link(user_id)
    await page.goto(f"{server.url}/sign-in?link={link}")
    # In whatever language they are spoken to.
    await page.get_by_role("button").click()
    await page.locator("html[data-ready]").wait_for(state="attached")
    try:
        yield person
    finally:
        await context.close()


async def _agree(asked: Dialog) -> None:
    """Say yes to what a page asks before it does something."""
    await asked.accept()
