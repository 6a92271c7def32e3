"""Owns search across everything a workspace knows: one result for each entity."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.model import Hit, Query
from holdfast.features.memory import chats, store
from holdfast.features.memory.model import Memory, Recalled
from holdfast.features.memory.writing.overview import worded
from holdfast.features.memory.writing.wording import clean
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.registry.precedence import RELATED, hits_in_order, worth_showing
from holdfast.storage.database import Database, Tx

MAX_QUERY = 2_000
MAX_RESULTS = 50

# A document is indexed in chunks, and several of one may match best.
_CHUNKS = 4


class MemoryFinding:
    """Searches what people and agents wrote down, and what repositories hold, at once."""

    def __init__(self, database: Database, workspaces: Workspaces, search: SearchEngine, entities: Entities) -> None:
        self._database = database
        self._workspaces = workspaces
        self._search = search
        self._entities = entities

    async def recall(self, wanted: Query, chat_id: str | None) -> list[Recalled]:
        """Memories about a query, best first, in the words they had then; none that only fill the list."""
        hits = worth_showing(await chats.search(self._search, wanted, chat_id))

        def work(tx: Tx) -> dict[str, Memory]:
            rows = store.by_ids(tx, wanted.workspace_id, [hit.id for hit in hits])
            return {each.id: each for each in worded(tx, list(rows.values()), wanted.as_of)}

        rows = await self._database.glance(work)
        return [Recalled(rows[hit.id], hit.score, hit.snippet) for hit in hits if hit.id in rows]

    async def search(
        self,
        principal: Principal,
        workspace_id: str,
        query: str,
        *,
        types: Iterable[str] | None = None,
        limit: int = 10,
        as_of: int | None = None,
        explain: bool = False,
    ) -> list[Hit]:
        """The best passages for the query, at most one of each entity, best first; none that only fill the list."""
        principal.require_any("read", "inference")
        text = clean(query)
        if not text or len(text) > MAX_QUERY:
            problem = f"write what to look for, in 1 to {MAX_QUERY:,} characters"
            raise Invalid(f"The query cannot be used: {problem}.", fields=[FieldError("query", problem)])
        wanted = known_types(self._entities, types)
        workspace = await self._workspaces.get(principal, workspace_id)
        most = min(limit, MAX_RESULTS)
        passages = Query(workspace.id, text, wanted, most * _CHUNKS, as_of, explain=explain)
        found = worth_showing(await best(self._search, self._entities, passages, most))
        if as_of is not None or not _families(self._entities, wanted)[1]:
            return found
        # What the query names outright (a symbol, path, commit or number) comes first.
        named = await self._entities.named(workspace.id, text)
        named = [hit for hit in named if wanted is None or hit.type in wanted]
        return _each_once([*named, *found])[:most]


async def best(search: SearchEngine, entities: Entities, query: Query, limit: int) -> list[Hit]:
    """The best passage of each of the best entities; the query's own limit is how many passages are looked at."""
    noted, read = await _found(search, entities, query)
    return merged(query.text, _each_once(noted), _each_once(read), limit)


async def passages(search: SearchEngine, entities: Entities, query: Query) -> list[Hit]:
    """The best passages, also several of one entity: for callers that quote them."""
    return merged(query.text, *await _found(search, entities, query), query.limit)


async def _found(search: SearchEngine, entities: Entities, query: Query) -> tuple[list[Hit], list[Hit]]:
    """What people and agents wrote down, and what was read from repositories."""
    noted, read = _families(entities, query.types)
    if noted and read and await search.has_collections(query.workspace_id):
        # Each by itself: a repository has thousands of passages for each thing that somebody wrote down.
        written, kept = await asyncio.gather(
            search.search(replace(query, types=noted)), search.search(replace(query, types=read))
        )
        return written, kept
    # Named even where all are wanted: the index also holds what is one chat's alone.
    found = await search.search(replace(query, types=noted | read))
    return ([], found) if read and not noted else (found, [])


def merged(text: str, noted: Sequence[Hit], read: Sequence[Hit], limit: int) -> list[Hit]:
    """What was written down and what repositories hold in one list.

    Which of them are in it is decided by score, which means the same for both; passages of repositories take at most
    half of the places as long as what was written down is about the query. Their order is that of the kinds.
    """
    related = sum(hit.score >= RELATED for hit in noted)
    room = limit - min(related, (limit + 1) // 2)
    chosen = sorted([*noted, *read[:room]], key=lambda hit: -hit.score)[:limit]
    return hits_in_order(text, chosen)


def known_types(entities: Entities, types: Iterable[str] | None) -> frozenset[str] | None:
    """The types asked for, plural or singular; None for all of them, Invalid for one that does not exist."""
    found: set[str] = set()
    for word in types or ():
        searched = entities.searched_as(word.strip().lower())
        if not searched:
            problem = f"{word[:40]!r} is not one of {', '.join(entities.searchable)}"
            raise Invalid(f"A type cannot be searched: {problem}.", fields=[FieldError("types", problem)])
        found |= searched
    return frozenset(found) or None


def _each_once(hits: Iterable[Hit]) -> list[Hit]:
    first: dict[tuple[str, str], Hit] = {}
    for hit in hits:
        first.setdefault((hit.type, hit.id), hit)
    return list(first.values())


def _families(entities: Entities, wanted: frozenset[str] | None) -> tuple[frozenset[str], frozenset[str]]:
    noted, read = frozenset(entities.written), frozenset(entities.read)
    return (noted, read) if wanted is None else (noted & wanted, read & wanted)
