"""Owns what the search tests share: workspaces to put entries into, and short ways to make entries."""

from typing import Any

from holdfast.core.clock import Clock
from holdfast.engines.search import Entry, SearchEngine
from holdfast.engines.search.embedders.base import Embedder
from holdfast.engines.search.engine import INDEX_ABOVE
from holdfast.storage.database import Database, Tx
from tests.fakes.embedder import WordEmbedder

NOW = 1_795_000_000_000


def workspace(tx: Tx, name: str) -> str:
    """A workspace of its own organization and project; its id."""
    row = {"org": f"org_{name}", "project": f"prj_{name}", "id": f"ws_{name}", "name": name, "now": NOW}
    tx.execute("INSERT INTO organization (id, name, created_at) VALUES (:org, :name, :now)", row)
    tx.execute(
        "INSERT INTO project (id, organization_id, slug, name, created_at) VALUES (:project, :org, :name, :name, :now)",
        row,
    )
    tx.execute(
        "INSERT INTO workspace (id, project_id, organization_id, slug, name, created_at) "
        "VALUES (:id, :project, :org, :name, :name, :now)",
        row,
    )
    return f"ws_{name}"


def entry(workspace_id: str, id: str, text: str, **more: Any) -> Entry:
    """An entry with the fields that matter to a test."""
    fields: dict[str, Any] = {"type": "memory", "title": "", "learned_at": NOW - 1000}
    return Entry(workspace_id=workspace_id, id=id, text=text, **(fields | more))


def engine(
    database: Database,
    clock: Clock,
    embedder: Embedder | None = None,
    *,
    backlog: Embedder | None = None,
    index_above: int = INDEX_ABOVE,
) -> SearchEngine:
    """A search engine that needs no model."""
    return SearchEngine(database, embedder or WordEmbedder(64), clock, backlog=backlog, index_above=index_above)


async def put(search: SearchEngine, database: Database, entries: list[Entry], *, embedded: bool = True) -> None:
    """Put entries in one transaction, with their vectors unless told otherwise."""
    vectors = await search.embed([one.text for one in entries]) if embedded else None
    await database.write(lambda tx: search.put(tx, entries, vectors))
