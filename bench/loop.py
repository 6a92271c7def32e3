"""Measures the loop: the processor time that three instant tools add over the same upstream calls without them."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator
from typing import Any

from bench.report import Figure, finish, options
from holdfast.core.tools.outcome import Outcome
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.model import LoopRequest, LoopTool
from tests.fakes.llm.model import Turn, calls, says

Json = dict[str, Any]
TARGET_MS = 5.0
ASK: Json = {"model": "any", "messages": [{"role": "user", "content": "What is it?"}], "stream": True}
TURNS = [
    *(calls((name, {"query": "tides at noon"})) for name in ("web_search", "fetch_url", "calculator")),
    says("word " * 200, pieces=100),
]


class Instant:
    """A model that has every chunk at once."""

    name = "instant"

    def __init__(self, turns: list[Turn]) -> None:
        self._answers = [turn.made() for turn in turns]
        self._next = 0

    async def stream(self, body: Json) -> AsyncGenerator[Json, None]:
        chunks = self._answers[self._next % len(self._answers)]
        self._next += 1
        for chunk in chunks:
            yield chunk


async def instant(arguments: Json) -> Outcome:
    return Outcome("An instant result.", sources=1)


def tools() -> list[LoopTool]:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    return [
        LoopTool(name, name, schema, instant, event="x_research.searching", research=True)
        for name in ("web_search", "fetch_url", "calculator")
    ]


async def with_loop(model: Instant, loop: Loop, offered: list[LoopTool]) -> None:
    async for _ in loop.run(model, LoopRequest(ASK, offered)):
        pass


async def without(model: Instant) -> None:
    for _ in TURNS:
        async for _ in model.stream(ASK):
            pass


async def measure(turns: int) -> list[float]:
    """Milliseconds of processor time that each turn adds."""
    loop, offered = Loop(), tools()
    model, bare = Instant(TURNS), Instant(TURNS)
    added = []
    for _ in range(turns):
        began = time.process_time()
        await without(bare)
        between = time.process_time()
        await with_loop(model, loop, offered)
        added.append(((time.process_time() - between) - (between - began)) * 1000)
    return added


def main() -> None:
    parser = options(__doc__ or "")
    parser.add_argument("--turns", type=int, default=500)
    given = parser.parse_args()
    added = asyncio.run(measure(given.turns))
    finish(
        [
            Figure(
                "three instant tools, processor time added, median", statistics.median(added), "ms", TARGET_MS, "lower"
            ),
            Figure("three instant tools, processor time added, p99", sorted(added)[len(added) * 99 // 100], "ms"),
        ],
        as_json=given.json,
    )


if __name__ == "__main__":
    main()
