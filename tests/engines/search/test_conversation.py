"""Owns the proofs of how conversations are found: by what was said around a turn, on both stores alike."""

import pytest

from holdfast.engines.search import Entry, Query, SearchEngine
from holdfast.engines.search.conversation import FEATURES
from holdfast.storage.database import Database
from tests.engines.search.corpus import NOW, engine, entry, put, workspace
from tests.support.clock import MovableClock

TALK = (
    "Ann: Good morning, how was your weekend?",
    "Bob: Quiet, I read a lot. And yours?",
    "Ann: Which pottery class did you sign up for in the end?",
    "Bob: The one by the harbour, on Thursdays.",
    "Ann: That sounds lovely!",
)
OTHERS = tuple(f"Ann: I spoke of matter {number} with my sister." for number in range(30))


def talk(here: str, texts: tuple[str, ...], source: str) -> list[Entry]:
    return [
        entry(here, f"{source}-{place}", text, author=text.split(":")[0], source=source, position=place, spoken=True)
        for place, text in enumerate(texts)
    ]


async def world(database: Database) -> tuple[SearchEngine, str]:
    search = engine(database, MovableClock(NOW))
    here = await database.write(lambda tx: workspace(tx, "talk"))
    await put(search, database, talk(here, TALK, "one") + talk(here, OTHERS, "two"))
    return search, here


async def test_an_answer_is_found_by_the_question_before_it(database: Database) -> None:
    search, here = await world(database)
    hits = await search.search(Query(here, "Which pottery class did Bob sign up for?", limit=3))
    assert {hit.id for hit in hits[:2]} == {"one-2", "one-3"}


async def test_the_same_words_outside_of_a_conversation_lend_nothing_to_what_follows(database: Database) -> None:
    search = engine(database, MovableClock(NOW))
    here = await database.write(lambda tx: workspace(tx, "notes"))
    await put(search, database, [entry(here, f"note-{place}", text) for place, text in enumerate(TALK + OTHERS)])
    hits = await search.search(Query(here, "Which pottery class did Bob sign up for?", limit=3))
    assert "note-3" not in {hit.id for hit in hits[:1]}
    assert all("session" not in hit.explanation for hit in hits)


async def test_an_explanation_tells_what_each_feature_added(database: Database) -> None:
    search, here = await world(database)
    note = entry(here, "note", "The pottery class moved to the harbour.")
    await put(search, database, [note])
    hits = {hit.id: hit for hit in await search.search(Query(here, "pottery class", limit=10, explain=True))}
    said, told = hits["one-2"].explanation, hits["note"].explanation
    assert set(FEATURES) < set(said) and "words_with_previous" in told
    for explanation in (said, told):
        rest = {"total", "relevance", "beside_best"}
        added = sum(value for name, value in explanation.items() if name not in rest)
        assert added == pytest.approx(explanation["total"], abs=0.01)
    assert 0.5 * told["relevance"] + 0.5 * told["beside_best"] == pytest.approx(hits["note"].score, abs=0.01)
    assert not (await search.search(Query(here, "pottery class")))[0].explanation


async def test_turns_without_vectors_are_ranked_by_words_alone(database: Database) -> None:
    search = engine(database, MovableClock(NOW))
    here = await database.write(lambda tx: workspace(tx, "waiting"))
    await put(search, database, talk(here, TALK, "one"), embedded=False)
    assert (await search.search(Query(here, "pottery class")))[0].id == "one-2"
    await search.tend()
    assert (await search.search(Query(here, "pottery class")))[0].id == "one-2"
    assert await search.check() == []
