"""Measures how fast search answers: hybrid queries over workspaces of skewed size, beside exact numpy.

A third of all entries is in the biggest of 100 workspaces. Vectors are given, so embedding is
left out; `--embed` adds the shipped model's time for a query.
"""

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.report import Figure, finish, options
from holdfast.core.clock import SystemClock
from holdfast.engines.search import Entry, Query, SearchEngine
from holdfast.engines.search.embedders.base import unit
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.engines.search.engine import without_names
from holdfast.server.lifecycle import keep_loaded
from holdfast.storage.database import Tx
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase

DIMENSIONS = 384
WORKSPACES = 100
QUERIES = 200
RECALL_AT = 20
BATCH = 1000
VOCABULARY = 20_000
WORDS_IN_ENTRY = 60
WORDS_IN_TURN = 20
SPEAKERS = ("Ann", "Bob")
MOST_CPU_MS = 10.0
TARGETS_MS = {"biggest": {10_000: 9.0, 100_000: 9.0, 1_000_000: 47.0}, "middle": {100_000: 2.0, 1_000_000: 4.0}}
MOST_FIRST_MS = 500.0


class Given:
    """An embedder whose vectors were made beforehand."""

    id = "given"
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self.vectors: dict[str, NDArray[np.float32]] = {}

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """What was given for each text."""
        return np.array([self.vectors[text] for text in texts], np.float32)

    async def close(self) -> None:
        """Nothing is held."""


def workspace_id(name: str) -> str:
    """An id of the right shape for a name."""
    return f"ws_{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def workspace(tx: Tx, name: str) -> str:
    """A workspace to itself."""
    row = {"org": f"org_{name}", "project": f"prj_{name}", "id": workspace_id(name), "name": name}
    tx.execute("INSERT INTO organization (id, name, created_at) VALUES (:org, :name, 0)", row)
    tx.execute(
        "INSERT INTO project (id, organization_id, slug, name, created_at) VALUES (:project, :org, :name, :name, 0)",
        row,
    )
    tx.execute(
        "INSERT INTO workspace (id, project_id, organization_id, slug, name, created_at) "
        "VALUES (:id, :project, :org, :name, :name, 0)",
        row,
    )
    return row["id"]


def sizes(total: int) -> list[int]:
    """Workspaces from half of everything down to a few entries."""
    shares = np.array([0.3 * 0.7**rank + 0.0005 for rank in range(WORKSPACES)])
    return [max(1, int(size)) for size in total * shares / shares.sum()]


def sentences(random: np.random.Generator, count: int, length: int) -> list[str]:
    """Texts of made-up words, some common and most rare."""
    ranks = np.minimum(random.zipf(1.2, (count, length)), VOCABULARY)
    return [" ".join(spelled(int(rank)) for rank in row) for row in ranks]


@lru_cache(maxsize=VOCABULARY + 1)
def spelled(rank: int) -> str:
    """A word of its own for each number, in syllables."""
    syllables = []
    while rank:
        rank, digit = divmod(rank, 100)
        syllables.append("bdfgklmnprstvzcjhw"[digit % 18] + "aeiou"[digit // 20] + "kt"[digit % 2])
    return "".join(syllables)


def vectors(random: np.random.Generator, count: int, centres: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unit vectors in clusters, as texts have topics."""
    near = centres[random.integers(0, len(centres), count)]
    return unit(near + 0.06 * random.standard_normal((count, DIMENSIONS), np.float32))


async def measure(total: int, *, embed: bool) -> list[Figure]:
    """Fill a database and ask."""
    random = np.random.default_rng(1)
    centres = unit(random.standard_normal((256, DIMENSIONS), np.float32))
    given = Given()
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "bench.db")
        await migrate(database)
        search = SearchEngine(database, given, SystemClock())
        kept: dict[str, NDArray[np.float32]] = {}
        written = ingest_seconds = 0.0
        for rank, size in enumerate(sizes(total)):
            here = await database.write(lambda tx, rank=rank: workspace(tx, f"w{rank}"))  # type: ignore[misc]
            kept[here] = vectors(random, size, centres).astype(np.float16).astype(np.float32)
            for start in range(0, size, BATCH):
                part = kept[here][start : start + BATCH]
                texts = sentences(random, len(part), WORDS_IN_ENTRY)
                entries = [
                    Entry(
                        here,
                        "memory",
                        f"m{start + index}",
                        "",
                        text,
                        0,
                        source=f"s{(start + index) // 20}",
                        position=index,
                    )
                    for index, text in enumerate(texts)
                ]
                began = time.perf_counter()
                await database.write(lambda tx, e=entries, v=part: search.put(tx, e, v))  # type: ignore[misc]
                ingest_seconds += time.perf_counter() - began
                written += len(part)
        figures = [Figure(f"{total:,} entries: written", written / ingest_seconds, "/s", 6000.0)]
        names = list(kept)
        await search.index()
        search = SearchEngine(database, given, SystemClock())
        # As a server does once it has loaded.
        await keep_loaded()
        for label, here in (("biggest", names[0]), ("middle", names[8])):
            most = TARGETS_MS[label].get(total)
            name = f"{total:,} entries, {label} workspace"
            figures += await ask(search, given, here, kept[here], random, name, most)
        await database.close()
    if embed:
        figures.append(await embedding_time(random))
    return figures


async def ask(
    search: SearchEngine,
    given: Given,
    here: str,
    kept: NDArray[np.float32],
    random: np.random.Generator,
    label: str,
    most_ms: float | None,
) -> list[Figure]:
    """The times of hybrid queries and of exact numpy, and how many of the nearest are found."""
    texts = [f"{text} q{number}" for number, text in enumerate(sentences(random, QUERIES, 4))]
    asked = unit(
        kept[random.integers(0, len(kept), QUERIES)] + 0.03 * random.standard_normal((QUERIES, DIMENSIONS), np.float32)
    )
    given.vectors = dict(zip(texts, asked, strict=True))
    began = time.process_time()
    await search.search(Query(here, texts[0]))
    cold = time.process_time() - began
    times, spent, exact_times, shares = [], [], [], []
    for text, vector in zip(texts, asked, strict=True):
        began, cpu = time.perf_counter(), time.process_time()
        await search.search(Query(here, text))
        times.append(time.perf_counter() - began)
        spent.append(time.process_time() - cpu)
        began = time.perf_counter()
        best = np.argsort(-(kept @ vector))[:RECALL_AT]
        exact_times.append(time.perf_counter() - began)
        found = await search.nearest(here, None, vector, RECALL_AT)
        shares.append(len({f"m{row}" for row in best} & {id for id, _ in found}) / min(RECALL_AT, len(kept)))
    p50, p99 = (1000 * float(np.percentile(times, share)) for share in (50, 99))
    return [
        Figure(f"{label} ({len(kept):,}): CPU of the first search", 1000 * cold, "ms", MOST_FIRST_MS, "lower"),
        Figure(f"{label}: hybrid p50", p50, "ms", most_ms, "lower"),
        Figure(f"{label}: hybrid p50, CPU", 1000 * float(np.median(spent)), "ms"),
        Figure(f"{label}: hybrid p99", p99, "ms"),
        Figure(f"{label}: exact numpy, vectors only, p50", 1000 * float(np.median(exact_times)), "ms"),
        Figure(f"{label}: recall@{RECALL_AT} of the nearest", float(np.mean(shares)), "", 0.98),
    ]


async def conversations(entries: int) -> list[Figure]:
    """What a query takes where everything was said by somebody: one workspace, talks of twenty turns."""
    random = np.random.default_rng(2)
    centres = unit(random.standard_normal((256, DIMENSIONS), np.float32))
    given = Given()
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "bench.db")
        await migrate(database)
        search = SearchEngine(database, given, SystemClock())
        here = await database.write(lambda tx: workspace(tx, "talks"))
        kept = vectors(random, entries, centres)
        for start in range(0, entries, BATCH):
            part = kept[start : start + BATCH]
            turns = [
                Entry(
                    here,
                    "memory",
                    f"m{number}",
                    "",
                    f"{SPEAKERS[number % 2]}: I {text}",
                    number,
                    author=SPEAKERS[number % 2],
                    source=f"s{number // 20}",
                    position=number % 20,
                    spoken=True,
                )
                for number, text in enumerate(sentences(random, len(part), WORDS_IN_TURN), start)
            ]
            await database.write(lambda tx, e=turns, v=part: search.put(tx, e, v))  # type: ignore[misc]
        texts = [f"what did {SPEAKERS[0]} {text}" for text in sentences(random, QUERIES, 5)]
        bare = [without_names(text, frozenset(SPEAKERS)) for text in texts]
        given.vectors = dict(zip(bare, kept[random.integers(0, entries, QUERIES)], strict=True))
        await search.search(Query(here, texts[0]))
        began = time.process_time()
        for text in texts:
            await search.search(Query(here, text))
        spent = 1000 * (time.process_time() - began) / QUERIES
        await database.close()
    return [Figure(f"{entries:,} turns of conversations: CPU of a query", spent, "ms", MOST_CPU_MS, "lower")]


async def embedding_time(random: np.random.Generator) -> Figure:
    """What the shipped model adds to a query."""
    model = MiniLmEmbedder()
    texts = sentences(random, 30, 8)
    await model.embed(texts[:1])
    times = []
    for text in texts:
        began = time.perf_counter()
        await model.embed([text])
        times.append(time.perf_counter() - began)
    await model.close()
    return Figure("embedding a query, p50", 1000 * float(np.median(times)), "ms")


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--turns", type=int, default=0, help="also ask so many turns of conversations")
    parser.add_argument("--embed", action="store_true", help="also measure the shipped model")
    chosen = parser.parse_args()
    figures = []
    for number, total in enumerate(chosen.sizes):
        figures += asyncio.run(measure(total, embed=chosen.embed and number == 0))
    if chosen.turns:
        figures += asyncio.run(conversations(chosen.turns))
    finish(figures, as_json=chosen.json)


if __name__ == "__main__":
    main()
