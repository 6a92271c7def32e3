"""What recall and search leave out: `limit` is how many at most, and rows that only fill the list help nobody."""

import pytest

from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.engines.search.model import Hit
from holdfast.features.memory.model import NewMemory
from holdfast.registry.precedence import LEAST, LEAST_SHARE, worth_showing
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.memories import memory_world

FACTS = (
    "We deploy to production on Tuesdays after nine.",
    "The logo is blue with a white anchor.",
    "Invoices go to the accountant in Lyon.",
    "Alice prefers tabs over spaces.",
    "The staging database is refreshed each night.",
    "The office plants are watered on Fridays.",
    "Our licence is Apache 2.0.",
    "The customer in Oslo wants reports as PDF.",
    "The mobile app supports Android 11 and later.",
    "Coffee is paid from the team budget.",
)


def _hit(score: float) -> Hit:
    return Hit("memory", f"mem_{score}", 0, "", "", score, 0, None, {})


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([], []),
        ([0.99, 0.03, 0.03, 0.03], [0.99]),
        ([0.9, 0.28, 0.26], [0.9, 0.28]),
        ([0.4, 0.2, 0.15, 0.149], [0.4, 0.2, 0.15]),
        ([0.14, 0.1], []),
    ],
)
def test_what_is_far_behind_or_hardly_related_is_left_out(scores: list[float], kept: list[float]) -> None:
    assert [hit.score for hit in worth_showing([_hit(score) for score in scores])] == kept


@pytest.mark.slow
async def test_a_question_is_answered_by_what_is_about_it(database: Database) -> None:
    here = await memory_world(database, MovableClock(), embedder=MiniLmEmbedder())
    for fact in FACTS:
        await here.memory.save(here.person, here.ws, NewMemory(fact))
    recalled = await here.memory.recall(here.person, here.ws, "When do we deploy?", limit=10)
    assert recalled[0].memory.content == FACTS[0] and len(recalled) < 5
    found = await here.memory.search(here.person, here.ws, "When do we deploy?", limit=10)
    assert found[0].id == recalled[0].memory.id and len(found) < 5
    scores = [hit.score for hit in found]
    assert min(scores) >= max(LEAST, LEAST_SHARE * max(scores))
    nothing = await here.memory.recall(here.person, here.ws, "recipe for chocolate cake", limit=10)
    assert nothing == []
    everything = await here.memory.recall(here.person, here.ws, None, limit=10)
    assert len(everything) == len(FACTS)
