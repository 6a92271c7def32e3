"""Measures the pages: what they load, what a list of 100 costs, when Chromium paints, what navigating leaves."""

import asyncio
import gzip
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import psutil
from playwright.async_api import Page, async_playwright

from bench.report import Figure, finish, options
from bench.server import Running, holdfast
from tests.support.pages.browsing import FLAGS

PAGES = {
    "/": 60,
    "/w/default/memory": 60,
    "/w/default/documents": 60,
    "/w/default/graph": 60,
    "/settings/keys": 60,
    "/settings/usage": 60,
}
"""Pages with the kilobytes of script and style that each may load, compressed."""
_IMPORT = re.compile(r"""(?:from|import)\s*["']\.{1,2}/([\w./-]+\.js)["']""")


@asynccontextmanager
async def _signed_in(server: Running) -> AsyncIterator[httpx.AsyncClient]:
    link = parse_qs(urlsplit(server.told["sign_in_url"]).query)["link"][0]
    async with httpx.AsyncClient(base_url=server.told["url"], timeout=60, trust_env=False) as client:
        signed_in = await client.post("/sign-in", data={"link": link})
        if not signed_in.has_redirect_location:
            raise RuntimeError(f"signing in was answered with {signed_in.status_code}")
        yield client


async def _fill(server: Running, first: int, count: int) -> None:
    """Memories of the usual length, as an import brings them."""
    headers = {"Authorization": f"Bearer {server.told['api_key']}"}
    lines = [
        json.dumps(
            {
                "content": f"Service number {at} listens on port {7000 + at} and belongs to team {at % 17}.",
                "tags": [f"team-{at % 17}"],
            }
        )
        for at in range(first, first + count)
    ]
    path = f"/api/workspaces/{server.told['workspace_id']}/import"
    async with httpx.AsyncClient(base_url=server.told["url"], headers=headers, timeout=600, trust_env=False) as client:
        (await client.post(path, content="\n".join(lines).encode())).raise_for_status()


async def _loaded(client: httpx.AsyncClient, path: str) -> float:
    """Kilobytes of script and style of a page, with what its modules import, compressed."""
    page = await client.get(path)
    page.raise_for_status()
    wanted = re.findall(r'(?:src|href)="(/static/[^"#]+\.(?:js|css))"', page.text)
    seen: dict[str, int] = {}
    while wanted:
        url = wanted.pop()
        if url in seen:
            continue
        content = (await client.get(url)).content
        seen[url] = len(gzip.compress(content, 9))
        root = "/".join(url.split("/")[:3])
        wanted += [f"{root}/{name}" for name in _IMPORT.findall(content.decode())]
    return sum(seen.values()) / 1024


async def _settled(pid: int) -> None:
    """Wait until the server has done in the background what filling it set off."""
    process = psutil.Process(pid)
    while process.cpu_percent(interval=None) > 3 or process.cpu_percent(interval=1.0) > 3:
        await asyncio.sleep(1)


async def _cpu_millis(
    client: httpx.AsyncClient, pid: int, path: str, times: int, headers: Mapping[str, str] = {}
) -> float:
    process = psutil.Process(pid)
    for _ in range(5):
        (await client.get(path, headers=headers)).raise_for_status()
    before = sum(process.cpu_times()[:2])
    for _ in range(times):
        (await client.get(path, headers=headers)).raise_for_status()
    return float(sum(process.cpu_times()[:2]) - before) * 1000 / times


async def _paint_millis(page: Page, url: str) -> float:
    found: list[float] = []
    for _ in range(5):
        await page.goto(url, wait_until="load")
        painted = await page.evaluate(
            "new Promise(done => new PerformanceObserver(list => done(list.getEntries()[0].startTime))"
            ".observe({type: 'paint', buffered: true}))"
        )
        found.append(float(painted))
    return sorted(found)[2]


async def _heap(page: Page) -> float:
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    return float((await session.send("Runtime.getHeapUsage"))["usedSize"]) / 1e6


async def _measure(rows: int, navigations: int) -> list[Figure]:
    figures: list[Figure] = []
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    environment = {**os.environ, "HOLDFAST_REQUESTS_PER_MINUTE": "1000000"}
    with tempfile.TemporaryDirectory() as directory, holdfast(Path(directory), environment) as server:
        await _fill(server, 0, 100)
        async with _signed_in(server) as client:
            for path, most in PAGES.items():
                figures.append(Figure(f"script and style of {path}", await _loaded(client, path), "KB", most, "lower"))
            cost = await _cpu_millis(client, server.pid, "/w/default/memory", 50)
            figures.append(Figure("a list of 100 memories, whole request", cost, "ms CPU", 8, "lower"))
            part = await _cpu_millis(client, server.pid, "/w/default/memory", 50, {"HX-Request": "true"})
            figures.append(Figure("its rows alone, as search asks for them", part, "ms CPU", 8, "lower"))
            await _fill(server, 100, rows - 100)
            await _settled(server.pid)
            cost = await _cpu_millis(client, server.pid, "/w/default/memory", 50)
            figures.append(Figure(f"a list of 100 of {rows} memories, whole request", cost, "ms CPU"))
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
                context = await browser.new_context()
                cookies = [
                    {"name": name, "value": value, "url": server.told["url"]} for name, value in client.cookies.items()
                ]
                await context.add_cookies(cookies)  # type: ignore[arg-type]
                page = await context.new_page()
                for path in PAGES:
                    millis = await _paint_millis(page, server.told["url"] + path)
                    figures.append(Figure(f"first paint of {path}", millis, "ms", 300, "lower"))
                await page.goto(server.told["url"] + "/w/default/memory")
                before = await _heap(page)
                for at in range(navigations):
                    await page.goto(server.told["url"] + ("/", "/w/default/memory")[at % 2])
                grown = await _heap(page) - before
                figures.append(Figure(f"heap grown over {navigations} navigations", grown, "MB", 2, "lower"))
                await browser.close()
    return figures


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--navigations", type=int, default=500)
    chosen = parser.parse_args()
    finish(asyncio.run(_measure(chosen.rows, chosen.navigations)), as_json=chosen.json)


if __name__ == "__main__":
    main()
