"""Owns the search engine: what services write into it in their transactions and what they ask of it."""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from holdfast.core.clock import Clock
from holdfast.core.errors import Unavailable, UpstreamFailed
from holdfast.engines.search import conversation, ranking
from holdfast.engines.search.embedders.base import Embedder, is_unread
from holdfast.engines.search.embedders.shared import SharedEmbedder
from holdfast.engines.search.keeper import IDLE_SECONDS, EmbeddingProgress, IndexUpkeep, embedded_text
from holdfast.engines.search.model import Entry, Hit, Query, VectorCount
from holdfast.engines.search.pool import Pool
from holdfast.engines.search.scoring import RankedQuestion, weight
from holdfast.engines.search.stores.base import Filter, Prepared, Statistics, Store, View
from holdfast.engines.search.stores.postgres import PostgresStore
from holdfast.engines.search.stores.sqlite import SqliteStore
from holdfast.engines.search.stores.workspace_index import WorkspaceIndexes
from holdfast.engines.search.text import analyser
from holdfast.engines.search.text.authors import Authors
from holdfast.engines.search.text.moments import moments
from holdfast.engines.search.text.snippet import snippet
from holdfast.engines.search.text.speech import asks_when, traits
from holdfast.storage.database import Database, Row, Tx

log = logging.getLogger(__name__)

FOUND_BY_WORDS = 90
FOUND_BY_MEANING = 90
LEADS = 40
"""The best so far, whose neighbours in their sources are looked at as well."""
MOST_MATCHES = 5000
"""Words that together match more entries help to rank but not to find, the rarest always do."""
MOST_QUERY_WORDS = 32
MOST_OTHER_SPELLINGS = 8
REMEMBERED_TEXTS = 2048
REMEMBERED_BACKLOG = 4096
"""Copies of a file come close after each other: its passages are embedded once."""
LONGEST_QUERY = 4000
QUERY_EMBEDDING_SECONDS = 20.0
LOADING_SECONDS = 0.5
"""So long a query waits for a model that is being loaded; then words alone must do."""
INDEX_ABOVE = 12_000
"""On PostgreSQL a workspace with more entries gets an HNSW index; below it comparing every vector is quick enough."""
NOTHING: Mapping[str, float] = {}


class SearchEngine:
    """Lexical and vector search over the entries of each workspace, fused."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        clock: Clock,
        *,
        backlog: Embedder | None = None,
        index_above: int = INDEX_ABOVE,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`backlog` makes the vectors that nobody waits for, where that is not the same embedder."""
        self._database = database
        self._embedder = SharedEmbedder(embedder, REMEMBERED_TEXTS)
        self._clock = clock
        self._store: Store = SqliteStore(WorkspaceIndexes()) if database.dialect == "sqlite" else PostgresStore()
        self._authors = Authors(self._store)
        later = SharedEmbedder(backlog or embedder, REMEMBERED_BACKLOG)
        self._keeper = IndexUpkeep(
            database, self._store, later, clock, index_above=index_above, idle_seconds=idle_seconds
        )
        self.is_loading = False
        """Whether a server that has started still loads the model; elsewhere the first text does."""

    def put(self, tx: Tx, entries: Sequence[Entry], vectors: NDArray[np.float32] | None = None) -> None:
        """Write entries with their index in the caller's transaction; without vectors they are embedded soon after.

        An entity that comes back with fewer parts is removed first, or its old last parts stay.
        """
        if vectors is not None and vectors.shape != (len(entries), self._embedder.dimensions):
            raise ValueError(f"vectors of shape {vectors.shape} for {len(entries)} entries")
        embedder = self._store.embedder(tx, self._embedder.id, self._embedder.dimensions)
        places: dict[str, dict[tuple[str, str, int], int]] = {}
        for index, entry in enumerate(entries):
            places.setdefault(entry.workspace_id, {})[entry.type, entry.id, entry.part] = index
        for workspace_id, last in sorted(places.items()):
            chosen = list(last.values())
            shelf = self._store.open_shelf(tx, workspace_id)
            prepared = [_prepared(entries[index]) for index in chosen]
            self._store.put(tx, shelf, prepared, None if vectors is None else vectors[chosen], embedder)
            self._store.add_authors(tx, shelf, {entries[index].author for index in chosen if entries[index].author})
        if vectors is None:
            tx.after_commit(self._keeper.wake)

    def codes(self, title: str, text: str) -> bytes | None:
        """What an entry of this title and text is given as `codes`, to be made before its transaction.

        SQLite has one writer, and reading the words of a long text within a transaction holds up everybody's writes.
        None where the store keeps words otherwise.
        """
        return self._store.codes(_searched(title, text))

    def remove(self, tx: Tx, workspace_id: str, type: str, id: str) -> None:
        """Take every part of an entity out."""
        shelf = self._store.shelf(tx, workspace_id)
        if shelf is not None:
            self._store.remove(tx, shelf, type, id)

    def remove_many(self, tx: Tx, workspace_id: str, type: str, ids: Sequence[str]) -> None:
        """Take every part of many entities out."""
        shelf = self._store.shelf(tx, workspace_id)
        if shelf is not None:
            self._store.remove_many(tx, shelf, type, ids)

    def remove_collection(self, tx: Tx, workspace_id: str, collection: str) -> None:
        """Take everything of a collection out."""
        if not collection:
            raise ValueError("what belongs to no collection is no collection")
        shelf = self._store.shelf(tx, workspace_id)
        if shelf is not None:
            self._store.remove_collection(tx, shelf, collection)

    def count(self, tx: Tx, workspace_id: str, collection: str) -> int:
        """How many entries a collection has."""
        shelf = self._store.shelf(tx, workspace_id)
        return 0 if shelf is None else self._store.count(tx, shelf, collection)

    def vectors(self, tx: Tx, workspace_id: str, collection: str) -> VectorCount:
        """How many entries of a collection have their vector, how many wait, and for how long."""
        shelf = self._store.shelf(tx, workspace_id)
        return VectorCount(0, 0) if shelf is None else self._keeper.count(tx, shelf, collection)

    def parts(self, tx: Tx, workspace_id: str, type: str, id: str, *, limit: int = 200) -> list[Hit]:
        """An entity's parts in order, as hits of the highest score without snippets: for callers that know its name."""
        shelf = self._store.shelf(tx, workspace_id)
        if shelf is None:
            return []
        return [_hit(row, 1.0, None) for row in self._store.parts(tx, shelf, type, id, limit)]

    def entries(self, tx: Tx, workspace_id: str, collection: str, *, page: int = 200) -> Iterator[Hit]:
        """Every entry of a collection by id, as `parts` shows them, some at a time."""
        shelf = self._store.shelf(tx, workspace_id)
        numbers = [] if shelf is None else [each[2] for each in sorted(self._store.numbered(tx, shelf, collection))]
        for start in range(0, len(numbers), page):
            shown = self._store.shown(tx, numbers[start : start + page])
            yield from (_hit(shown[number], 1.0, None) for number in numbers[start : start + page])

    async def has_collections(self, workspace_id: str) -> bool:
        """Whether anything in the workspace belongs to a collection."""

        def look(tx: Tx) -> bool:
            shelf = self._store.shelf(tx, workspace_id)
            return shelf is not None and self._store.has_collections(tx, shelf)

        return await self._database.glance(look)

    def expire(self, tx: Tx, workspace_id: str, type: str, id: str, at: int) -> None:
        """Leave the entity out of present answers from `at` on; `as_of` still finds it."""
        shelf = self._store.shelf(tx, workspace_id)
        if shelf is not None:
            self._store.expire(tx, shelf, type, id, at)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of the texts, computed off the event loop; recent texts are remembered."""
        return await self._embedder.embed(texts)

    async def load(self) -> None:
        """Load the model, so that nobody waits for it; a server does this once it listens."""
        try:
            await self.embed(["ready"])
        except (UpstreamFailed, Unavailable) as problem:
            log.warning("The embedder could not be loaded; words alone must do meanwhile: %s", problem.message)
        finally:
            self.is_loading = False

    async def search(self, query: Query) -> list[Hit]:
        """The best entries of a workspace for the query, best first."""
        text = query.text.strip()[:LONGEST_QUERY]
        if not text or query.limit < 1:
            return []
        named = await self._named(query.workspace_id, text)
        if named is None:
            return []
        vector = await self._query_vector(without_names(text, named))
        return await self._database.read(lambda tx: self._search(tx, query, text, vector, named))

    async def search_words(self, query: Query) -> list[Hit]:
        """The best entries by their words alone, for callers that cannot wait for the model."""
        text = query.text.strip()[:LONGEST_QUERY]
        return await self._database.read(lambda tx: self._search(tx, query, text, None, frozenset()))

    async def _query_vector(self, text: str) -> NDArray[np.float32] | None:
        """The query's vector; None while the embedder is away, when words alone must do."""
        try:
            async with asyncio.timeout(LOADING_SECONDS if self.is_loading else QUERY_EMBEDDING_SECONDS):
                vectors = await self.embed([text])
        except (UpstreamFailed, Unavailable, TimeoutError) as problem:
            log.warning("A query was answered by words alone: %s", problem or "the embedder took too long")
            return None
        vector = np.asarray(vectors[0], np.float32)
        # A script that the model does not know: what is near to such a vector is so by chance.
        return None if is_unread(text, vector) else vector

    async def nearest(
        self, workspace_id: str, types: frozenset[str] | None, vector: NDArray[np.float32], limit: int
    ) -> list[tuple[str, float]]:
        """The entities nearest to a vector with their cosine, nearest first: for near-duplicates."""
        return await self._database.read(lambda tx: self._nearest(tx, workspace_id, types, vector, limit))

    async def telling(self, query: Query) -> dict[str, float]:
        """How much each word of a query tells among what it may find; words that nothing has are left out."""

        def look(tx: Tx) -> dict[str, float]:
            shelf = self._store.shelf(tx, query.workspace_id)
            if shelf is None:
                return {}
            now = self._clock.now()
            view = self._view(tx, Filter(shelf, now, query.types, None, query.meta, query.ids, query.collections))
            words, statistics = _words(view, query.text[:LONGEST_QUERY])
            entries = max(statistics.entries, 1)
            known = {word: count for word in words if (count := statistics.frequencies.get(word, 0))}
            return {word: weight(count, entries) for word, count in known.items()}

        return await self._database.read(look)

    async def tend(self) -> int:
        """Embed every entry that has no vector of the present embedder; how many got one."""
        return await self._keeper.tend()

    async def run(self) -> None:
        """Keep vectors and indexes up to date until `stop`; for a task of the server's."""
        await self._keeper.run()

    async def stop(self) -> None:
        """End `run` after the step at hand and let go of the embedder."""
        self._keeper.stop()
        await self._embedder.close()
        await self._keeper.ended()

    async def index(self) -> list[str]:
        """Build big workspaces' vector indexes, or on SQLite their packs, now instead of soon; what was done."""
        return await self._keeper.index()

    async def progress(self) -> EmbeddingProgress:
        """How many entries there are and how many still wait for a vector."""
        return await self._keeper.progress()

    async def check(self, workspace_id: str | None = None) -> list[str]:
        """Every disagreement between entries and index, in words; none is the proof that they agree."""
        return await self._database.read(lambda tx: self._store.check(tx, self._shelf_of(tx, workspace_id)))

    def _shelf_of(self, tx: Tx, workspace_id: str | None) -> int | None:
        if workspace_id is None:
            return None
        number = self._store.shelf(tx, workspace_id)
        return -1 if number is None else number

    async def _named(self, workspace_id: str, text: str) -> frozenset[str] | None:
        """The authors the query names; None for a workspace without entries."""

        def look(tx: Tx) -> tuple[int | None, frozenset[str] | None]:
            shelf = self._store.shelf(tx, workspace_id)
            return shelf, None if shelf is None else self._authors.named(tx, shelf, text)

        shelf, named = await self._database.glance(look)
        if shelf is None or named is not None:
            return named
        return await self._database.read(lambda tx: self._authors.named_anew(tx, shelf, text))

    def _search(
        self, tx: Tx, query: Query, text: str, vector: NDArray[np.float32] | None, named: frozenset[str]
    ) -> list[Hit]:
        shelf = self._store.shelf(tx, query.workspace_id)
        if shelf is None:
            return []
        now = self._clock.now() if query.as_of is None else query.as_of
        filter = Filter(shelf, now, query.types, query.as_of, query.meta, query.ids, query.collections)
        pool, question = candidates(self._view(tx, filter), text, vector, named, query.limit, now)
        ranked = ranking.rank(pool, question, query.limit, explain=query.explain)
        return self._hits(tx, ranked, question if query.snippets else None)

    def _view(self, tx: Tx, filter: Filter) -> View:
        embedders = self._store.comparable(tx, self._embedder.id)
        return self._store.view(tx, filter, embedders, self._embedder.dimensions)

    def _hits(self, tx: Tx, ranked: list[ranking.Ranked], question: RankedQuestion | None) -> list[Hit]:
        shown = self._store.shown(tx, [one.number for one in ranked])
        # What another transaction removed or added just now may be missing.
        return [_hit(shown[one.number], one.score, question, one.explanation) for one in ranked if one.number in shown]

    def _nearest(
        self, tx: Tx, workspace_id: str, types: frozenset[str] | None, vector: NDArray[np.float32], limit: int
    ) -> list[tuple[str, float]]:
        shelf = self._store.shelf(tx, workspace_id)
        if shelf is None:
            return []
        filter = Filter(shelf, self._clock.now(), types)
        view = self._view(tx, filter)
        best: dict[str, float] = {}
        # An entity may have several parts among the nearest.
        for id, cosine in view.cosines(view.nearest(vector, limit * 3 + 10), vector):
            best[id] = max(best.get(id, -1.0), min(1.0, cosine))
        return sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]


def candidates(
    view: View, text: str, vector: NDArray[np.float32] | None, named: frozenset[str], limit: int, now: int
) -> tuple[Pool, RankedQuestion]:
    """What may answer a query, by words and by meaning, with what stands around it; and what ranking knows of it."""
    words, statistics = _words(view, text)
    weights = {word: weight(statistics.frequencies.get(word, 0), max(statistics.entries, 1)) for word in words}
    finders = _finders(weights, statistics.frequencies)
    places = view.lexical(finders, statistics.mean_length, max(FOUND_BY_WORDS, limit))
    if vector is not None:
        places = np.concatenate((places, view.nearest(vector, max(FOUND_BY_MEANING, limit))))
    places = np.unique(places)
    unknown = frozenset(word for word in words if not statistics.frequencies.get(word))
    question = RankedQuestion(
        weights, statistics.mean_length, moments(text, now), statistics.within, unknown, asks_when(text)
    )
    pool = view.pool(places, words, vector, named)
    near = [places, view.around(ranking.leads(pool, question, max(LEADS, limit)))]
    spoken = pool.places[ranking.is_spoken(pool)]
    if len(spoken):
        near.append(view.around(spoken, conversation.BEFORE, conversation.AFTER))
    wider = np.unique(np.concatenate(near))
    return (view.pool(wider, words, vector, named) if len(wider) > len(places) else pool), question


def _hit(row: Row, score: float, question: RankedQuestion | None, explanation: Mapping[str, float] = NOTHING) -> Hit:
    return Hit(
        type=row["type"],
        id=row["id"],
        part=row["part"],
        title=row["title"],
        snippet="" if question is None else snippet(row["text"], question.weights),
        score=score,
        learned_at=row["learned_at"],
        occurred_at=row["occurred_at"],
        meta=json.loads(row["meta"]),
        author=row["author"],
        source=row["source"],
        text=row["text"],
        valid_until=row["valid_until"],
        collection=row["collection"],
        explanation=explanation,
    )


def _prepared(entry: Entry) -> Prepared:
    title, text = entry.title.replace("\0", " "), entry.text.replace("\0", " ")
    kept = entry if title == entry.title and text == entry.text else replace(entry, title=title, text=text)
    meta = json.dumps(dict(entry.meta), ensure_ascii=False, sort_keys=True) if entry.meta else "{}"
    return Prepared(kept, embedded_text(title, text), meta, traits(text) if entry.spoken else 0)


def _searched(title: str, text: str) -> str:
    return embedded_text(title.replace("\0", " "), text.replace("\0", " "))


def without_names(text: str, named: frozenset[str]) -> str:
    """The query without the people it names: they prefer entries by author, and blur meaning."""
    names = {name for author in named for name in analyser.words(author)}
    rest = text
    for word in reversed(analyser.located(text, names)):
        rest = rest[: word.start] + rest[word.end :]
    return rest if analyser.words(rest) else text


def _words(view: View, text: str) -> tuple[list[str], Statistics]:
    """What to look for and how often each is there; a name's other spellings only where somebody writes it so."""
    words = analyser.query_words(text)[:MOST_QUERY_WORDS]
    others = [word for word in analyser.other_spellings(text) if word not in words][:MOST_OTHER_SPELLINGS]
    statistics = view.statistics(words + others)
    return words + [word for word in others if statistics.frequencies.get(word)], statistics


def _finders(weights: Mapping[str, float], frequencies: Mapping[str, int]) -> dict[str, float]:
    """The words to find by, rarest first, until they match too much."""
    chosen: dict[str, float] = {}
    matched = 0
    for word in sorted(weights, key=lambda one: (frequencies.get(one, 0), one)):
        matched += frequencies.get(word, 0)
        if chosen and matched > MOST_MATCHES:
            break
        if frequencies.get(word, 0):
            chosen[word] = weights[word]
    return chosen
