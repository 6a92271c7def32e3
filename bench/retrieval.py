"""Measures what search finds: evidence recall on LoCoMo conversations, each turn one entry, with the shipped model.

Recall at 5, 10 and 20 over all questions and per question type. The data is CC BY-NC 4.0 and no part of the project.
"""

import asyncio
import hashlib
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from bench.report import Figure, finish, options
from holdfast.core.clock import SystemClock
from holdfast.core.principal import SCOPES, Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search import Entry, Query, SearchEngine
from holdfast.engines.search.embedders.base import Embedder
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.embedder import WordEmbedder
from tests.support.features.audit import audit_trail
from tests.support.services import entities

DEPTHS = (5, 10, 20)
TARGET_AT_10 = 79.0
TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


@dataclass(frozen=True, slots=True)
class Turn:
    """What somebody said."""

    id: str
    speaker: str
    text: str
    session: str
    position: int
    moment: int


class Product(Protocol):
    """A way through the product: turns in, questions answered."""

    async def remember(self, conversation: int, turns: Sequence[Turn]) -> None:
        """Store a conversation in a workspace of its own."""
        ...

    async def ask(self, conversation: int, question: str) -> list[str]:
        """The ids of the turns found, best first."""
        ...


class ThroughEngine:
    """Every turn straight into the index."""

    def __init__(self, database: Database, search: SearchEngine) -> None:
        self._database = database
        self._search = search

    async def remember(self, conversation: int, turns: Sequence[Turn]) -> None:
        """One entry for each turn."""
        here = await self._database.write(lambda tx: workspace(tx, f"c{conversation}"))
        entries = [
            Entry(
                here,
                "memory",
                turn.id,
                "",
                turn.text,
                turn.moment,
                occurred_at=turn.moment,
                author=turn.speaker,
                source=turn.session,
                position=turn.position,
            )
            for turn in turns
        ]
        vectors = await self._search.embed([turn.text for turn in turns])
        await self._database.write(lambda tx: self._search.put(tx, entries, vectors))

    async def ask(self, conversation: int, question: str) -> list[str]:
        """The entries' ids."""
        return [
            hit.id
            for hit in await self._search.search(Query(workspace_id(f"c{conversation}"), question, limit=max(DEPTHS)))
        ]


class ThroughMemory:
    """Every turn as a memory saved by its speaker in its session, asked for by the service's search."""

    def __init__(self, database: Database, search: SearchEngine) -> None:
        clock = SystemClock()
        audit = audit_trail(database, clock)
        gate = Workspaces(database, audit, clock, lambda *_: True, lambda *_: True, lambda *_: True)
        self._database = database
        self._search = search
        self._memory = MemoryService(database, audit, gate, search, EventBus(database, clock), clock, entities())
        self._turns: dict[str, list[str]] = {}

    async def remember(self, conversation: int, turns: Sequence[Turn]) -> None:
        """Save in the order spoken. What is refused as junk is lost; a repeated text is the memory it repeats."""
        here = await self._database.write(lambda tx: workspace(tx, f"c{conversation}"))
        # Embedded together, which is quicker; the engine remembers them.
        await self._search.embed([turn.text for turn in turns])
        for turn in turns:
            new = NewMemory(turn.text, occurred_at=turn.moment, session_id=turn.session)
            saved = await self._memory.save(_principal(conversation, turn.speaker), here, new)
            if saved.memory is not None:
                self._turns.setdefault(saved.memory.id, []).append(turn.id)

    async def ask(self, conversation: int, question: str) -> list[str]:
        """The turns of the memories found."""
        asker = _principal(conversation, "someone")
        hits = await self._memory.search(asker, workspace_id(f"c{conversation}"), question, limit=max(DEPTHS))
        return [turn for hit in hits for turn in self._turns[hit.id]]


def _principal(conversation: int, name: str) -> Principal:
    return Principal(f"org_c{conversation}", f"usr_{name}", "session", True, frozenset(SCOPES), name=name)


def turns(conversation: dict[str, Any]) -> Iterator[Turn]:
    """Each turn with its speaker, its session and the session's date."""
    for name, session in conversation.items():
        if not isinstance(session, list):
            continue
        spoken = datetime.strptime(conversation[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for position, turn in enumerate(session):
            caption = f" [shared {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            moment = round(spoken.timestamp() * 1000)
            yield Turn(turn["dia_id"], turn["speaker"], turn["text"] + caption, name, position, moment)


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


async def measure(path: Path, embedder: Embedder, through: str) -> list[Figure]:
    """Store every conversation and ask every question."""
    shares: dict[str, list[list[float]]] = defaultdict(list)
    searching = storing = 0.0
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "bench.db")
        await migrate(database)
        search = SearchEngine(database, embedder, SystemClock())
        product: Product = ThroughMemory(database, search) if through == "memory" else ThroughEngine(database, search)
        for number, sample in enumerate(json.loads(path.read_text())):
            spoken = list(turns(sample["conversation"]))
            started = time.perf_counter()
            await product.remember(number, spoken)
            storing += time.perf_counter() - started
            known = {turn.id for turn in spoken}
            for question in sample["qa"]:
                evidence = set(question.get("evidence", [])) & known
                if not evidence:
                    continue
                started = time.perf_counter()
                found = await product.ask(number, question["question"])
                searching += time.perf_counter() - started
                share = [len(evidence & set(found[:depth])) / len(evidence) for depth in DEPTHS]
                for group in ("all", TYPES[question["category"]]):
                    shares[group].append(share)
        await search.stop()
        await database.close()
    return figures(shares, embedder.id, storing, searching)


def figures(shares: dict[str, list[list[float]]], embedder: str, storing: float, searching: float) -> list[Figure]:
    """The means, all questions first."""
    found = []
    for group in ("all", *TYPES.values()):
        rows = shares[group]
        for index, depth in enumerate(DEPTHS):
            mean = 100 * sum(row[index] for row in rows) / max(len(rows), 1)
            target = TARGET_AT_10 if group == "all" and depth == 10 and embedder == MiniLmEmbedder.id else None
            found.append(Figure(f"recall@{depth}, {group} ({len(rows)} questions)", mean, "%", target))
    found.append(Figure("storing every turn, embedded", storing, "s"))
    found.append(Figure("one search, its embedding included", 1000 * searching / len(shares["all"]), "ms"))
    return found


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data/locomo-dev.json")
    parser.add_argument("--embedder", choices=("minilm", "words"), default="minilm")
    parser.add_argument("--through", choices=("memory", "engine"), default="memory", help="which way to measure")
    chosen = parser.parse_args()
    embedder: Embedder = MiniLmEmbedder() if chosen.embedder == "minilm" else WordEmbedder()
    finish(asyncio.run(measure(chosen.data, embedder, chosen.through)), as_json=chosen.json)


if __name__ == "__main__":
    main()
