"""Owns saves that come while a started server still loads its model: none waits, and each is looked at once more."""

import asyncio
from collections.abc import Callable

import numpy as np

from holdfast.core.errors import Unavailable, UpstreamFailed
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.memory import store
from holdfast.features.memory.model import Memory, Saved
from holdfast.features.memory.writing.comparison import Compared, MemoryComparison
from holdfast.features.memory.writing.draft import entry_of
from holdfast.storage.database import Database, Tx

Review = Callable[[Tx, Memory, Compared], None]
"""Writes down what the model found of a memory that was kept before it could be asked."""


class EarlySaves:
    """A memory is kept at once, gets its vector as soon as the model is there, and is then compared by meaning."""

    def __init__(self, database: Database, search: SearchEngine, comparison: MemoryComparison) -> None:
        self._database = database
        self._search = search
        self._comparison = comparison
        self._following: set[asyncio.Task[None]] = set()
        # In turns, so that of two that say the same the later one finds the earlier.
        self._turn = asyncio.Lock()

    @property
    def go_ahead(self) -> bool:
        """Whether the model is not there yet."""
        return self._search.is_loading

    def follow(self, saved: Saved, review: Review) -> None:
        """Give a memory that went ahead its vector and its second look, beside what the caller does."""
        if saved.outcome == "saved" and saved.memory is not None:
            task = asyncio.create_task(self._look_again(saved.memory, review))
            self._following.add(task)
            task.add_done_callback(self._following.discard)

    async def settled(self) -> None:
        """Return when what went ahead can be compared with."""
        if self._following:
            await asyncio.wait(self._following)

    async def _look_again(self, memory: Memory, review: Review) -> None:
        text = memory.vector_text
        async with self._turn:
            try:
                vectors = np.asarray(await self._search.embed([text]), np.float32)
            except (UpstreamFailed, Unavailable):
                # The index makes it later, as for every entry without one.
                return

            def unchanged(tx: Tx) -> Memory | None:
                """It may have been edited, shared or retracted meanwhile."""
                kept = store.lock(tx, memory.workspace_id, memory.id)
                return kept if kept == memory else None

            def embedded(tx: Tx) -> bool:
                kept = unchanged(tx)
                if kept is not None:
                    self._search.put(tx, [entry_of(kept)], vectors)
                return kept is not None

            if not await self._database.write(embedded):
                return
            chat_id = memory.chat_id if memory.visibility == "chat" else None
            found = await self._comparison.by_meaning(memory.workspace_id, memory.content, vectors[0], chat_id, memory)

            def reviewed(tx: Tx) -> None:
                kept = unchanged(tx)
                if kept is not None:
                    review(tx, kept, found)

            await self._database.write(reviewed)
