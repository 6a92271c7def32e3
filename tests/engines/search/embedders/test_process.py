"""Owns the proofs of the model in a process of its own, and that a text is embedded once however many ask for it."""

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.core.errors import Unavailable
from holdfast.engines.search import Query
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.engines.search.embedders.process import EmbeddingProcess
from holdfast.engines.search.embedders.shared import SharedEmbedder
from holdfast.storage.database import Database
from tests.engines.search.corpus import engine, entry, put, workspace
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock

TEXTS = ["green tea in the morning", "", "日本語", "a long one " * 300, "green tea in the morning"]

SERVER = """
import asyncio
from holdfast.engines.search.embedders.process import EmbeddingProcess

async def main():
    process = EmbeddingProcess()
    await process.embed(["ready"])
    print(process.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def process() -> AsyncIterator[EmbeddingProcess]:
    made = EmbeddingProcess()
    yield made
    await made.close()


class SlowEmbedder(WordEmbedder):
    """Answers when it is let, and counts what it was asked for."""

    def __init__(self) -> None:
        super().__init__(64)
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.fails = False

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        await self.may_answer.wait()
        if self.fails:
            raise Unavailable("away")
        return await super().embed(texts)


@pytest.mark.slow
async def test_the_process_makes_the_vectors_of_the_model(process: EmbeddingProcess) -> None:
    here = MiniLmEmbedder()
    expected = await here.embed(TEXTS)
    await here.close()
    for made in (await process.embed(TEXTS), await process.backlog.embed(TEXTS)):
        assert np.allclose((made * expected).sum(axis=1), 1, atol=1e-3)


@pytest.mark.slow
async def test_a_query_is_answered_while_the_backlog_goes_on(process: EmbeddingProcess) -> None:
    async with asyncio.timeout(300):
        await process.embed(["ready"])
        backlog = asyncio.create_task(process.backlog.embed([f"{number} passage " * 100 for number in range(200)]))
        for number in range(5):
            await process.embed([f"question {number}"])
        assert not backlog.done()
        backlog.cancel()


@pytest.mark.slow
async def test_a_process_that_is_killed_is_started_again(process: EmbeddingProcess) -> None:
    async with asyncio.timeout(300):
        await process.embed(["ready"])
        first = process.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        made = await process.backlog.embed(["passage " * 100 for _ in range(20)])
        assert made.shape == (20, process.dimensions)
        assert process.pid not in (None, first)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="waits for a process that is not our child")
@pytest.mark.slow
async def test_a_process_that_is_killed_while_it_is_written_to_is_asked_again_and_nothing_is_left_unheard(
    process: EmbeddingProcess, caplog: pytest.LogCaptureFixture
) -> None:
    await process.embed(["ready"])
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    # More than its pipe and our buffer hold, so that who asks still writes when it ends.
    asked = [asyncio.create_task(process.embed([f"{number} words " * 120])) for number in range(160)]
    async with asyncio.timeout(120):
        while len(process._asked) < len(asked):
            await asyncio.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    async with asyncio.timeout(150):
        vectors = await asyncio.gather(*asked)
    assert all(np.isclose((made * made).sum(), 1, atol=1e-3) for made in vectors)
    gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_the_process_ends_with_a_server_that_is_killed() -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    handle = os.pidfd_open(int(server.stdout.readline()))
    server.kill()
    server.wait(60)
    server.stdout.close()
    ended, _, _ = select.select([handle], [], [], 60)
    os.close(handle)
    assert ended


@pytest.mark.slow
async def test_modules_that_lie_where_the_server_was_started_are_not_run(
    process: EmbeddingProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    assert (await process.embed(["tea"])).shape == (1, process.dimensions)


@pytest.mark.slow
async def test_a_closed_process_is_gone_and_says_so(process: EmbeddingProcess) -> None:
    await process.embed(["ready"])
    pid = process.pid
    assert pid is not None
    await process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(Unavailable, match="shutting down"):
        await process.embed(["more"])


async def test_who_asks_for_a_text_under_way_waits_for_the_same_answer() -> None:
    slow = SlowEmbedder()
    shared = SharedEmbedder(slow, 10)
    both = [asyncio.create_task(shared.embed(["tea", "milk", "tea"])), asyncio.create_task(shared.embed(["milk"]))]
    await asyncio.sleep(0)
    slow.may_answer.set()
    three, one = await asyncio.gather(*both)
    assert slow.asked == ["tea", "milk"]
    assert np.array_equal(three[0], three[2]) and np.array_equal(three[1], one[0])
    await shared.embed(["tea"])
    assert slow.asked == ["tea", "milk"]


async def test_who_gives_up_leaves_the_others_their_answer() -> None:
    slow = SlowEmbedder()
    shared = SharedEmbedder(slow, 10)
    first, second = (asyncio.create_task(shared.embed(["tea"])) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    slow.may_answer.set()
    assert (await second).shape == (1, 64) and slow.asked == ["tea"]


async def test_a_query_does_not_wait_for_a_model_that_is_being_loaded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engines.search.engine.LOADING_SECONDS", 0.0)
    slow = SlowEmbedder()
    search = engine(database, MovableClock(), slow)
    here = await database.write(lambda tx: workspace(tx, "a"))
    await put(search, database, [entry(here, "m1", "green tea")], embedded=False)
    search.is_loading = True
    assert [hit.id for hit in await search.search(Query(here, "tea"))] == ["m1"]
    slow.may_answer.set()
    await search.load()
    assert not search.is_loading and slow.asked == ["tea", "ready"]


async def test_a_failure_is_everybodys_and_is_not_remembered() -> None:
    slow = SlowEmbedder()
    slow.fails = True
    slow.may_answer.set()
    shared = SharedEmbedder(slow, 10)
    found = await asyncio.gather(shared.embed(["tea"]), shared.embed(["tea"]), return_exceptions=True)
    assert all(isinstance(one, Unavailable) for one in found)
    slow.fails = False
    assert (await shared.embed(["tea"])).shape == (1, 64)


async def test_only_so_many_texts_are_remembered_and_long_ones_too() -> None:
    slow = SlowEmbedder()
    slow.may_answer.set()
    shared = SharedEmbedder(slow, 2)
    texts = ["a " * 500, "b " * 500, "c " * 500]
    for text in (*texts, texts[2], texts[0]):
        await shared.embed([text])
    assert slow.asked == [*texts, texts[0]]


async def test_copies_in_the_backlog_are_embedded_once_by_the_embedder_of_the_backlog(database: Database) -> None:
    slow = SlowEmbedder()
    slow.may_answer.set()
    search = engine(database, MovableClock(), WordEmbedder(64), backlog=slow)
    here = await database.write(lambda tx: workspace(tx, "a"))
    copies = [entry(here, f"m{number}", "the licence of the project") for number in range(80)]
    await put(search, database, copies, embedded=False)
    assert await search.tend() == 80
    assert slow.asked == ["the licence of the project"]
