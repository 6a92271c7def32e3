"""Measures what search finds: evidence recall on LoCoMo conversations, each turn one entry, with the shipped model.

    python bench/retrieval.py [--data ../shared/data/locomo-dev.json] [--embedder minilm|words]

Prints recall@5/@10/@20 over all questions and per question type. The data is CC BY-NC 4.0 and not part of the project.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.engines.search import Entry, Query, SearchEngine
from holdfast.engines.search.embedder import Embedder
from holdfast.engines.search.hashing import WordEmbedder
from holdfast.engines.search.minilm import MiniLmEmbedder
from holdfast.storage.database import Tx
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase

DEPTHS = (5, 10, 20)
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


async def measure(path: Path, embedder: Embedder) -> None:
    """Index every conversation, ask every question, print the table."""
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
    print(f"{'questions':<12} {'count':>6}" + "".join(f"  recall@{depth:<3}" for depth in DEPTHS))
    for group in ("all", *TYPES.values()):
        rows = shares[group]
        means = [100 * sum(row[index] for row in rows) / max(len(rows), 1) for index in range(len(DEPTHS))]
        print(f"{group:<12} {len(rows):>6}" + "".join(f"  {mean:>9.1f}" for mean in means))
    print(f"embedding {embedding:.1f} s; search {1000 * searching / max(len(shares['all']), 1):.1f} ms a question")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data/locomo-dev.json")
    parser.add_argument("--embedder", choices=("minilm", "words"), default="minilm")
    options = parser.parse_args()
    asyncio.run(measure(options.data, MiniLmEmbedder() if options.embedder == "minilm" else WordEmbedder()))


if __name__ == "__main__":
    main()
