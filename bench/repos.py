"""Measures repository memory: how fast a history is taken in, whether the right files are found, how fast a query is.

python -m bench.repos ingest [--path CLONE] [--commits N]   commits and files a second, and the memory that takes
python -m bench.repos clone [--commits N]          the memory of cloning a history over HTTP
python -m bench.repos retrieval --path CLONE       from a commit's subject to the files it changed
python -m bench.repos search                       search_memory over 100,000 passages, the query's vector included
"""

import argparse
import asyncio
import math
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import psutil

from bench.report import Figure, finish, options
from holdfast.core.clock import SystemClock
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.transport.address import parse_location
from holdfast.engines.git.transport.tunnel import Rules
from holdfast.engines.search import Entry
from holdfast.engines.search.embedders.base import Embedder, unit
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.engines.search.text.analyser import query_words, words
from holdfast.features.identity.service import local_principal
from holdfast.features.repositories.model import NewRepository, Repository
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.embedder import WordEmbedder
from tests.support.code.git import GitRepo
from tests.support.code.git_server import git_server
from tests.support.services import Services, background, build_services, first_start

COMMITS = 10_000
HELD_OUT = 200
MOST_CHANGED = 10
"""A commit that changed more files is a sweep; its subject names none of them."""
DEPTH = 10
CHUNKS = 100_000
QUERIES = 60
LONGEST_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Opened:
    """The product on a store of its own."""

    services: Services
    owner: Principal
    workspace_id: str

    async def remember(self, path: Path) -> tuple[Repository, float]:
        """Add a repository and wait until it is read; it, and the seconds that took."""
        began = time.perf_counter()
        added = await self.services.repositories.add(self.owner, self.workspace_id, NewRepository(str(path)))
        await self.services.jobs.wait(added.job_id or "", timeout_seconds=LONGEST_SECONDS)
        seconds = time.perf_counter() - began
        found = await self.services.repositories.get(self.owner, added.slug)
        if found.state != "ready":
            raise RuntimeError(f"not read: {found.reason}")
        return found, seconds


@asynccontextmanager
async def opened(embedder: Embedder, *, embedding: bool) -> AsyncIterator[Opened]:
    """Services on SQLite; without `embedding` nothing fills in vectors beside the work that is measured."""
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "holdfast.db")
        await migrate(database)
        services = build_services(Settings(data_dir=Path(directory)), database, SystemClock(), embedder)
        if not embedding:
            setattr(services.search, "run", _nothing)  # noqa: B010 – a method is replaced on purpose
        async with background(services):
            start = await first_start(services)
            yield Opened(services, local_principal(start.organization_id), start.workspace_id)
        await database.close()


async def _nothing() -> None:
    """In the place of work beside the requests."""


class Weighing:
    """The most memory that this process and its children had together, looked at often; or only children called so."""

    def __init__(self, child: str = "") -> None:
        self._process = psutil.Process()
        self._child = child
        self.before = self._now()
        self.most = self.before
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Weighing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _now(self) -> int:
        total = 0
        children = self._process.children(recursive=True)
        for process in children if self._child else (self._process, *children):
            try:
                if not self._child or self._child in " ".join(process.cmdline()):
                    total += process.memory_info().rss
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return total

    def _watch(self) -> None:
        # Looking costs time that is measured, so not more often.
        while not self._over.wait(0.25):
            self.most = max(self.most, self._now())


# Taking a history in


async def ingest(path: Path | None, commits: int) -> list[Figure]:
    """Read a generated history, or a clone."""
    is_generated = path is None
    with tempfile.TemporaryDirectory() as directory:
        path = path or _grown(Path(directory) / "generated", commits)
        floor = _log_seconds(path)
        async with opened(WordEmbedder(), embedding=False) as product:
            with Weighing() as weighing:
                found, seconds = await product.remember(path)
            began = time.perf_counter()
            again = await product.services.repositories.sync(product.owner, found.slug)
            await product.services.jobs.wait(again.job_id or "", timeout_seconds=600)
            second = time.perf_counter() - began
    name = "generated" if is_generated else found.name
    # A short history is over before the files are read.
    target = 2000 if is_generated else None
    return [
        Figure(f"{name}: commits taken in ({found.commits:,}, files too)", found.commits / seconds, "/s", target),
        Figure(f"{name}: files taken in ({found.files:,})", found.files / seconds, "/s"),
        Figure(f"{name}: share of `git log --numstat`'s own speed", floor / seconds, "×"),
        Figure(f"{name}: most memory, server and readers", weighing.most / 1e6, "MB", 500, "lower"),
        Figure(f"{name}: a second sync without a change", second * 1000, "ms"),
    ]


def _grown(path: Path, commits: int, *, bare: bool = False) -> Path:
    """A repository of many commits, made in a process whose memory is not ours."""
    made = f"GitRepo(Path({str(path)!r}), bare={bare}).grow({commits}, files=400)"
    subprocess.run([sys.executable, "-c", f"from tests.support.code.git import *; {made}"], check=True)
    return path


async def clone(commits: int) -> list[Figure]:
    """Fetch a generated history from git's own HTTP server, into a mirror."""
    with tempfile.TemporaryDirectory() as directory:
        _grown(Path(directory) / "served" / "big.git", commits, bare=True)
        with (
            git_server(Path(directory) / "served") as server,
            Weighing("holdfast.engines.git.transport.cloning") as weighing,
        ):
            git = GitEngine(Path(directory) / "mirrors", Rules(allow_private=(server.place,)))
            began = time.perf_counter()
            await git.fetch("repo_1", parse_location(server.url("big.git")))
            seconds = time.perf_counter() - began
            await git.close()
    return [
        Figure(f"{commits:,} commits cloned over HTTP", commits / seconds, "/s"),
        Figure("most memory of the cloning process", weighing.most / 1e6, "MB", 500, "lower"),
    ]


def _log_seconds(path: Path) -> float:
    """How long git itself takes to tell every commit with its files."""
    began = time.perf_counter()
    subprocess.run(["git", "-C", str(path), "log", "--numstat", "-M"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


# Finding the files that a commit changed


@dataclass(frozen=True, slots=True)
class Change:
    """A commit that the index does not know: what it says and the known files that it changed."""

    subject: str
    files: frozenset[str]


async def retrieval(path: Path, held_out: int) -> list[Figure]:
    """Recall of changed files, through the product and through each of two plain ways, over the same commits."""
    with tempfile.TemporaryDirectory() as directory:
        cut = GitRepo.clone(path.resolve(), Path(directory) / "cut", "--no-local")
        hashes = cut.run("rev-list", "--first-parent", "HEAD").split()
        held_out = min(held_out, len(hashes) // 2)
        later, at = hashes[:held_out], hashes[held_out]
        known = set(cut.run("ls-tree", "-r", "--name-only", at).splitlines())
        changes = [each for sha in later if (each := _change(cut, sha, known)) is not None]
        cut.run("reset", "-q", "--hard", at)
        cut.run("reflog", "expire", "--expire=now", "--all")
        cut.run("update-ref", "-d", "refs/remotes/origin/HEAD")
        async with opened(MiniLmEmbedder(), embedding=False) as product:
            found, _ = await product.remember(cut.path)
            await product.services.search.tend()
            ours = [await _through_product(product, found.slug, each.subject) for each in changes]
            nearest = await _by_meaning(product, found, [each.subject for each in changes])
        plain = Bm25({name: _text(cut.path / name) for name in sorted(known)})
        lexical = [plain.best(each.subject, DEPTH) for each in changes]
    label = f"{path.resolve().name}, {len(changes)} commits, {len(known)} files"
    bm25, meaning, product_recall = (_recall(changes, way) for way in (lexical, nearest, ours))
    return [
        Figure(f"recall@{DEPTH} BM25 over files ({label})", bm25, "%"),
        Figure(f"recall@{DEPTH} embedding only", meaning, "%"),
        Figure(f"recall@{DEPTH} Holdfast", product_recall, "%", max(bm25, meaning) + 3),
    ]


def _change(repository: GitRepo, sha: str, known: set[str]) -> Change | None:
    files = frozenset(repository.run("show", "--no-renames", "--format=", "--name-only", sha).splitlines())
    if len(files) > MOST_CHANGED or not files & known:
        return None
    return Change(repository.run("show", "-s", "--format=%s", sha), files & known)


async def _through_product(product: Opened, slug: str, subject: str) -> list[str]:
    found = await product.services.repository_finding.files(product.owner, [slug], subject, limit=DEPTH)
    return [each.path for each in found]


async def _by_meaning(product: Opened, repository: Repository, subjects: Sequence[str]) -> list[list[str]]:
    """The files of the passages nearest to each subject, by the same vectors."""
    vectors = await product.services.search.embed(list(subjects))
    found = []
    for vector in vectors:
        near = await product.services.search.nearest(
            product.workspace_id, frozenset({"file"}), np.asarray(vector, np.float32), DEPTH
        )
        found.append([id.removeprefix(f"{repository.id}/") for id, _ in near])
    return found


class Bm25:
    """Okapi BM25 over whole files, with the product's own stemming."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._names = list(texts)
        self._counts = [Counter(words(f"{name} {text}")) for name, text in texts.items()]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / max(1, len(self._lengths))
        self._seen_in = Counter(word for counts in self._counts for word in counts)

    def best(self, query: str, depth: int) -> list[str]:
        """The files with the highest scores."""
        total = len(self._names)
        scores = [0.0] * total
        for word in set(query_words(query)):
            seen = self._seen_in[word]
            weight = math.log(1 + (total - seen + 0.5) / (seen + 0.5))
            for place, counts in enumerate(self._counts):
                often = counts[word]
                if often:
                    scores[place] += (
                        weight * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * self._lengths[place] / self._mean))
                    )
        ranked = sorted(range(total), key=lambda place: -scores[place])[:depth]
        return [self._names[place] for place in ranked if scores[place] > 0]


def _text(path: Path) -> str:
    data = path.read_bytes()[:500_000] if path.is_file() else b""
    return "" if b"\0" in data[:8000] else data.decode(errors="replace")


def _recall(changes: Sequence[Change], found: Sequence[Sequence[str]]) -> float:
    shares = [len(change.files & set(names)) / len(change.files) for change, names in zip(changes, found, strict=True)]
    return 100 * sum(shares) / max(1, len(shares))


# Asking


async def search(chunks: int) -> list[Figure]:
    """How long `search_memory` takes over many passages, with the shipped model's vector of each query."""
    random = np.random.default_rng(6)
    with tempfile.TemporaryDirectory() as directory:
        made = GitRepo(Path(directory) / "big")
        made.grow(500, files=50)
        async with opened(MiniLmEmbedder(), embedding=False) as product:
            found, _ = await product.remember(made.path)
            vocabulary = _vocabulary()
            for start in range(0, chunks, 1000):
                entries = [
                    _passage(product, found, number, vocabulary, random) for number in range(start, start + 1000)
                ]
                vectors = unit(random.standard_normal((len(entries), 384), np.float32))
                await product.services.database.write(
                    partial(product.services.search.put, entries=entries, vectors=vectors)
                )
            queries = [" ".join(random.choice(vocabulary, 5)) for _ in range(QUERIES)]
            await product.services.repository_finding.search(product.owner, [found.slug], "warm up the model")
            took = []
            for query in queries:
                began = time.perf_counter()
                await product.services.repository_finding.search(product.owner, [found.slug], query)
                took.append((time.perf_counter() - began) * 1000)
    return [
        Figure(f"search_memory p50 over {chunks:,} passages, embedding included", median(took), "ms", 20, "lower"),
        Figure("search_memory p95", sorted(took)[int(len(took) * 0.95)], "ms"),
    ]


def _vocabulary() -> list[str]:
    """Words and identifiers as code has them: this project's own."""
    text = " ".join(_text(path) for path in sorted(Path("src").rglob("*.py")))
    return [word for word, often in Counter(re.findall(r"[A-Za-z_]{3,24}", text)).most_common(8000) if often > 1]


def _passage(
    product: Opened, repository: Repository, number: int, vocabulary: Sequence[str], random: np.random.Generator
) -> Entry:
    path = f"src/area_{number % 97}/part_{number // 20}.py"
    places = np.minimum(random.zipf(1.15, 120), len(vocabulary)) - 1
    return Entry(
        workspace_id=product.workspace_id,
        type="file",
        id=f"{repository.id}/{path}",
        part=number % 20,
        title=path,
        text=" ".join(vocabulary[place] for place in places),
        learned_at=1,
        source=f"{repository.id}/{path}",
        position=number % 20,
        collection=repository.id,
        meta={"repository": repository.slug, "path": path, "start_line": 1, "end_line": 20},
    )


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", choices=("ingest", "clone", "retrieval", "search"))
    parser.add_argument("--path", type=Path, help="a clone to measure with")
    parser.add_argument("--commits", type=int, default=COMMITS, help="how many the generated history has")
    parser.add_argument("--held-out", type=int, default=HELD_OUT, help="newest commits that the index does not know")
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    chosen = parser.parse_args()
    if chosen.what == "ingest":
        figures = asyncio.run(ingest(chosen.path, chosen.commits))
    elif chosen.what == "clone":
        figures = asyncio.run(clone(chosen.commits))
    elif chosen.what == "retrieval":
        figures = asyncio.run(retrieval(chosen.path or Path(), chosen.held_out))
    else:
        figures = asyncio.run(search(chosen.chunks))
    finish(figures, as_json=chosen.json)


if __name__ == "__main__":
    main()
