"""Owns the check of what a score means: hand-labelled queries on passages of this repository, with the shipped model.

labelled.json has 30 matters with two passages each (documentation, commits, code) and two queries about each matter.
A query's own two passages are related to it; those of other matters are unrelated, except where the matters are listed
as near each other, which are not counted. Twenty further queries have nothing to do with any passage.

    python -m tests.engines.search.similarity
"""

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.engines.search import Entry, Query, SearchEngine, embedded_text
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.search.corpus import NOW, workspace

SEPARATES = 0.3
LABELLED: dict[str, Any] = json.loads((Path(__file__).parent / "labelled.json").read_text())


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of pairs of a query and a passage, and the best score of each query that has nothing related."""

    related: list[float]
    unrelated: list[float]
    best_of_unrelated_queries: list[float]

    @property
    def related_above(self) -> float:
        return sum(score >= SEPARATES for score in self.related) / len(self.related)

    @property
    def unrelated_below(self) -> float:
        return sum(score < SEPARATES for score in self.unrelated) / len(self.unrelated)

    @property
    def unrelated_queries_below(self) -> float:
        found = self.best_of_unrelated_queries
        return sum(score < SEPARATES for score in found) / len(found)


async def measure(database: SqliteDatabase, search: SearchEngine) -> Scores:
    """Put every passage into one workspace and ask every query."""
    here = await database.write(lambda tx: workspace(tx, "here"))
    matters: dict[str, str] = {}
    entries: list[Entry] = []
    for matter in LABELLED["topics"]:
        for passage in matter["passages"]:
            id = f"e{len(entries)}"
            matters[id] = matter["name"]
            entries.append(Entry(here, passage["type"], id, passage["title"], passage["text"], NOW - 1000))
    vectors = await search.embed([embedded_text(entry.title, entry.text) for entry in entries])
    await database.write(lambda tx: search.put(tx, entries, vectors))

    async def scores(query: str) -> dict[str, float]:
        return {hit.id: hit.score for hit in await search.search(Query(here, query, limit=len(entries)))}

    related, unrelated = [], []
    for matter in LABELLED["topics"]:
        near = {name for names in LABELLED["near"] if matter["name"] in names for name in names}
        for query in matter["queries"]:
            found = await scores(query)
            for id, name in matters.items():
                if name == matter["name"]:
                    related.append(found.get(id, 0.0))
                elif name not in near:
                    unrelated.append(found.get(id, 0.0))
    best = [max((await scores(query)).values(), default=0.0) for query in LABELLED["unrelated_queries"]]
    return Scores(related, unrelated, best)


async def _main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "similarity.db")
        await migrate(database)
        search = SearchEngine(database, MiniLmEmbedder(), SystemClock())
        found = await measure(database, search)
        await search.stop()
        await database.close()
    print(f"| score | related ({len(found.related)}) | unrelated ({len(found.unrelated)}) | nothing to find |")
    print("|---|---|---|---|")
    parts = (found.related, found.unrelated, found.best_of_unrelated_queries)
    for step in range(10):
        low, high = step / 10, (step + 1) / 10 if step < 9 else 1.01
        shares = (sum(low <= score < high for score in part) / len(part) for part in parts)
        print(f"| {low:.1f}–{min(high, 1.0):.1f} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |")
    print(f"at least {SEPARATES}: {100 * found.related_above:.1f} % of the related; ", end="")
    print(f"below: {100 * found.unrelated_below:.1f} % of the unrelated, ", end="")
    print(f"{100 * found.unrelated_queries_below:.0f} % of the best hits where there is nothing to find")


if __name__ == "__main__":
    asyncio.run(_main())
