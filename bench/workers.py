"""Measures two workers against one: requests in a second and processor time of each, on four ways in.

The load comes from this process, which shares the cores with the server. Where it and the upstream take a good
part of them, as on a machine with two, two workers cannot show twice the rate: the share that they took is told too.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from bench.chat_load import chat_load
from bench.load import load
from bench.mcp import Target, mcp_load
from bench.report import Figure, finish, options
from bench.rest import UNLIMITED
from bench.server import Running, bare_upstream, holdfast, run

CONNECTIONS = 16
MEMORIES = 40
SETTINGS = {
    **UNLIMITED,
    "HOLDFAST_MCP_CALLS_PER_MINUTE": "60000000",
    "HOLDFAST_CHAT_REQUESTS_PER_MINUTE": "60000000",
    "HOLDFAST_UPSTREAM_ALLOW": "127.0.0.1",
}
WAYS = ("REST read", "MCP calc", "chat passthrough", "recall")


@dataclass(frozen=True, slots=True)
class Found:
    """What one load found."""

    rate: float
    cpu_ms: float
    """Of the server and everything that it started, for each request."""
    load_share: float
    """Of the machine's processor time, what this process took."""


def _spent(running: Running) -> float:
    top = psutil.Process(running.pid)
    return sum(sum(each.cpu_times()[:2]) for each in (top, *top.children(recursive=True)))


async def _asked(running: Running, way: str, memory: str, seconds: float) -> Found:
    told = running.told
    headers = {"Authorization": f"Bearer {told['api_key']}"}
    path = f"/api/workspaces/{told['workspace_id']}/memories"
    cpu, mine, began = _spent(running), time.process_time(), time.perf_counter()
    if way == "REST read":
        one = f"{path}/{memory}"
        rate = (await load(running.port, one, headers, connections=CONNECTIONS, seconds=seconds)).requests_per_second
    elif way == "MCP calc":
        target = Target(running.port, f"/{told['project_id']}/v1/mcp", headers)
        call = {"name": "xerotier.calc.evaluate", "arguments": {"expression": "6 * 7"}}
        rate = (await mcp_load(target, "2026-07-28", "tools/call", call, seconds, CONNECTIONS)).requests_per_second
    else:
        body: object = {"model": "fixed", "messages": [{"role": "user", "content": "How high?"}]}
        where = f"/{told['project_id']}/fast/v1/chat/completions"
        if way == "recall":
            body, where = {"query": "which depot is painted green"}, f"{path}/recall"
        answered = await chat_load(running.port, where, told["api_key"], body, connections=CONNECTIONS, seconds=seconds)
        rate = answered.requests_per_second
    elapsed = time.perf_counter() - began
    requests = rate * elapsed
    share = (time.process_time() - mine) / elapsed / (os.cpu_count() or 1)
    return Found(rate, (_spent(running) - cpu) / requests * 1000, share)


async def _fill(running: Running) -> str:
    """Some memories, and one of them."""
    told = running.told
    path = f"/api/workspaces/{told['workspace_id']}/memories"
    id = ""
    async with httpx.AsyncClient(
        base_url=told["url"], headers={"Authorization": f"Bearer {told['api_key']}"}, timeout=60, trust_env=False
    ) as client:
        for number in range(MEMORIES):
            color = ("green", "red", "blue", "white")[number % 4]
            text = f"Depot {number} in district {number * 31 % 97} is painted {color} and holds {number * 7} crates."
            answer = (await client.post(path, json={"content": text})).raise_for_status().json()
            id = answer["memory_id"] or id
    return id


@contextmanager
def _running(workers: int, upstream: int) -> Iterator[tuple[Running, str]]:
    environment = {**os.environ, **SETTINGS}
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as made:
        directory = Path(made)
        with holdfast(directory, environment, "--workers", str(workers)) as running:
            base = f"http://127.0.0.1:{upstream}/v1"
            run(directory, "endpoints", "add", "fast", "--base-url", base, "--model", "fixed")
            yield running, asyncio.run(_fill(running))


def measured(seconds: float, rounds: int) -> list[Figure]:
    """Each way in, one worker and two in turns, so that both meet the same neighbours."""
    found: dict[tuple[str, int], list[Found]] = {}
    with bare_upstream() as upstream, _running(1, upstream) as one, _running(2, upstream) as two:
        for _ in range(rounds):
            for way in WAYS:
                for workers, (running, memory) in ((1, one), (2, two)):
                    result = asyncio.run(_asked(running, way, memory, seconds))
                    found.setdefault((way, workers), []).append(result)
    figures = []
    for way in WAYS:
        rates = {}
        for workers in (1, 2):
            of = found[way, workers]
            rates[workers] = statistics.median(each.rate for each in of)
            name = f"{way}, {workers} worker{'s' if workers > 1 else ''}"
            figures += [
                Figure(name, rates[workers], "/s"),
                Figure(f"{name}: CPU of a request", statistics.median(each.cpu_ms for each in of), "ms"),
                Figure(f"{name}: share of the machine that the load took", statistics.median(e.load_share for e in of)),
            ]
        figures.append(Figure(f"{way}, two against one", rates[2] / rates[1], "×"))
    return figures


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    finish(measured(chosen.seconds, chosen.rounds), as_json=chosen.json)


if __name__ == "__main__":
    main()
