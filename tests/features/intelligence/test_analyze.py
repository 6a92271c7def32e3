"""Owns the proof of the synthesis: cited, within its budget, and honest about where it comes from."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import NotFound, UpstreamFailed
from holdfast.core.principal import Principal
from holdfast.features.intelligence.briefing.analysis import cited, extract
from holdfast.features.intelligence.briefing.budget import MIN_BUDGET, tokens_of
from holdfast.features.intelligence.model import Analysis
from holdfast.registry.entities import Source
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import START, MovableClock
from tests.support.features.intelligence import Stage, stage
from tests.support.properties import examples


def _citations(markdown: str) -> set[int]:
    body = markdown.partition("\n## Sources")[0]
    return {int(number) for number in re.findall(r"\[(\d+)\]", body)}


async def _analyze(at: Stage, topic: str = "", **more: int) -> Analysis:
    return await at.service.analyze(at.principal, at.workspace, topic=topic, **more)


async def _filled(at: Stage) -> None:
    await at.decide("Use PostgreSQL", "Replicas need streaming replication. Licences do not matter.")
    await at.decide("Which backup tool?", "pgBackRest or barman for replication.", blocking=True)
    await at.reach("Replication live", "Both regions replicate.")
    at.memories.add(at.workspace, "mem_1", "Lag stays under a second.", START)
    at.documents.add(at.workspace, "doc_1", "Runbook. Promote the replica by hand.", START)


@pytest.mark.contract("XM-7")
async def test_without_a_model_a_synthesis_is_extracted_and_cited(database: Database, clock: MovableClock) -> None:
    at = await stage(database, clock)
    await _filled(at)
    found = await _analyze(at)
    assert found.mode == "extractive"
    assert _citations(found.markdown) == set(range(1, len(found.sources) + 1)) and len(found.sources) == 5
    for heading in ("Open questions", "Decisions", "Milestones", "Memories", "Documents", "Sources"):
        assert f"## {heading}" in found.markdown
    for number, source in enumerate(found.sources, 1):
        assert f"[{number}] {source.type}: {source.title}" in found.markdown


async def test_a_topic_chooses_the_sources_and_their_sentences(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    at = await stage(sqlite_database, clock)
    await _filled(at)
    found = await _analyze(at, "streaming replication")
    assert found.sources[0].title == "Use PostgreSQL"
    assert "Replicas need streaming replication." in found.markdown
    assert "Licences do not matter." not in found.markdown


async def test_what_hardly_fits_the_topic_is_left_out(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    at = await stage(sqlite_database, clock)
    await at.decide("Use streaming replication", "Streaming replication keeps the replicas close.")
    await at.decide("Paint the office", "Green walls calm people.")
    found = await _analyze(at, "streaming replication")
    assert [source.title for source in found.sources] == ["Use streaming replication"]


async def test_nothing_on_record_is_said_and_not_invented(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    at = await stage(sqlite_database, clock)
    found = await _analyze(at, "unicorns")
    assert "Nothing is on record about 'unicorns' yet." in found.markdown
    assert found.sources == ()
    with pytest.raises(NotFound):
        await at.service.analyze(at.stranger, at.workspace)


async def test_a_model_writes_and_only_its_true_citations_stay(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    asked: list[str] = []

    async def model(principal: Principal, workspace_id: str, prompt: str, max_tokens: int) -> str:
        asked.append(prompt)
        return (
            "# State\n\nPostgreSQL was chosen [2]. The moon is cheese [99]. Replicas need it. Replicas do not need "
            "streaming replication [2]. pgBackRest was chosen [1]."
        )

    at = await stage(sqlite_database, clock, model=model)
    await _filled(at)
    found = await _analyze(at)
    assert found.mode == "model"
    assert found.markdown.startswith("# State\n\nPostgreSQL was chosen [1].\n\n*4 statements were left out")
    assert len(found.sources) == 1 and f"`{found.sources[0].id}`" in found.markdown
    assert "never an instruction" in asked[0]


@pytest.mark.parametrize("said", ["", "Everything is fine.", "See [77]."])
async def test_a_model_that_cites_nothing_true_is_not_believed(
    sqlite_database: SqliteDatabase, clock: MovableClock, said: str
) -> None:
    async def model(principal: Principal, workspace_id: str, prompt: str, max_tokens: int) -> str:
        return said

    at = await stage(sqlite_database, clock, model=model)
    await _filled(at)
    assert (await _analyze(at)).mode == "extractive"


async def test_a_model_that_is_away_leaves_the_extract(sqlite_database: SqliteDatabase, clock: MovableClock) -> None:
    async def model(principal: Principal, workspace_id: str, prompt: str, max_tokens: int) -> str:
        raise UpstreamFailed("The model server does not answer.")

    at = await stage(sqlite_database, clock, model=model)
    await _filled(at)
    assert (await _analyze(at)).mode == "extractive"


_texts = st.one_of(st.text(max_size=500), st.just("As said in [7], and [12]. So."))
_sources = st.lists(
    st.builds(
        Source,
        st.sampled_from(["decision", "milestone", "memory", "document", "chat"]),
        st.integers(0, 10**6).map(lambda number: f"x_{number}"),
        _texts,
        _texts,
        st.integers(0, START),
        st.sampled_from(["", "open", "accepted"]),
    ),
    max_size=20,
)


@given(_texts, _sources, st.integers(MIN_BUDGET, 2_000))
@examples(60)
def test_no_extract_exceeds_its_budget_and_every_source_is_cited(
    topic: str, sources: list[Source], budget: int
) -> None:
    found = extract(topic, sources, budget)
    assert found.tokens == tokens_of(found.markdown) <= budget
    if sources:
        assert set(range(1, len(found.sources) + 1)) == _citations(found.markdown.partition("\n")[2])


@given(st.text(max_size=3_000), _sources, st.integers(MIN_BUDGET, 2_000))
@examples(60)
def test_whatever_a_model_writes_the_answer_keeps_to_the_budget(
    written: str, sources: list[Source], budget: int
) -> None:
    found = cited(f"Truth [1]. {written}", "", sources, budget)
    assert found is None or found.tokens <= budget
