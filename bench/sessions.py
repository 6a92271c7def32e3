"""Measures sessions of the built-in agent through a started Holdfast: many at once, many in a row, what stays behind.

The agent asks the embedded model, so that nothing but Holdfast is measured. Memory is the server's own, without what
is mapped from files: the database grows, and is mapped. What is looked for afterwards are processes below the server
and directories of sessions that are over.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import httpx
import psutil

from bench.report import Figure, finish, options
from bench.rest import UNLIMITED
from bench.server import Running, holdfast

WARM = 40
OVER = ("completed", "failed", "cancelled")


async def _run(client: httpx.AsyncClient, agent: str) -> str:
    """One session from its request to its end; how it ended."""
    began = await client.post(f"/api/agents/{agent}/sessions", json={"prompt": "When does the deploy run?"})
    began.raise_for_status()
    path = f"/api/sessions/{began.json()['session_id']}"
    while True:
        state: str = (await client.get(path)).raise_for_status().json()["state"]
        if state in OVER:
            return state
        await asyncio.sleep(0.1)


def _memory(running: Running) -> float:
    """Mebibytes of the server's memory that no file stands behind."""
    rows = (line.split() for line in Path(f"/proc/{running.pid}/smaps_rollup").read_text().splitlines())
    return next(int(row[1]) for row in rows if row[0] == "Pss_Anon:") / 1_024


async def measured(at_once: int, in_a_row: int) -> list[Figure]:
    """Sessions at once and in a row."""
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as made:
        data = Path(made) / "data"
        with holdfast(data, UNLIMITED) as running:
            headers = {"Authorization": f"Bearer {running.told['api_key']}"}
            base = f"http://127.0.0.1:{running.port}"
            async with httpx.AsyncClient(base_url=base, headers=headers, timeout=120) as client:
                body = {"name": "Helper"}
                spaces = (await client.get("/api/workspaces")).raise_for_status().json()["items"]
                agents = f"/api/workspaces/{spaces[0]['id']}/agents"
                agent = (await client.post(agents, json=body)).raise_for_status().json()["id"]
                server = psutil.Process(running.pid)
                began = time.perf_counter()
                together = await asyncio.gather(*(_run(client, agent) for _ in range(at_once)))
                seconds = time.perf_counter() - began
                row = [await _run(client, agent) for _ in range(WARM)]
                before, idle = _memory(running), len(server.children(recursive=True))
                row += [await _run(client, agent) for _ in range(in_a_row - WARM)]
                after = _memory(running)
                # A helper process of the server's own may come and go; what belongs to a session must not stay.
                left = max(0, len(server.children(recursive=True)) - idle)
                kept = len(list((data / "sessions").glob("*/gate"))) if (data / "sessions").exists() else 0
    return [
        Figure(f"sessions at once: completed of {at_once}", together.count("completed"), "", at_once),
        Figure("all of them, from the first request to the last end", seconds, "s"),
        Figure(f"sessions in a row: completed of {in_a_row}", row.count("completed"), "", in_a_row),
        Figure(f"memory after {WARM}", before, "MiB"),
        Figure(f"memory after {in_a_row} ÷ after {WARM}", after / before, "×", 1.05, "lower"),
        Figure("processes left", left, "", 0, "lower"),
        Figure("gates left on disk", kept, "", 0, "lower"),
    ]


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--at-once", type=int, default=30)
    parser.add_argument("--in-a-row", type=int, default=1_000)
    chosen = parser.parse_args()
    finish(asyncio.run(measured(chosen.at_once, chosen.in_a_row)), as_json=chosen.json)


if __name__ == "__main__":
    main()
