"""Proves that no save after a start waits for the model, and that nothing is lost by that."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.core.clock import SystemClock
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.search.model import Query
from holdfast.features.identity.service import local_principal
from holdfast.features.memory.model import Memory, MemoryChange, NewMemory, Saved
from holdfast.features.memory.writing import likeness
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, build_services, first_start


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


class LoadingServer:
    """A workspace with one memory, on a server whose model is still being loaded."""

    def __init__(self, services: Services, owner: Principal, workspace: str, embedder: LoadingEmbedder) -> None:
        self.services, self.owner, self.workspace, self.embedder = services, owner, workspace, embedder
        self._loading = asyncio.create_task(services.search.load())

    async def save(self, content: str) -> Saved:
        async with asyncio.timeout(30):
            return await self.services.memory.save(self.owner, self.workspace, NewMemory(content))

    async def loaded(self) -> None:
        """Return when the model is there and what went ahead was looked at again."""
        self.embedder.loaded.set()
        await self._loading
        await self.save("Nothing is known about the weather on the moon")

    async def memory(self, saved: Saved) -> Memory:
        assert saved.memory is not None
        return await self.services.memory.get(self.owner, self.workspace, saved.memory.id)


@pytest.fixture
async def loading(database: Database) -> LoadingServer:
    embedder = LoadingEmbedder()
    services = build_services(
        Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY), database, SystemClock(), embedder
    )
    start = await first_start(services)
    owner = local_principal(start.organization_id)
    embedder.loaded.set()
    await services.memory.save(owner, start.workspace_id, NewMemory("The deploy runs on Fridays at noon"))
    embedder.loaded.clear()
    services.search.is_loading = True
    return LoadingServer(services, owner, start.workspace_id, embedder)


async def test_a_save_among_other_memories_does_not_wait_and_sees_what_it_changes(loading: LoadingServer) -> None:
    saved = await loading.save("The deploy runs on Mondays at noon")
    assert saved.outcome == "saved" and not loading.embedder.loaded.is_set()
    assert [each.memory.content for each in saved.contradicts] == ["The deploy runs on Fridays at noon"]
    await loading.loaded()
    assert (await loading.services.search.progress()).pending == 0
    found = await loading.services.search.search(Query(loading.workspace, "when is the deploy"))
    assert saved.memory is not None and saved.memory.id in {hit.id for hit in found}
    # It was told already.
    assert (await loading.memory(saved)).status_note == ""


async def test_a_repetition_in_the_same_words_is_one_before_the_model_is_there(loading: LoadingServer) -> None:
    exact = await loading.save("The deploy runs on Fridays at noon")
    turned = await loading.save("On Fridays, at noon, the deploy runs.")
    assert [exact.outcome, turned.outcome] == ["duplicate", "duplicate"]
    assert not loading.embedder.loaded.is_set()
    await loading.loaded()


async def test_what_only_the_model_sees_as_a_repetition_gives_way_once_it_is_there(
    loading: LoadingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likeness, "repeats", lambda new, old, cosine: cosine != likeness.BY_WORDS and cosine > 0.6)
    saved = await loading.save("The deploy of ours runs on Fridays at noon")
    assert saved.outcome == "saved"
    await loading.loaded()
    kept = await loading.memory(saved)
    assert (kept.status, kept.status_note) == ("superseded", "the-deploy-runs-on-fridays-at-noon says this already.")
    recalled = await loading.services.memory.recall(loading.owner, loading.workspace, "when does the deploy run")
    assert [each.memory.content for each in recalled][:1] == ["The deploy runs on Fridays at noon"]
    assert saved.memory is not None and saved.memory.id not in {each.memory.id for each in recalled}


async def test_what_only_the_model_sees_as_a_change_is_noted_on_the_memory(
    loading: LoadingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        likeness, "contradiction", lambda new, old, cosine: None if cosine == likeness.BY_WORDS else likeness.CHANGED
    )
    saved = await loading.save("The deploy runs on Mondays at noon")
    assert saved.contradicts == []
    await loading.loaded()
    kept = await loading.memory(saved)
    assert kept.status == "current"
    assert kept.status_note == "It seems to change the-deploy-runs-on-fridays-at-noon: it says that something changed."
    contradictions = loading.services[Contradictions]
    noted = (await contradictions.list(loading.owner, loading.workspace)).items
    assert ("the-deploy-runs-on-fridays-at-noon", kept.id) in [(each.other.slug, each.memory.id) for each in noted]


async def test_of_two_early_saves_that_say_the_same_the_later_gives_way(
    loading: LoadingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likeness, "repeats", lambda new, old, cosine: cosine != likeness.BY_WORDS and cosine > 0.6)
    first = await loading.save("Anna keeps the keys of the cellar in a drawer")
    later = await loading.save("Anna keeps the cellar keys in a drawer upstairs")
    await loading.loaded()
    assert (await loading.memory(first)).status == "current"
    assert (await loading.memory(later)).superseded_by == (await loading.memory(first)).id


async def test_a_memory_edited_while_the_model_loads_is_left_as_it_was_edited(loading: LoadingServer) -> None:
    saved = await loading.save("The cellar is locked on Sundays")
    assert saved.memory is not None
    async with asyncio.timeout(30):
        await loading.services.memory.edit(
            loading.owner, loading.workspace, saved.memory.id, MemoryChange(content="The cellar is open on Sundays")
        )
    await loading.loaded()
    assert (await loading.memory(saved)).content == "The cellar is open on Sundays"
    await loading.services.search.tend()
    assert (await loading.services.search.progress()).pending == 0


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
