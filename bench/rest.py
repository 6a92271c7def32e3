"""Measures an authenticated REST call (key, limiter, no audit) against a bare Starlette route, at 32 connections."""

import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from bench.load import Load, load
from bench.report import Figure, finish, options
from bench.server import bare, holdfast

CONNECTIONS = 32
TARGET = 0.5
PATH = "/api/me"
UNLIMITED = {**os.environ, "HOLDFAST_REQUESTS_PER_MINUTE": "100000000"}
"""The limiter counts as always; the load just never reaches the limit."""


def _middle(rounds: list[Load]) -> Load:
    return sorted(rounds, key=lambda found: found.requests_per_second)[len(rounds) // 2]


def main() -> None:
    """Measure in turns, so that both see the same machine, and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each round takes")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    ours: list[Load] = []
    theirs: list[Load] = []
    with tempfile.TemporaryDirectory() as directory, holdfast(Path(directory), UNLIMITED) as server, bare() as plain:
        headers = {"Authorization": f"Bearer {server.told['api_key']}"}
        for port, path, sent in ((server.port, PATH, headers), (plain.port, "/bare", {})):
            asyncio.run(load(port, path, sent, connections=CONNECTIONS, seconds=1.0))
        for _ in range(chosen.rounds):
            theirs.append(asyncio.run(load(plain.port, "/bare", {}, connections=CONNECTIONS, seconds=chosen.seconds)))
            ours.append(asyncio.run(load(server.port, PATH, headers, connections=CONNECTIONS, seconds=chosen.seconds)))
    ratios = [mine.requests_per_second / bare.requests_per_second for mine, bare in zip(ours, theirs, strict=True)]
    finish(
        [
            Figure("bare Starlette route", _middle(theirs).requests_per_second, "req/s"),
            Figure("bare Starlette route, p50", _middle(theirs).p50_ms, "ms"),
            Figure(f"authenticated GET {PATH}", _middle(ours).requests_per_second, "req/s"),
            Figure(f"authenticated GET {PATH}, p50", _middle(ours).p50_ms, "ms"),
            Figure(f"authenticated GET {PATH}, p99", _middle(ours).p99_ms, "ms"),
            Figure("ratio of requests/s", statistics.median(ratios), "×", TARGET),
        ],
        as_json=chosen.json,
    )


if __name__ == "__main__":
    main()
