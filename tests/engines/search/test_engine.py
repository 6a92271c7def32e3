"""Owns the proof of the search engine's rules, on both stores."""

from holdfast.engines.search import Query
from holdfast.storage.database import Database
from tests.engines.search.corpus import NOW, engine, entry, put, workspace
from tests.support.clock import MovableClock


async def test_an_entry_is_found_by_its_words(database: Database, clock: MovableClock) -> None:
    search = engine(database, clock)
    here = await database.write(lambda tx: workspace(tx, "a"))
    await put(
        search,
        database,
        [
            entry(here, "m1", "We deploy every Tuesday from the release branch.", meta={"slug": "deploys"}),
            entry(here, "m2", "The office plants are watered by Kim."),
        ],
    )

    hits = await search.search(Query(here, "when do we deploy?"))

    assert hits[0].id == "m1"
    assert hits[0].snippet == "We **deploy** every Tuesday from the release branch."
    assert hits[0].meta == {"slug": "deploys"}
    assert NOW > hits[0].learned_at


async def test_the_nearest_entity_comes_with_its_cosine(database: Database, clock: MovableClock) -> None:
    search = engine(database, clock)
    here = await database.write(lambda tx: workspace(tx, "a"))
    await put(search, database, [entry(here, "m1", "green tea"), entry(here, "m2", "black coffee")])

    vector = (await search.embed(["green tea"]))[0]
    found = await search.nearest(here, frozenset({"memory"}), vector, 2)

    assert found[0][0] == "m1"
    assert found[0][1] > 0.99
    assert len(found) == 2
