"""Measures what search finds: evidence recall on LoCoMo conversations, each turn one entry, with the shipped model.

Recall at 5, 10 and 20 over all questions and per question type. The data is CC BY-NC 4.0 and no part of the project.
"""

import asyncio
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.report import Figure, finish, options
from holdfast.core.clock import SystemClock
from holdfast.engines.search import Entry, Query, SearchEngine
from holdfast.engines.search.embedder import Embedder
from holdfast.engines.search.hashing import WordEmbedder
from holdfast.engines.search.minilm import MiniLmEmbedder
from holdfast.storage.database import Tx
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase

DEPTHS = (5, 10, 20)
TARGET_AT_10 = 79.0
TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


def turns(conversation: dict[str, Any], workspace_id: str) -> Iterator[Entry]:
    """Each turn as the product stores one: its speaker as author, its session as source, the session's date."""
    for name, session in conversation.items():
        if not isinstance(session, list):
            continue
        spoken = datetime.strptime(conversation[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        moment = round(spoken.timestamp() * 1000)
        for position, turn in enumerate(session):
            caption = f" [shared {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            yield Entry(
                workspace_id,
                "memory",
                turn["dia_id"],
                "",
                turn["text"] + caption,
                moment,
                occurred_at=moment,
                author=turn["speaker"],
                source=name,
                position=position,
            )


def workspace(tx: Tx, name: str) -> str:
    """A workspace to itself."""
    row = {"org": f"org_{name}", "project": f"prj_{name}", "id": f"ws_{name}", "name": name}
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


async def measure(path: Path, embedder: Embedder) -> list[Figure]:
    """Index every conversation and ask every question."""
    shares: dict[str, list[list[float]]] = defaultdict(list)
    searching = embedding = 0.0
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "bench.db")
        await migrate(database)
        search = SearchEngine(database, embedder, SystemClock())
        for number, sample in enumerate(json.loads(path.read_text())):
            here = await database.write(lambda tx, number=number: workspace(tx, f"c{number}"))  # type: ignore[misc]
            entries = list(turns(sample["conversation"], here))
            started = time.perf_counter()
            vectors = await search.embed([entry.text for entry in entries])
            embedding += time.perf_counter() - started
            await database.write(lambda tx, e=entries, v=vectors: search.put(tx, e, v))  # type: ignore[misc]
            known = {entry.id for entry in entries}
            for question in sample["qa"]:
                evidence = set(question.get("evidence", [])) & known
                if not evidence:
                    continue
                started = time.perf_counter()
                hits = await search.search(Query(here, question["question"], limit=max(DEPTHS)))
                searching += time.perf_counter() - started
                found = [hit.id for hit in hits]
                share = [len(evidence & set(found[:depth])) / len(evidence) for depth in DEPTHS]
                for group in ("all", TYPES[question["category"]]):
                    shares[group].append(share)
        await search.stop()
        await database.close()
    figures = []
    for group in ("all", *TYPES.values()):
        rows = shares[group]
        for index, depth in enumerate(DEPTHS):
            mean = 100 * sum(row[index] for row in rows) / max(len(rows), 1)
            target = TARGET_AT_10 if group == "all" and depth == 10 and embedder.id == MiniLmEmbedder.id else None
            figures.append(Figure(f"recall@{depth}, {group} ({len(rows)} questions)", mean, "%", target))
    figures.append(Figure("embedding every turn", embedding, "s"))
    figures.append(Figure("one search, its embedding included", 1000 * searching / len(shares["all"]), "ms"))
    return figures


def main() -> None:
    """Measure as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data/locomo-dev.json")
    parser.add_argument("--embedder", choices=("minilm", "words"), default="minilm")
    chosen = parser.parse_args()
    embedder: Embedder = MiniLmEmbedder() if chosen.embedder == "minilm" else WordEmbedder()
    finish(asyncio.run(measure(chosen.data, embedder)), as_json=chosen.json)


if __name__ == "__main__":
    main()
