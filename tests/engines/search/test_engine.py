"""Owns the proof of the search engine's rules, on both stores."""

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.core.errors import Invalid
from holdfast.engines.search import Entry, Hit, Query, SearchEngine, keeper
from holdfast.storage.database import Database
from tests.engines.search.corpus import NOW, engine, entry, put, workspace
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock

DAY = 86_400_000


@pytest.fixture
def search(database: Database, clock: MovableClock) -> SearchEngine:
    return engine(database, clock)


@pytest.fixture
async def here(database: Database) -> str:
    return await database.write(lambda tx: workspace(tx, "here"))


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


async def test_an_entry_is_found_by_its_words_and_shows_where_it_came_from(
    database: Database, search: SearchEngine, here: str
) -> None:
    deploys = entry(here, "m1", "We deploy every Tuesday from the release branch.", meta={"slug": "deploys"})
    await put(search, database, [deploys, entry(here, "m2", "The office plants are watered by Kim.")])

    hit = (await search.search(Query(here, "when do we deploy?")))[0]

    assert hit.id == "m1"
    assert hit.snippet == "We **deploy** every Tuesday from the release branch."
    assert hit.meta == {"slug": "deploys"}
    assert (hit.type, hit.part, hit.learned_at) == ("memory", 0, NOW - 1000)


async def test_a_title_is_searched_with_its_text(database: Database, search: SearchEngine, here: str) -> None:
    await put(search, database, [entry(here, "d1", "Chosen for its extensions.", title="PostgreSQL over MySQL")])

    assert ids(await search.search(Query(here, "mysql"))) == ["d1"]


async def test_what_has_nothing_to_do_with_the_query_scores_below_what_answers_it(
    database: Database, search: SearchEngine, here: str
) -> None:
    texts = {
        "m1": "Invoices are sent on the first of the month.",
        "m2": "Kim waters the plants.",
        "m3": "The cat sleeps.",
    }
    await put(search, database, [entry(here, id, text) for id, text in texts.items()])

    hits = await search.search(Query(here, "when are invoices sent"))

    assert hits[0].id == "m1" and hits[0].score > 0.6
    assert all(hit.score < 0.3 for hit in hits[1:])


async def test_putting_again_replaces(database: Database, search: SearchEngine, here: str) -> None:
    await put(search, database, [entry(here, "m1", "The port is 8080.")])
    await put(search, database, [entry(here, "m1", "The address is 10.0.0.7.")])

    assert await search.check() == []
    assert ids(await search.search(Query(here, "address"))) == ["m1"]
    assert "8080" not in (await search.search(Query(here, "port 8080")))[0].text


async def test_the_same_entry_twice_in_one_put_keeps_the_last(
    database: Database, search: SearchEngine, here: str
) -> None:
    await put(search, database, [entry(here, "m1", "first words"), entry(here, "m1", "second words")])

    assert [hit.text for hit in await search.search(Query(here, "words"))] == ["second words"]


async def test_removing_takes_every_part_out(database: Database, search: SearchEngine, here: str) -> None:
    parts = [entry(here, "doc", f"chapter {part} about whales", part=part) for part in range(3)]
    await put(search, database, [*parts, entry(here, "m1", "about whales")])
    assert len(await search.search(Query(here, "whales"))) == 4

    await database.write(lambda tx: search.remove(tx, here, "memory", "doc"))

    assert ids(await search.search(Query(here, "whales"))) == ["m1"]
    assert await search.check() == []


async def test_what_rolls_back_is_not_found(database: Database, search: SearchEngine, here: str) -> None:
    def fail(tx: object) -> None:
        search.put(tx, [entry(here, "m1", "never happened")])  # type: ignore[arg-type]
        raise Invalid("no")

    with pytest.raises(Invalid):
        await database.write(fail)

    assert await search.search(Query(here, "never happened")) == []
    assert await search.check() == []


async def test_expired_knowledge_is_out_of_present_answers_and_found_as_of_then(
    database: Database, search: SearchEngine, here: str, clock: MovableClock
) -> None:
    clock.millis = NOW
    await put(search, database, [entry(here, "old", "The lead is Ana.", learned_at=NOW - 10 * DAY)])
    await put(search, database, [entry(here, "new", "The lead is Bo.", learned_at=NOW - 2 * DAY)])
    assert set(ids(await search.search(Query(here, "lead")))) == {"old", "new"}

    await database.write(lambda tx: search.expire(tx, here, "memory", "old", NOW - 2 * DAY))

    assert ids(await search.search(Query(here, "who is the lead"))) == ["new"]
    assert ids(await search.search(Query(here, "who is the lead", as_of=NOW - 5 * DAY))) == ["old"]
    assert await search.search(Query(here, "who is the lead", as_of=NOW - 11 * DAY)) == []
    vector = (await search.embed(["The lead is Ana."]))[0]
    assert [id for id, _ in await search.nearest(here, None, vector, 5)] == ["new"]


async def test_types_meta_and_ids_narrow_the_search(database: Database, search: SearchEngine, here: str) -> None:
    await put(
        search,
        database,
        [
            entry(
                here, "m1", "river crossing", meta={"category": "fact", "stores": ["vs_1", "vs_2"], "n": 3, "ok": True}
            ),
            entry(here, "m2", "river fishing", meta={"category": "habit", "n": 4, "ok": False}),
            entry(here, "d1", "river map", type="document", meta={"category": "fact", "stores": ["vs_3"]}),
        ],
    )

    async def found(**narrow: object) -> set[str]:
        return set(ids(await search.search(Query(here, "river", **narrow))))  # type: ignore[arg-type]

    assert await found() == {"m1", "m2", "d1"}
    assert await found(types=frozenset({"document"})) == {"d1"}
    assert await found(types=frozenset()) == set()
    assert await found(meta={"category": "fact"}) == {"m1", "d1"}
    assert await found(meta={"category": frozenset({"habit", "other"})}) == {"m2"}
    assert await found(meta={"stores": "vs_2"}) == {"m1"}
    assert await found(meta={"stores": None}) == {"m2"}
    assert await found(meta={"n": 4}) == {"m2"}
    assert await found(meta={"ok": True}) == {"m1"}
    assert await found(ids=frozenset({"m2", "d1"})) == {"m2", "d1"}
    assert await found(ids=frozenset({"m2", "d1"}), types=frozenset({"memory"})) == {"m2"}
    with pytest.raises(Invalid):
        await found(meta={"a'; DROP TABLE": "x"})


async def test_code_is_found_by_its_parts_and_whole(database: Database, search: SearchEngine, here: str) -> None:
    code = "def parse_header(self): ...  # parseHeader of HTTPReader in src/net/reader.py since v2.10.3"
    others = [entry(here, f"m{number}", f"note {number} on cooking rice") for number in range(20)]
    await put(search, database, [*others, entry(here, "code", code)])

    for query in (
        "parse_header",
        "parseHeader",
        "header",
        "src/net/reader.py",
        "reader.py",
        "v2.10.3",
        "HTTPReader",
        "reader",
    ):
        assert (await search.search(Query(here, query)))[0].id == "code", query


@pytest.mark.parametrize(
    ("written", "queries"),
    [
        ("def parse_location(text)", ["parse_location", "parseLocation", "ParseLocation", "parse location"]),
        ("const parseLocation = (text) =>", ["parse_location", "parseLocation", "parselocation", "parse location"]),
        ("class ParseLocation extends Base", ["parse_location", "ParseLocation", "PARSE_LOCATION"]),
        (
            "see engines/git/transport/address.py for it",
            ["engines/git/transport/address.py", "git/address.py", "address.py", "address"],
        ),
    ],
)
async def test_a_name_is_found_however_it_is_written(
    database: Database, search: SearchEngine, here: str, written: str, queries: list[str]
) -> None:
    others = ["parse the header first", "the location of the office", "python and git", "an engine", "a base class"]
    await put(search, database, [entry(here, f"m{number}", text) for number, text in enumerate([*others, written])])

    for query in queries:
        hit = (await search.search(Query(here, query)))[0]
        assert (hit.text, hit.score > 0.4) == (written, True), query


async def test_words_without_spaces_between_them_are_found(database: Database, search: SearchEngine, here: str) -> None:
    await put(
        search, database, [entry(here, "m1", "会議は東京都庁で行います"), entry(here, "m2", "café crème à Genève")]
    )

    assert (await search.search(Query(here, "東京")))[0].id == "m1"
    assert (await search.search(Query(here, "CAFE geneve")))[0].id == "m2"


async def test_a_date_in_the_query_prefers_what_happened_then(
    database: Database, search: SearchEngine, here: str
) -> None:
    day = 1_683_417_600_000  # 2023-05-07
    await put(
        search,
        database,
        [entry(here, f"m{month}", "We met the client.", occurred_at=day + month * 31 * DAY) for month in range(-4, 5)],
    )

    assert (await search.search(Query(here, "the client on 7 May 2023")))[0].id == "m0"
    assert (await search.search(Query(here, "client in June 2023")))[0].id == "m1"
    assert (await search.search(Query(here, "client meeting 2023-03")))[0].id == "m-2"


async def test_recent_words_prefer_the_newest(
    database: Database, search: SearchEngine, here: str, clock: MovableClock
) -> None:
    clock.millis = NOW
    await put(
        search,
        database,
        [entry(here, f"m{age}", "Release notes.", learned_at=NOW - age * 30 * DAY) for age in range(9)],
    )

    assert (await search.search(Query(here, "latest release notes")))[0].id == "m0"
    assert (await search.search(Query(here, "release notes of today")))[0].id == "m0"


async def test_naming_someone_prefers_their_words(database: Database, search: SearchEngine, here: str) -> None:
    await put(
        search,
        database,
        [
            entry(here, "m1", "I like hiking in the hills.", author="Caroline"),
            entry(here, "m2", "I like hiking in the hills.", author="Melanie"),
        ],
    )

    assert (await search.search(Query(here, "Does Melanie like hiking?")))[0].id == "m2"
    assert (await search.search(Query(here, "Does Caroline like hiking?")))[0].id == "m1"


async def test_a_neighbour_in_the_same_source_lends_its_words(
    database: Database, search: SearchEngine, here: str
) -> None:
    await put(
        search,
        database,
        [
            entry(here, "q", "Which database did you pick for billing?", source="s1", position=1),
            entry(here, "a", "The one with row locks.", source="s1", position=2),
            entry(here, "x", "The one with red stripes.", source="s2", position=2),
        ],
    )

    assert ids(await search.search(Query(here, "billing database picked")))[:2] == ["q", "a"]


async def test_entries_without_vectors_are_found_by_word_at_once_and_by_likeness_later(
    database: Database, search: SearchEngine, here: str
) -> None:
    await put(search, database, [entry(here, "m1", "green tea")], embedded=False)
    vector = (await search.embed(["green tea"]))[0]

    assert ids(await search.search(Query(here, "tea"))) == ["m1"]
    assert await search.nearest(here, None, vector, 1) == []
    assert (await search.progress()).pending == 1

    assert await search.tend() == 1

    assert (await search.progress()).pending == 0
    assert [id for id, _ in await search.nearest(here, None, vector, 1)] == ["m1"]
    assert await search.check() == []


async def test_any_query_is_answered(database: Database, search: SearchEngine, here: str) -> None:
    await put(search, database, [entry(here, "m1", "plain words\0 with a zero \\ and 'quotes'")])

    for text in ("", "   ", "\n", "the of and", "?!…", '"', "' OR 1=1 --", "a AND b NOT (c", "~", "*", "\0", "\\"):
        hits = await search.search(Query(here, text))
        assert all(0 <= hit.score <= 1 for hit in hits), text


async def test_an_empty_workspace_answers_nothing(search: SearchEngine, here: str) -> None:
    assert await search.search(Query(here, "anything")) == []
    assert await search.nearest(here, None, (await search.embed(["x"]))[0], 3) == []


async def test_many_writers_of_one_new_workspace_agree(database: Database, search: SearchEngine, here: str) -> None:
    def batch(writer: int) -> list[Entry]:
        shared = [entry(here, f"shared{number}", f"words of writer{writer}", author="Ana") for number in range(5)]
        return [*shared, entry(here, f"own{writer}", f"only writer{writer} says this", author=f"Bo{writer}")]

    await asyncio.gather(*(put(search, database, batch(writer), embedded=writer % 2 == 0) for writer in range(12)))
    await asyncio.gather(*(database.write(lambda tx: search.remove(tx, here, "memory", "shared0")) for _ in range(3)))

    assert await search.check() == []
    assert (await search.progress()).entries == 4 + 12
    assert (await search.search(Query(here, "what did Bo7 say")))[0].id == "own7"


async def test_what_waits_for_a_vector_gets_it_newest_first(
    database: Database, search: SearchEngine, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "BATCH", 3)
    batches: list[list[str]] = []
    embedder = WordEmbedder(64)
    embed = embedder.embed

    async def noted(texts: Sequence[str]) -> NDArray[np.float32]:
        batches.append(list(texts))
        return await embed(texts)

    monkeypatch.setattr(embedder, "embed", noted)
    await put(search, database, [entry(here, f"m{number}", f"word{number}") for number in range(5)], embedded=False)

    assert await engine(database, MovableClock(), embedder).tend() == 5

    assert batches == [["word4", "word3", "word2"], ["word1", "word0"]]


async def test_workspaces_take_turns_at_getting_vectors(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "BATCH", 3)
    batches: list[list[str]] = []
    embedder = WordEmbedder(64)
    embed = embedder.embed

    async def noted(texts: Sequence[str]) -> NDArray[np.float32]:
        batches.append(list(texts))
        return await embed(texts)

    monkeypatch.setattr(embedder, "embed", noted)
    search = engine(database, MovableClock(), embedder)
    spaces = [await database.write(partial(workspace, name=name)) for name in "abcde"]
    for space in spaces[:4]:
        await put(search, database, [entry(space, "only", f"note of {space}")], embedded=False)
    flood = [entry(spaces[4], f"m{number:02}", f"flood{number}") for number in range(20)]
    await put(search, database, flood, embedded=False)

    assert await search.tend() == 24

    first = [text for batch in batches[:2] for text in batch]
    assert set(first) >= {f"note of {space}" for space in spaces[:4]}
    assert [text for batch in batches for text in batch if text.startswith("flood")] == [
        f"flood{number}" for number in reversed(range(20))
    ]
    assert max(len(batch) for batch in batches) == 3


async def test_an_entitys_parts_are_read_in_order(database: Database, search: SearchEngine, here: str) -> None:
    parts = [entry(here, "doc", f"page {part}", part=part, meta={"page": part}) for part in (2, 0, 1)]
    await put(search, database, [*parts, entry(here, "other", "page 0")])

    read = await database.read(lambda tx: search.parts(tx, here, "memory", "doc"))
    assert [(hit.part, hit.text, hit.meta) for hit in read] == [(n, f"page {n}", {"page": n}) for n in range(3)]
    assert len(await database.read(lambda tx: search.parts(tx, here, "memory", "doc", limit=2))) == 2
    assert await database.read(lambda tx: search.parts(tx, "ws_none", "memory", "doc")) == []
