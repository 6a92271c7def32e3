"""Measures whether a query waits behind the backlog: the product's own server, idle and with passages without vectors.

Questions are asked over REST, one after the other. Every question is new, so each takes an embedding.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import httpx
import numpy as np
import psutil
from numpy.typing import NDArray

from bench.report import Figure, finish, options
from bench.server import Running, holdfast
from holdfast.core.clock import SystemClock
from holdfast.engines.search import Entry, SearchEngine
from holdfast.engines.search.embedders.base import unit
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.storage.database import Tx
from holdfast.storage.sqlite import SqliteDatabase

PASSAGES = 20_000
QUESTIONS = 60
TIMES_IDLE = 1.5
MOST_MB = 350.0
WORDS_IN_PASSAGE = 120
SETTLE_SECONDS = 4
_SYLLABLES = ("ka", "lo", "mi", "ter", "sun", "vel", "dor", "ran", "pe", "qui", "bast", "ned")
_WORDS = ["".join(parts) for parts in product(_SYLLABLES, repeat=3)]


class Given:
    """Vectors that say nothing, under the name of the shipped model: what a workspace without a backlog has."""

    id, dimensions = MiniLmEmbedder.id, MiniLmEmbedder.dimensions

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A random one for each text."""
        return unit(np.random.default_rng(len(texts)).standard_normal((len(texts), self.dimensions)).astype(np.float32))

    async def close(self) -> None:
        """Nothing is held."""


def passage(number: int) -> str:
    """About as long as a chunk of a document."""
    chance = random.Random(number)
    return " ".join(chance.choice(_WORDS) for _ in range(WORDS_IN_PASSAGE))


async def fill(data_dir: Path, workspace_id: str, passages: int, *, embedded: bool) -> None:
    """Put passages into the store of a server that is down."""
    database = SqliteDatabase(data_dir / "holdfast.db")
    embedder = Given()
    search = SearchEngine(database, embedder, SystemClock())
    for start in range(0, passages, 500):
        entries = [
            Entry(workspace_id, "document", f"doc_{number:032x}", f"Passage {number}", passage(number), 1)
            for number in range(start, min(start + 500, passages))
        ]
        vectors = await embedder.embed([entry.text for entry in entries]) if embedded else None
        await database.write(partial(_put, search, entries, vectors))
    await database.close()


def _put(search: SearchEngine, entries: list[Entry], vectors: NDArray[np.float32] | None, tx: Tx) -> None:
    search.put(tx, entries, vectors)


async def ask(server: Running, key: str, workspace_id: str, questions: Sequence[str]) -> list[float]:
    """How long each answer took, in milliseconds."""
    took = []
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{server.port}", headers=headers, timeout=60, trust_env=False
    ) as client:
        for question in questions:
            began = time.perf_counter()
            answer = await client.get(f"/api/workspaces/{workspace_id}/search", params={"q": question})
            answer.raise_for_status()
            took.append(1000 * (time.perf_counter() - began))
    return sorted(took)


def questions(seed: int) -> list[str]:
    """New ones each time, so that none is remembered."""
    chance = random.Random(f"questions {seed}")
    return [f"what of {' and '.join(chance.sample(_WORDS, 3))} for us?" for _ in range(QUESTIONS)]


def memory_mb(pid: int) -> tuple[float, float]:
    """What the server and the processes it started hold, each page counted for one of them only."""
    own = psutil.Process(pid)
    children = own.children(recursive=True)
    return (
        own.memory_full_info().rss / 2**20,
        sum(one.memory_full_info().pss for one in (own, *children)) / 2**20,
    )


def measure(passages: int) -> list[Figure]:
    """The same passages twice: all with vectors, and none yet."""
    with tempfile.TemporaryDirectory() as directory:
        idle, _, _ = _asked(Path(directory) / "idle", passages, embedded=True)
        busy, alone_mb, all_mb = _asked(Path(directory) / "busy", passages, embedded=False)
    middle = len(idle) // 2
    return [
        Figure("search p50, idle", idle[middle], "ms"),
        Figure(f"search p50, {passages:,} passages waiting", busy[middle], "ms"),
        Figure("search p95, waiting", busy[len(busy) * 95 // 100], "ms"),
        Figure("times idle", busy[middle] / idle[middle], "", TIMES_IDLE, "lower"),
        Figure("memory of the server's process while it embeds", alone_mb, "MB", MOST_MB, "lower"),
        Figure("memory of all its processes", all_mb, "MB", MOST_MB, "lower"),
    ]


def _asked(data_dir: Path, passages: int, *, embedded: bool) -> tuple[list[float], float, float]:
    """How long answers took, and how much memory the server and all its processes held."""
    with holdfast(data_dir) as server:
        key, workspace_id = server.told["api_key"], server.told["workspace_id"]
    asyncio.run(fill(data_dir, workspace_id, passages, embedded=embedded))
    with holdfast(data_dir) as server:
        time.sleep(SETTLE_SECONDS)
        # The first reads the workspace into memory.
        asyncio.run(ask(server, key, workspace_id, questions(1)[:5]))
        took = asyncio.run(ask(server, key, workspace_id, questions(2)))
        return took, *memory_mb(server.pid)


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--passages", type=int, default=PASSAGES)
    chosen = parser.parse_args()
    finish(measure(chosen.passages), as_json=chosen.json)


if __name__ == "__main__":
    main()
