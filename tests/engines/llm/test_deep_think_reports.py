"""Deep Think's reports: what they say of failed searches, of statements that do not hold, and after a restart."""

import json

import pytest

from holdfast.core.errors import Invalid
from holdfast.core.tools.outcome import Outcome
from holdfast.engines.llm.extractive.embedded import Extractive
from tests.engines.llm.test_deep_think import FOUND, PAGES, PLAN, REPORT, Json, Memo, failing, search, think, whole
from tests.engines.llm.turns import tool, upstream
from tests.fakes.llm.model import Turn, calls, says


async def broken(arguments: Json) -> Outcome:
    raise Invalid("The search engine answered 503 with zebras.")


@pytest.mark.parametrize("with_model", [True, False], ids=["model", "embedded"])
async def test_a_report_after_failed_searches_says_so_and_quotes_no_failure(with_model: bool) -> None:
    memo, tools = Memo(), [tool("web_search", broken)]
    if with_model:
        claims = "Zebras run at 503 km/h (https://birds.test/)."
        script = [says(PLAN), calls(("web_search", {"query": "q"})), says(claims), says("Two."), says("Three.")]
        async with upstream(*script, says("# Zebras\n\nZebras answered 503 [1].")) as (_, model):
            heard = await think(model, tools, memo)
        failed = "The only search failed"
    else:
        heard = await think(Extractive(), tools, memo)
        failed = "All 3 searches and reads failed"
    assert f"This report has no findings. {failed}, so nothing can be said about the question." in heard.text
    assert "503" not in heard.text and "ebras" not in heard.text
    assert list(memo.kept) == ["deep-think-report.md"]


async def test_a_report_beside_failed_searches_names_how_many() -> None:
    found, asked = json.dumps(PAGES), list[Json]()

    async def sometimes(arguments: Json) -> Outcome:
        asked.append(arguments)
        if len(asked) == 1:
            return await broken(arguments)
        return Outcome(found, sources=1, untrusted=True)

    twice = calls(("web_search", {"query": "one"}), ("web_search", {"query": "two"}))
    script = [says(PLAN), twice, says(FOUND), says("Two."), says("Three."), says(REPORT)]
    async with upstream(*script) as (_, model):
        heard = await think(model, [tool("web_search", sometimes)])
    assert "Grey herons nest in April [1]." in heard.text
    assert heard.text.endswith("*1 of 2 searches and reads failed; what they would have found is missing.*")


async def test_a_report_of_which_nothing_holds_gives_way_to_quotations() -> None:
    invented = "# Herons\n\nHerons were invented in 1987 by the emperor [1]. Everybody knows that."
    async with upstream(*whole(), says(invented)) as (_, model):
        heard = await think(model, [search()])
    assert "1987" not in heard.text and "Everybody" not in heard.text
    assert "- Grey herons nest in April near the tide. [1]" in heard.text
    assert "bears it out: 2 statements, 1 citation" in heard.text


async def test_what_a_model_thinks_is_heard_before_its_report() -> None:
    deltas = [{"reasoning_content": "Hm."}, {"content": REPORT}]
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": each, "finish_reason": None}]} for each in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    thinking = Turn(chunks=chunks)
    async with upstream(*whole(), thinking) as (_, model):
        heard = await think(model, [search()])
    told = [choice["delta"] for event in heard.wire for choice in event.get("choices", ())]
    assert told[0].get("reasoning_content") == "Hm."
    assert "nest in April [1]" in heard.text


async def test_a_research_that_an_older_version_began_goes_on() -> None:
    memo = Memo()
    async with upstream(*whole()[:3], Turn(status=400, body={"error": {"message": "no", "type": "x"}})) as (_, model):
        await failing(model, [search()], memo)
    assert memo.state is not None
    memo.state["results"] = [{"answer": "April.", "sources": [1]}]
    del memo.state["searches"]
    async with upstream(says("Two."), says("Three."), says(REPORT)) as (_, model):
        heard = await think(model, [search()], memo)
    assert "Grey herons nest in April [1]." in heard.text
