"""Measures the start on an existing data directory: seconds until ready, and memory before any model is loaded."""

import statistics
import tempfile
from pathlib import Path

import psutil

from bench.report import Figure, finish, options
from bench.server import holdfast

READY_SECONDS = 2.0
MEMORY_MB = 150.0


def main() -> None:
    """Start several times and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    seconds: list[float] = []
    megabytes: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        with holdfast(Path(directory)) as first:
            fresh = first.ready_seconds
        for _ in range(chosen.rounds):
            with holdfast(Path(directory)) as server:
                seconds.append(server.ready_seconds)
                process = psutil.Process(server.pid)
                family = [process, *process.children(recursive=True)]
                megabytes.append(sum(each.memory_info().rss for each in family) / 1e6)
    finish(
        [
            Figure("start to ready, fresh data directory", fresh, "s"),
            Figure("start to ready, existing data directory", statistics.median(seconds), "s", READY_SECONDS, "lower"),
            Figure("memory after start, all processes", statistics.median(megabytes), "MB", MEMORY_MB, "lower"),
        ],
        as_json=chosen.json,
    )


if __name__ == "__main__":
    main()
