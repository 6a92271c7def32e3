"""Measures an authenticated REST call (key, limiter, no audit) against a bare Starlette route, at 32 connections.

Requests a second depend on what else runs, also on the load itself; processor time for a request does so less.
"""

import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from bench.load import Load, load
from bench.report import Figure, finish, options
from bench.server import Running, bare, cpu_seconds, holdfast, settle

CONNECTIONS = 32
TARGET = 0.5
PATH = "/api/me"
UNLIMITED = {**os.environ, "HOLDFAST_REQUESTS_PER_MINUTE": "100000000"}
"""The limiter counts as always; the load just never reaches the limit."""


def _middle(rounds: list[Load]) -> Load:
    return sorted(rounds, key=lambda found: found.requests_per_second)[len(rounds) // 2]


def _measured(server: Running, path: str, headers: dict[str, str], seconds: float) -> tuple[Load, float]:
    """A load, and the microseconds of the server's processor time for each of its requests."""
    before = cpu_seconds(server.pid)
    found = asyncio.run(load(server.port, path, headers, connections=CONNECTIONS, seconds=seconds))
    return found, 1e6 * (cpu_seconds(server.pid) - before) / found.requests


def main() -> None:
    """Measure in turns, so that both see the same machine, and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each round takes")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    rounds: dict[str, list[tuple[Load, float]]] = {"ours": [], "theirs": []}
    with tempfile.TemporaryDirectory() as directory, holdfast(Path(directory), UNLIMITED) as server, bare() as plain:
        headers = {"Authorization": f"Bearer {server.told['api_key']}"}
        settle(server.pid)
        _measured(server, PATH, headers, 1.0)
        _measured(plain, "/bare", {}, 1.0)
        for _ in range(chosen.rounds):
            rounds["theirs"].append(_measured(plain, "/bare", {}, chosen.seconds))
            rounds["ours"].append(_measured(server, PATH, headers, chosen.seconds))
    ours, theirs = ([found for found, _ in rounds[whose]] for whose in ("ours", "theirs"))
    # Other work only ever adds to what a request takes.
    ours_us, theirs_us = (min(spent for _, spent in rounds[whose]) for whose in ("ours", "theirs"))
    ratios = [mine.requests_per_second / bare.requests_per_second for mine, bare in zip(ours, theirs, strict=True)]
    finish(
        [
            Figure("bare Starlette route", _middle(theirs).requests_per_second, "req/s"),
            Figure("bare Starlette route, p50", _middle(theirs).p50_ms, "ms"),
            Figure(f"authenticated GET {PATH}", _middle(ours).requests_per_second, "req/s"),
            Figure(f"authenticated GET {PATH}, p50", _middle(ours).p50_ms, "ms"),
            Figure(f"authenticated GET {PATH}, p99", _middle(ours).p99_ms, "ms"),
            Figure("ratio of requests/s", statistics.median(ratios), "×", TARGET),
            Figure("bare Starlette route, processor time", theirs_us, "µs"),
            Figure(f"authenticated GET {PATH}, processor time", ours_us, "µs"),
            Figure("ratio of requests for processor time", theirs_us / ours_us, "×", TARGET),
        ],
        as_json=chosen.json,
    )


if __name__ == "__main__":
    main()
