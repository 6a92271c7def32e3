"""Measures how well a save tells what repeats, what contradicts and what does neither, on pairs labelled for it.

likeness.json has pairs of statements. Each is saved into a workspace of its own, the old one before the new one,
through the memory service and with the model that ships. What an old statement's digest begins with decides its half:
rules were adjusted on the one, the other was held out. Pairs of the domain "development" were added to the first later.
Those of "outside" were written by somebody who had not seen the rules; their held-out half is counted by itself.

    python -m bench.likeness [--missed]
"""

import asyncio
import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bench.report import Figure, finish, options
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.features.memory.model import NewMemory, Saved
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.features.memories import memory_world

Label = Literal["duplicate", "contradiction", "neither"]
Half = Literal["tuned", "held out", "outside, held out"]
LABELS: tuple[Label, ...] = ("duplicate", "contradiction", "neither")
TARGET = 0.9


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements, and what the second is to the first."""

    old: str
    new: str
    label: Label
    development: bool = False
    """Whether it was made after the halves, to adjust rules on."""
    outside: bool = False
    """Whether it was written before its author had seen the rules."""

    @property
    def half(self) -> Half:
        """By the old statement, so that everything said of it is in one half."""
        if self.development:
            return "tuned"
        if hashlib.sha256(self.old.encode()).digest()[0] % 2 == 0:
            return "tuned"
        return "outside, held out" if self.outside else "held out"


PAIRS = [
    Pair(each["old"], each["new"], each["is"], each["domain"] == "development", each["domain"] == "outside")
    for each in json.loads((Path(__file__).parent / "likeness.json").read_text())
]


class Prepared(MiniLmEmbedder):
    """The shipped embedder, which has embedded some texts at once before they are asked for one by one."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, NDArray[np.float32]] = {}

    async def prepare(self, texts: Sequence[str]) -> None:
        """Embed texts."""
        self._known.update(zip(texts, await super().embed(texts), strict=True))

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        missing = [text for text in texts if text not in self._known]
        if missing:
            await self.prepare(missing)
        return np.array([self._known[text] for text in texts], np.float32).reshape(len(texts), self.dimensions)


def told(saved: Saved) -> Label:
    """What a save says of the memory before it."""
    if saved.outcome == "duplicate":
        return "duplicate"
    return "contradiction" if saved.contradicts else "neither"


async def judged(database: SqliteDatabase, pairs: Sequence[Pair]) -> list[Label]:
    """What saving says of each pair."""
    embedder = Prepared()
    await embedder.prepare(sorted({text for pair in pairs for text in (pair.old, pair.new)}))
    world = await memory_world(database, MovableClock(), workspaces=len(pairs), embedder=embedder)
    found = []
    try:
        for pair, workspace_id in zip(pairs, world.workspace_ids, strict=True):
            await world.memory.save(world.agent, workspace_id, NewMemory(pair.old))
            found.append(told(await world.memory.save(world.agent, workspace_id, NewMemory(pair.new))))
    finally:
        await embedder.close()
    return found


@dataclass(frozen=True, slots=True)
class Score:
    """How often a label is right where it is given, and given where it is right."""

    precision: float
    recall: float
    of: int


def scores(pairs: Sequence[Pair], found: Sequence[Label]) -> dict[Label, Score]:
    """One for each label."""
    seen = Counter((pair.label, label) for pair, label in zip(pairs, found, strict=True))
    return {
        label: Score(
            precision=seen[label, label] / max(1, sum(seen[other, label] for other in LABELS)),
            recall=seen[label, label] / max(1, sum(seen[label, other] for other in LABELS)),
            of=sum(seen[label, other] for other in LABELS),
        )
        for label in LABELS
    }


async def measure(*, missed: bool) -> list[Figure]:
    """Both halves; with `missed`, print the tuned half's mistakes (the others stay unread)."""
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "pairs.db")
        await migrate(database)
        try:
            found = await judged(database, PAIRS)
        finally:
            await database.close()
    if missed:
        for pair, label in zip(PAIRS, found, strict=True):
            if pair.half == "tuned" and label != pair.label:
                print(f"{pair.label} taken for {label}: {pair.old} | {pair.new}")
    figures = []
    for half in get_args(Half):
        chosen = [(pair, label) for pair, label in zip(PAIRS, found, strict=True) if pair.half == half]
        for label, score in scores([pair for pair, _ in chosen], [label for _, label in chosen]).items():
            target = TARGET if half != "tuned" and label != "neither" else None
            figures.append(Figure(f"{half}, {label} ({score.of}): precision", score.precision, target=target))
            figures.append(Figure(f"{half}, {label} ({score.of}): recall", score.recall, target=target))
    return figures


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--missed", action="store_true", help="print what is wrong in the tuned half")
    chosen = parser.parse_args()
    finish(asyncio.run(measure(missed=chosen.missed)), as_json=chosen.json)


if __name__ == "__main__":
    main()
