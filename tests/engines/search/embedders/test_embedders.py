"""Owns the proof of the embedders: the shipped model, an OpenAI-compatible upstream, and changing between them."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from aiohttp import web
from numpy.typing import NDArray

from holdfast.core.errors import UpstreamFailed
from holdfast.engines.search import Query
from holdfast.engines.search.embedders import minilm
from holdfast.engines.search.embedders.minilm import LONGEST_CHARACTERS, MiniLmEmbedder
from holdfast.engines.search.embedders.upstream import UpstreamEmbedder
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.search.corpus import engine, entry, put, workspace
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock

DIMENSIONS = 48


class StrictServer:
    """An /embeddings that refuses whatever the OpenAI reference does not allow, and can fail on demand."""

    def __init__(self) -> None:
        self.url = ""
        self.requests = 0
        self.fail_with: int | None = None
        self.short = False
        self._words = WordEmbedder(DIMENSIONS)

    async def answer(self, request: web.Request) -> web.Response:
        self.requests += 1
        if self.fail_with is not None:
            return web.json_response({"error": {"message": "overloaded"}}, status=self.fail_with)
        body = await request.json()
        inputs = body.get("input")
        wrong = (
            request.headers.get("Authorization") != "Bearer sk-test"
            or set(body) != {"model", "input", "encoding_format"}
            or body["model"] != "test-embed"
            or body["encoding_format"] != "float"
            or not isinstance(inputs, list)
            or not 1 <= len(inputs) <= 2048
            or any(not isinstance(text, str) or not text for text in inputs)
        )
        if wrong:
            return web.json_response({"error": {"message": "invalid request"}}, status=400)
        vectors = 3 * await self._words.embed(inputs)
        rows = [
            {"object": "embedding", "index": index, "embedding": vector.tolist()[: -1 if self.short else None]}
            for index, vector in enumerate(vectors)
        ]
        # The order of the list is not promised; the index is.
        return web.json_response({"object": "list", "data": rows[::-1], "model": "test-embed", "usage": {}})


@pytest.fixture
async def server() -> AsyncIterator[StrictServer]:
    strict = StrictServer()
    application = web.Application()
    application.router.add_post("/v1/embeddings", strict.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    strict.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield strict
    await runner.cleanup()


@pytest.fixture
async def upstream(server: StrictServer) -> AsyncIterator[UpstreamEmbedder]:
    embedder = UpstreamEmbedder(server.url, "test-embed", DIMENSIONS, api_key="sk-test")
    yield embedder
    await embedder.close()


async def test_an_upstream_gives_unit_vectors_in_the_order_asked(upstream: UpstreamEmbedder) -> None:
    texts = [f"word{number}" for number in range(150)] + [""]

    vectors = await upstream.embed(texts)

    assert vectors.shape == (151, DIMENSIONS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors[140], (await upstream.embed(["word140"]))[0], atol=1e-5)


async def test_an_upstream_that_refuses_is_named(upstream: UpstreamEmbedder, server: StrictServer) -> None:
    server.fail_with = 401
    with pytest.raises(UpstreamFailed, match="401"):
        await upstream.embed(["x"])
    assert server.requests == 1


async def test_vectors_of_another_length_are_refused(upstream: UpstreamEmbedder, server: StrictServer) -> None:
    server.short = True
    with pytest.raises(UpstreamFailed, match="shape"):
        await upstream.embed(["x"])


async def test_words_still_find_while_the_upstream_is_away(
    database: Database, clock: MovableClock, upstream: UpstreamEmbedder, server: StrictServer
) -> None:
    search = engine(database, clock, upstream)
    here = await database.write(lambda tx: workspace(tx, "a"))
    await put(search, database, [entry(here, "m1", "green tea")], embedded=False)

    server.fail_with = 400

    assert [hit.id for hit in await search.search(Query(here, "tea"))] == ["m1"]


@pytest.mark.slow
async def test_the_embedder_changes_while_searches_and_writes_go_on(
    database: Database, clock: MovableClock, upstream: UpstreamEmbedder
) -> None:
    before = engine(database, clock)
    here = await database.write(lambda tx: workspace(tx, "a"))
    await put(before, database, [entry(here, f"m{number}", f"note{number} about tea") for number in range(200)])

    after = engine(database, clock, upstream)
    assert (await after.progress()).pending == 200
    running = asyncio.create_task(after.run())
    searched = 0
    async with asyncio.timeout(120):
        while (await after.progress()).pending or searched < 10:
            wanted = searched % 200
            hits = await after.search(Query(here, f"note{wanted} tea"))
            assert hits[0].id == f"m{wanted}"
            if searched < 30:
                await put(after, database, [entry(here, f"w{searched}", f"meanwhile{searched}")], embedded=False)
            searched += 1
    await after.stop()
    await running

    assert (await after.progress()).pending == 0
    assert await after.check() == []
    vector = (await upstream.embed(["note7 about tea"]))[0]
    nearest = await after.nearest(here, None, vector, 1)
    assert nearest[0][0] == "m7" and nearest[0][1] > 0.99


async def test_a_text_that_changes_while_it_is_embedded_is_embedded_again(
    database: Database, clock: MovableClock
) -> None:
    class Slow(WordEmbedder):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            vectors = await super().embed(texts)
            if texts == ["first text"]:
                await put(search, database, [entry(here, "m1", "second text")], embedded=False)
            return vectors

    search = engine(database, clock, Slow(32))
    here = await database.write(lambda tx: workspace(tx, "a"))
    await put(search, database, [entry(here, "m1", "first text")], embedded=False)

    assert await search.tend() == 1

    vector = (await search.embed(["second text"]))[0]
    assert (await search.nearest(here, None, vector, 1))[0][1] > 0.99


@pytest.mark.slow
async def test_the_shipped_model_finds_by_meaning(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    model = MiniLmEmbedder()
    search = engine(sqlite_database, clock, model)
    here = await sqlite_database.write(lambda tx: workspace(tx, "a"))
    texts = {
        "m1": "Our physician recommended more sleep.",
        "m2": "The server listens on port 8080.",
        "m3": "We paint the fence on Saturday.",
    }
    await put(search, sqlite_database, [entry(here, id, text) for id, text in texts.items()])
    try:
        hits = await search.search(Query(here, "what did the doctor advise"))
        vectors = await model.embed(["word " * 5000, "", "word"])
    finally:
        await search.stop()

    assert hits[0].id == "m1" and hits[0].score >= 0.3
    assert all(hit.score < 0.3 for hit in hits[1:])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)


@pytest.mark.slow
async def test_texts_of_all_lengths_get_their_own_vectors_and_long_ones_go_two_at_a_time() -> None:
    texts = ["one two", "parse the reply " * 80, "", "three", "write the ledger " * 200, "four " * 30] * 3
    lengths = [min(len(text), LONGEST_CHARACTERS) for text in texts]
    batches = list(minilm.batches(lengths))
    assert sorted(index for batch in batches for index in batch) == list(range(len(texts)))
    assert all(
        len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= minilm.BATCH_CHARACTERS
        for batch in batches
    )
    embedder = MiniLmEmbedder(threads=1)
    together = await embedder.embed(texts)
    alone = await embedder.embed(texts[1:2])
    await embedder.close()
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-3)
    assert together[1] @ alone[0] > 0.98


async def test_what_the_model_cannot_read_is_near_to_itself_alone() -> None:
    embedder = MiniLmEmbedder()
    try:
        vectors = await embedder.embed(
            ["🚀", "ประชุมทุกวัน", "ฐานข้อมูลหลัก", "🚀", "Deploy on Friday 🚀", "Deploy on Friday"]
        )
    finally:
        await embedder.close()
    likeness = vectors @ vectors.T
    assert likeness[0, 3] > 0.999
    assert np.abs(likeness[[0, 0, 1], [1, 2, 2]]).max() < 0.3
    assert likeness[4, 5] > 0.5
