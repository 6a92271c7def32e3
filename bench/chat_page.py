"""Measures the chat page: how long a token takes from the model to the screen, and what 2,000 of them leave behind."""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aiohttp import web
from playwright.async_api import Page, async_playwright

from bench.report import Figure, finish, options
from bench.server import Running, free_port, holdfast
from tests.support.pages.browsing import FLAGS

MOST_KILOBYTES = 80
MOST_MILLIS = 50
CHUNKS = 2_000
_SLOW_CHUNKS = 200
_SLOW_SECONDS = 0.02
# A token is its moment; it is seen with the first frame that is painted after it stands in the page.
_WATCH = """() => {
  window.latencies = [];
  new MutationObserver(() => {
    const stamps = document.querySelector(".draft .prose")?.textContent.match(/[0-9]{13}/g);
    if (!stamps || stamps.length === window.stamps) return;
    window.stamps = stamps.length;
    const sent = Number(stamps.at(-1));
    requestAnimationFrame(() => window.latencies.push(Date.now() - sent));
  }).observe(document.getElementById("thread"), { childList: true, subtree: true, characterData: true });
}"""


# Scripts and styles as they came over the wire, compressed.
_LOADED = """() => performance.getEntriesByType("resource")
  .filter((each) => /[.](js|css)$/.test(each.name)).reduce((sum, each) => sum + each.encodedBodySize, 0) / 1024"""


async def _heap(page: Page) -> float:
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    return float((await session.send("Runtime.getHeapUsage"))["usedSize"]) / 1e6


async def _answer(request: web.Request) -> web.StreamResponse:
    """A model that says the time: slowly when it is asked to, else as fast as it can."""
    asked = (await request.json())["messages"][-1]["content"]
    count, pause = (_SLOW_CHUNKS, _SLOW_SECONDS) if "slowly" in asked else (CHUNKS, 0.0)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for at in range(count):
        gap = "\n\n" if at % 40 == 39 else " "
        words = f"{int(time.time() * 1000)}{gap}"
        chunk = {"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": None}]}
        await response.write(f"data: {json.dumps({**_stamp(), **chunk})}\n\n".encode())
        await asyncio.sleep(pause)
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    await response.write(f"data: {json.dumps({**_stamp(), **last})}\n\ndata: [DONE]\n\n".encode())
    return response


def _stamp() -> dict[str, object]:
    return {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "clock"}


async def _ask(page: Page, text: str) -> None:
    before = await page.locator(".answer:not(.draft)").count()
    await page.locator(".composer textarea").fill(text)
    await page.locator(".composer textarea").press("Enter")
    await page.locator(".answer:not(.draft)").nth(before).wait_for(timeout=120_000)


async def chat_figures(server: Running, page: Page) -> list[Figure]:
    """What streaming costs on a page of somebody who is signed in."""
    # Afresh, so that nothing comes from what the browser kept.
    fresh = await page.context.new_cdp_session(page)
    await fresh.send("Network.clearBrowserCache")
    await page.goto(server.told["url"] + "/chat/default", wait_until="load")
    loaded = await page.evaluate(_LOADED)
    await page.locator(".composer select").select_option("clock")
    await page.evaluate(_WATCH)
    await _ask(page, "Tell the time slowly.")
    seen = sorted(await page.evaluate("window.latencies"))
    figures = [
        Figure("script and style of /chat/{workspace}", loaded, "KB", MOST_KILOBYTES, "lower"),
        Figure("token on the screen after the model sent it, median", seen[len(seen) // 2], "ms", MOST_MILLIS, "lower"),
        Figure("… 95th percentile", seen[len(seen) * 95 // 100], "ms", MOST_MILLIS, "lower"),
    ]
    await page.reload()
    await page.locator(".composer select").select_option("clock")
    await _ask(page, "Warm up.")
    before = await _heap(page)
    for _ in range(3):
        # The same question at the same place: what is shown stays as long as it was.
        await page.locator("[data-retry]").last.click()
        await page.locator(".draft").wait_for(state="attached")
        await page.locator(".draft").wait_for(state="detached", timeout=120_000)
    grown = await _heap(page) - before
    figures.append(Figure(f"heap grown over 3 answers of {CHUNKS:,} chunks", grown, "MB", 1, "lower"))
    return figures


async def _measure() -> list[Figure]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as directory, holdfast(Path(directory)) as server:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", _answer)
        runner = web.AppRunner(app)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        add = ["endpoints", "add", "clock", "--base-url", f"http://127.0.0.1:{port}/v1", "--model", "clock"]
        command = [sys.executable, "-m", "holdfast", *add, "--data-dir", directory]
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = await browser.new_page(viewport={"width": 1440, "height": 900})
            await page.goto(server.told["sign_in_url"])
            await page.get_by_role("button", name="Continue").click()
            await page.locator("html[data-ready]").wait_for(state="attached")
            figures = await chat_figures(server, page)
            await browser.close()
        await runner.cleanup()
    return figures


def main() -> None:
    """Measure and tell."""
    chosen = options(__doc__ or "").parse_args()
    finish(asyncio.run(_measure()), as_json=chosen.json)


if __name__ == "__main__":
    main()
