"""Proves that the first save after a start does not wait for the model, and that nothing is lost by that."""

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.engines.search.model import Query
from holdfast.features.identity.service import local_principal
from holdfast.features.memory.model import NewMemory, Saved
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import build_services, first_start


class LoadingEmbedder(WordEmbedder):
    """Answers when its model is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded = asyncio.Event()
        self.asked = 0

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += 1
        await self.loaded.wait()
        return await super().embed(texts)


async def test_the_first_save_does_not_wait_for_the_model_and_the_second_is_still_compared(database: Database) -> None:
    embedder = LoadingEmbedder()
    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY)
    services = build_services(settings, database, SystemClock(), embedder)
    start = await first_start(services)
    owner, workspace = local_principal(start.organization_id), start.workspace_id

    async def save(content: str) -> Saved:
        return await services.memory.save(owner, workspace, NewMemory(content))

    services.search.is_loading = True
    loading = asyncio.create_task(services.search.load())
    async with asyncio.timeout(30):
        first = await save("The deploy runs on Fridays at noon")
    assert first.memory is not None and not embedder.loaded.is_set()
    # There is something to compare with now: whether it repeats or contradicts that, only the model can tell.
    second = asyncio.create_task(save("The deploy runs on Mondays at noon"))
    async with asyncio.timeout(30):
        while embedder.asked < 3:
            await asyncio.sleep(0)
    assert not second.done()
    embedder.loaded.set()
    await loading
    assert services.search.is_loading is False
    assert [each.memory.id for each in (await second).contradicts] == [first.memory.id]
    assert (await services.search.progress()).pending == 0
    found = await services.search.search(Query(workspace, "when is the deploy"))
    assert first.memory.id in {hit.id for hit in found}


async def test_an_embedder_that_cannot_be_loaded_ends_no_server(database: Database) -> None:
    class Broken(WordEmbedder):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            from holdfast.core.errors import Unavailable

            raise Unavailable("The weights are not there.")

    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY)
    services = build_services(settings, database, SystemClock(), Broken())
    start = await first_start(services)
    services.search.is_loading = True
    await services.search.load()
    assert services.search.is_loading is False
    saved = await services.memory.save(
        local_principal(start.organization_id), start.workspace_id, NewMemory("The deploy runs on Fridays")
    )
    assert saved.memory is not None
