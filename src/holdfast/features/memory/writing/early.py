"""Owns saves that come while a started server still loads its model: with nothing to compare with, none waits."""

import asyncio

import numpy as np

from holdfast.core.errors import Unavailable, UpstreamFailed
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.keeper import embedded_text
from holdfast.features.memory import store
from holdfast.features.memory.model import Filters, Memory, Saved
from holdfast.features.memory.writing.draft import entry_of
from holdfast.storage.database import Database, Tx


class EarlySaves:
    """The first memory of a workspace is kept at once, and gets its vector as soon as the model is there."""

    def __init__(self, database: Database, search: SearchEngine) -> None:
        self._database = database
        self._search = search
        self._following: set[asyncio.Task[None]] = set()

    async def need_no_model(self, workspace_id: str) -> bool:
        """Whether the model is not there yet, and there is no memory that a new one could repeat or contradict."""
        if not self._search.is_loading:
            return False
        return await self._database.glance(lambda tx: not store.page(tx, workspace_id, Filters(), None, 1))

    def follow(self, saved: Saved, went_ahead: bool) -> Saved:
        """Give a memory that went ahead its vector, beside what the caller does."""
        if went_ahead and saved.memory is not None:
            task = asyncio.create_task(self._embed(saved.memory))
            self._following.add(task)
            task.add_done_callback(self._following.discard)
        return saved

    async def settled(self) -> None:
        """Return when what went ahead can be compared with."""
        if self._following:
            await asyncio.wait(self._following)

    async def _embed(self, memory: Memory) -> None:
        text = embedded_text(memory.title, memory.content)
        try:
            vectors = await self._search.embed([text])
        except (UpstreamFailed, Unavailable):
            # The index makes it later, as for every entry without one.
            return

        def work(tx: Tx) -> None:
            kept = store.find(tx, memory.workspace_id, memory.id)
            # It may have been edited or retracted meanwhile.
            if kept is not None and kept.status == "current" and embedded_text(kept.title, kept.content) == text:
                self._search.put(tx, [entry_of(kept)], np.asarray(vectors, np.float32))

        await self._database.write(work)
