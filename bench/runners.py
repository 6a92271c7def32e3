"""Measures what it costs to start the built-in agent: processor time of everything, up to its first question."""

import asyncio
import contextlib
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil

from bench.report import Figure, finish, options
from holdfast.engines.runners.builtin import BuiltinRunner
from tests.fakes.llm.model import KEY, FakeModel, model, says
from tests.support.agents.workshop import Workshop, workshop

START_CPU_MS = 300.0
"""Of the 400 that a session may take from its request to the first question; the rest is the session's own."""


def spent_ms() -> float:
    """Processor time of this process and of every process below it, as far as they are still there.

    What a sandbox used is not added to its parents when it ends: its first process goes without waiting for anybody.
    """
    mine = psutil.Process()
    total = time.process_time() * 1_000
    for process in mine.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            ended = process.cpu_times()
            total += (ended.children_user + ended.children_system) * 1_000
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                total += int((thread / "schedstat").read_text().split()[0]) / 1e6
    return total


async def start(shop: Workshop, upstream: FakeModel) -> float:
    """One start, until the model has the first question."""
    upstream.asked.clear()
    before = spent_ms()
    agent = await shop.start(BuiltinRunner(), "Say hello.")
    await upstream.asked.wait()
    spent = spent_ms() - before
    await agent.running.stop(0)
    return spent


async def measured(times: int) -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        async with model() as upstream, workshop(Path(directory) / "shop", upstream.url, KEY) as shop:
            upstream.otherwise = says("Hello.")
            await shop.runtime.check()
            with_server, without = shop.assignment, replace(shop.assignment, servers={})
            for what, assignment in (("without servers", without), ("with one MCP server", with_server)):
                shop.assignment = assignment
                await start(shop, upstream)
                found = [await start(shop, upstream) for _ in range(times)]
                name = f"CPU of a start to the first question, {what}"
                figures.append(Figure(name, statistics.median(found), "ms", START_CPU_MS, "lower"))
    return figures


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    finish(asyncio.run(measured(given.times)), as_json=given.json)


if __name__ == "__main__":
    main()
