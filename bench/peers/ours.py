"""Holdfast's memory service on SQLite with all its checks: tenant, secrets, repeats, contradictions, audit, events."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import numpy as np
import uvloop
from numpy.typing import NDArray

from bench.peers.given import LIMIT, Given, Store, serve
from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.features.identity.service import local_principal
from holdfast.features.memory.model import NewMemory
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.embedder import WordEmbedder
from tests.support.services import background, build_services, first_start


class _Embedder(WordEmbedder):
    """The vectors that were given, by text; made the same way where the product asks for another wording."""

    def __init__(self, given: Given) -> None:
        super().__init__(given.vectors.shape[1])
        self._vectors = dict(zip(given.texts, given.vectors, strict=True))
        self._vectors.update(zip(given.queries, given.asked, strict=True))

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if all(text in self._vectors for text in texts):
            return np.array([self._vectors[text] for text in texts], np.float32)
        return await super().embed(texts)


class Holdfast(Store):
    """One memory in the first workspace of a new server for each text."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._loop = uvloop.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._stack = AsyncExitStack()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        directory = self._given.directory / "holdfast"
        database = SqliteDatabase(directory / "holdfast.db")
        await migrate(database)
        services = build_services(Settings(data_dir=directory), database, SystemClock(), _Embedder(self._given))
        await self._stack.enter_async_context(background(services))
        start = await first_start(services)
        self._memory, self._workspace = services.memory, start.workspace_id
        self._principal = local_principal(start.organization_id)

    def add(self, number: int) -> None:
        """Save a memory; none of them repeats another."""
        saving = self._memory.save(self._principal, self._workspace, NewMemory(self._given.texts[number]))
        saved = self._loop.run_until_complete(saving)
        if saved.outcome != "saved":
            raise RuntimeError(f"not saved: {saved.reason}")

    def search(self, number: int) -> list[str]:
        """What the service's recall finds."""
        asking = self._memory.recall(self._principal, self._workspace, self._given.queries[number], limit=LIMIT)
        return [each.memory.content for each in self._loop.run_until_complete(asking)]


if __name__ == "__main__":
    serve(Holdfast)
