"""Owns the search engine: what services write into it in their transactions and what they ask of it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.core.clock import Clock
from holdfast.engines.search.embedder import Embedder
from holdfast.engines.search.model import Entry, Hit, Query
from holdfast.storage.database import Database, Tx


class SearchEngine:
    """Lexical and vector search over the entries of each workspace, fused."""

    def __init__(self, database: Database, embedder: Embedder, clock: Clock) -> None:
        self._database = database
        self._embedder = embedder
        self._clock = clock

    def put(self, tx: Tx, entries: Sequence[Entry], vectors: NDArray[np.float32] | None = None) -> None:
        """Write entries with their index in the caller's transaction; without vectors they are embedded soon after."""
        raise NotImplementedError

    def remove(self, tx: Tx, workspace_id: str, type: str, id: str) -> None:
        """Take every part of an entity out."""
        raise NotImplementedError

    def expire(self, tx: Tx, workspace_id: str, type: str, id: str, at: int) -> None:
        """Leave the entity out of present answers from `at` on; `as_of` still finds it."""
        raise NotImplementedError

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of the texts, computed off the event loop."""
        raise NotImplementedError

    async def search(self, query: Query) -> list[Hit]:
        """The best entries of a workspace for the query, best first."""
        raise NotImplementedError

    async def nearest(
        self, workspace_id: str, types: frozenset[str] | None, vector: NDArray[np.float32], limit: int
    ) -> list[tuple[str, float]]:
        """The entities nearest to a vector with their cosine, nearest first: for near-duplicates."""
        raise NotImplementedError
