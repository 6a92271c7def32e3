"""Measures the start on an existing data directory: until ready, memory before any model is loaded, the first save."""

import json
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from bench.report import Figure, finish, options
from bench.server import Running, holdfast

READY_SECONDS = 2.0
MEMORY_MB = 150.0
KNOWN = ("The deploy runs on Fridays at noon", "Backups are kept for 30 days", "Anna leads the platform team")


def saved(server: Running, content: str, key: str) -> float:
    """Seconds that saving a memory over REST takes."""
    address = f"{server.told['url']}/api/workspaces/{server.told['workspace_id']}/memories"
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps({"content": content}).encode(), headers)
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - began


def main() -> None:
    """Start several times and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    seconds: list[float] = []
    megabytes: list[float] = []
    saves: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        with holdfast(Path(directory)) as first:
            fresh = first.ready_seconds
            key = first.told["api_key"]
            for fact in KNOWN:
                saved(first, fact, key)
        for number in range(chosen.rounds):
            with holdfast(Path(directory)) as server:
                seconds.append(server.ready_seconds)
                process = psutil.Process(server.pid)
                family = [process, *process.children(recursive=True)]
                megabytes.append(sum(each.memory_info().rss for each in family) / 1e6)
                saves.append(saved(server, f"Room {number} of the cellar is painted green", key))
    finish(
        [
            Figure("start to ready, fresh data directory", fresh, "s"),
            Figure("start to ready, existing data directory", statistics.median(seconds), "s", READY_SECONDS, "lower"),
            Figure("memory after start, all processes", statistics.median(megabytes), "MB", MEMORY_MB, "lower"),
            Figure("first save after the start, among other memories", statistics.median(saves), "s"),
        ],
        as_json=chosen.json,
    )


if __name__ == "__main__":
    main()
