"""Measures sessions as somebody sees them: CPU from the request to the agent's first question, and how live events are.

`start` is everything but the model and the client, which are in the same process and counted too: an upper bound.
`events` is a session of a started Holdfast whose agent tells the time now and then; a follower reads it over SSE. What
is measured ends with the follower's own clock, so on a busy machine the queue for a processor is part of it: `floor` is
the same agent's line read from a pipe by a process of its own, in the same run.
"""

import asyncio
import json
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.report import Figure, finish, options
from bench.rest import UNLIMITED
from bench.runners import spent_ms
from bench.server import holdfast
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm.script import Script
from tests.surfaces.agents.conftest import agency

START_CPU_MS = 400.0
FOLLOWED_MS = 50.0
WARM = 2
TELLING = """
import json, sys, time
def tell(**message): print(json.dumps(message), flush=True)
if {asks}: sys.stdin.readline()
for _ in range({events}):
    time.sleep({pause})
    tell(type="said", text=repr(time.time()))
tell(type="turn_over", reason="done", text="")
"""


async def start(rounds: int) -> list[Figure]:
    """From `POST …/sessions` to the first question that reaches the model."""
    spent: list[float] = []
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as made:
        database = SqliteDatabase(Path(made) / "holdfast.db")
        await migrate(database)
        async with agency(database, Path(made) / "data", Script([])) as house:
            agent = await house.define()
            for _ in range(rounds + WARM):
                house.model.script.texts.clear()
                before = spent_ms()
                session = await house.start(agent)
                while not house.model.script.texts:
                    await asyncio.sleep(0.002)
                spent.append(spent_ms() - before)
                await house.until(session)
        await database.close()
    middle = statistics.median(spent[WARM:])
    return [Figure("CPU from a session's request to its first question", middle, "ms", START_CPU_MS, "lower")]


def _late(text: str) -> float:
    return (time.time() - float(text)) * 1_000


async def _follow(client: httpx.AsyncClient, session: str) -> list[float]:
    late: list[float] = []
    kind = ""
    async with client.stream("GET", f"/api/sessions/{session}/events") as answer:
        async for line in answer.aiter_lines():
            if line.startswith("event:"):
                kind = line.removeprefix("event:").strip()
            elif line.startswith("data:") and kind == "text":
                late.append(_late(json.loads(line.removeprefix("data:"))["data"]["text"]))
    return late


async def _floor(events: int, pause: float) -> list[float]:
    """The same lines, read from a pipe."""
    program = TELLING.format(events=events, pause=pause, asks=False)
    told = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert told.stdout is not None
    late: list[float] = []
    async for line in told.stdout:
        said: dict[str, Any] = json.loads(line)
        if said["type"] == "said":
            late.append(_late(said["text"]))
    await told.wait()
    return late


def _at(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


async def events(many: int, pause: float = 0.1) -> list[Figure]:
    """How late events are where somebody follows."""
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as made, holdfast(Path(made) / "data", UNLIMITED) as running:
        headers = {"Authorization": f"Bearer {running.told['api_key']}"}
        base = f"http://127.0.0.1:{running.port}"
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=120, trust_env=False) as client:
            program = TELLING.format(events=many, pause=pause, asks=True)
            command = shlex.join(["line-json", "/usr/bin/env", "python3", "-u", "-c", program])
            body = {"name": "Clock", "runner": "command", "command": command}
            space = running.told["workspace_id"]
            agent = (await client.post(f"/api/workspaces/{space}/agents", json=body)).raise_for_status().json()
            server = psutil.Process(running.pid)
            path = f"/api/agents/{agent['id']}/sessions"
            begun = (await client.post(path, json={"prompt": "Go."})).raise_for_status().json()
            before = sum(server.cpu_times()[:2])
            late, floor = await asyncio.gather(_follow(client, begun["session_id"]), _floor(many, pause))
            spent = (sum(server.cpu_times()[:2]) - before) / max(1, len(late)) * 1_000
    if len(late) != many:
        raise RuntimeError(f"{len(late)} of {many} events arrived")
    return [
        Figure("live events: p50", _at(late, 0.5), "ms"),
        Figure("live events: p99", _at(late, 0.99), "ms", FOLLOWED_MS, "lower"),
        Figure("the same lines through a pipe: p99", _at(floor, 0.99), "ms"),
        Figure("CPU of the server for an event, with its session and its follower", spent, "ms"),
    ]


async def measured(part: str, rounds: int, many: int) -> list[Figure]:
    """One part, or both."""
    found = await start(rounds) if part in ("all", "start") else []
    return found + (await events(many) if part in ("all", "events") else [])


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("part", nargs="?", default="all", choices=["all", "start", "events"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--events", type=int, default=600)
    chosen = parser.parse_args()
    finish(asyncio.run(measured(chosen.part, chosen.rounds, chosen.events)), as_json=chosen.json)


if __name__ == "__main__":
    main()
