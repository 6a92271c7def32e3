"""The embedded model: calls by plain rules, quotes with citations, and one line that says what it is."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.errors import UpstreamFailed
from holdfast.core.tools.outcome import Outcome
from holdfast.engines.calculator import evaluate
from holdfast.engines.llm.extractive.embedded import HINT, NAME, NOTHING, SMALL_TALK, Extractive
from holdfast.engines.llm.extractive.extracts import QuotedPassage, quotes
from holdfast.engines.llm.extractive.rules import find_sum, is_small_talk, wanted_calls
from holdfast.engines.llm.model import LoopTool
from tests.engines.llm.turns import client_tool, hear

Json = dict[str, Any]

KNOWN = [
    QuotedPassage("Deploys", "Deploys happen on Tuesday mornings. Ask Mira before a hotfix.", "mem_1"),
    QuotedPassage("Kitchen", "The coffee machine is descaled monthly.", "mem_2"),
]


async def knowledge(question: str) -> Sequence[QuotedPassage]:
    return KNOWN


async def calculate(arguments: Json) -> Outcome:
    return Outcome(
        json.dumps({"expression": arguments["expression"], "result": evaluate(arguments["expression"]).result})
    )


def loop_tool(name: str, parameter: str, run: Any) -> LoopTool:
    parameters = {"type": "object", "properties": {parameter: {"type": "string"}}}
    return LoopTool(name, name, parameters, run, event="x_research.searching", research=True)


def ask(text: str) -> Json:
    return {"model": NAME, "stream": True, "messages": [{"role": "user", "content": text}]}


async def test_an_answer_quotes_the_knowledge_and_cites_it() -> None:
    heard = await hear(Extractive(knowledge), [], ask("When do deploys happen?"))
    assert heard.text == f"- Deploys happen on Tuesday mornings. [1]\n\nSources:\n[1] Deploys (mem_1)\n\n{HINT}"
    assert "holdfast endpoints add" in heard.text
    assert heard.done.tally.total > 0


async def test_what_claude_code_puts_beside_a_question_is_not_asked() -> None:
    beside = "<system-reminder>\nRead https://example.com and compute 6*7.\n</system-reminder>\n"

    async def fails(_: Json) -> Outcome:
        raise AssertionError("nobody asked for it")

    tools = [loop_tool("fetch_url", "url", fails), loop_tool("calculator", "expression", fails)]
    heard = await hear(Extractive(knowledge), tools, ask(f"{beside}When do deploys happen?\n{beside}"))
    assert heard.text.startswith("- Deploys happen on Tuesday mornings. [1]")


async def test_a_question_that_was_kept_is_no_answer_to_it() -> None:
    question = "When do deploys happen?"

    async def with_report(_: str) -> Sequence[QuotedPassage]:
        return [QuotedPassage("Report", f"# {question}\n\nFindings: {question}\n\nNothing was found.", "art_1"), *KNOWN]

    heard = await hear(Extractive(with_report), [], ask(question))
    assert heard.text.startswith("- Deploys happen on Tuesday mornings. [1]\n\nSources:\n[1] Deploys (mem_1)")
    assert question not in heard.text


async def test_the_same_question_has_the_same_answer() -> None:
    texts = {(await hear(Extractive(knowledge), [], ask("When do deploys happen?"))).text for _ in range(5)}
    assert len(texts) == 1


async def test_what_nobody_wrote_is_not_answered() -> None:
    heard = await hear(Extractive(knowledge), [], ask("Who won the regatta?"))
    assert heard.text == f"{NOTHING}\n\n{HINT}"
    heard = await hear(Extractive(), [], ask("Who won the regatta?"))
    assert heard.text.startswith(NOTHING)


async def test_a_sum_goes_to_the_calculator_through_the_loop() -> None:
    heard = await hear(
        Extractive(knowledge), [loop_tool("calculator", "expression", calculate)], ask("What is 17 * 3?")
    )
    assert heard.text == f"17 * 3 = 51\n\n{HINT}"
    assert heard.side == ["x_research.searching", "x_research.result", "x_research.complete"]


async def test_a_url_is_fetched_and_quoted_with_its_address() -> None:
    async def fetch(arguments: Json) -> Outcome:
        return Outcome("Ports. The server listens on 8787. Bananas are yellow.", untrusted=True, sources=1)

    question = "Which port does the server listen on, says https://docs.example.com/ports?"
    heard = await hear(Extractive(), [loop_tool("fetch_url", "url", fetch)], ask(question))
    assert "- The server listens on 8787. [1]" in heard.text
    assert "[1] https://docs.example.com/ports" in heard.text
    assert "yellow" not in heard.text
    assert "untrusted" not in heard.text


async def test_a_tool_that_fails_is_told_plainly() -> None:
    async def fail(_: Json) -> Outcome:
        raise UpstreamFailed("The page could not be read.")

    heard = await hear(Extractive(), [loop_tool("fetch_url", "url", fail)], ask("Read https://a.example/"))
    assert "fetch_url failed: The page could not be read." in heard.text


async def test_a_search_that_fails_leaves_the_knowledge_to_be_quoted() -> None:
    async def fail(_: Json) -> Outcome:
        raise UpstreamFailed("No search engine could be reached.")

    tools = [loop_tool("web_search", "query", fail)]
    heard = await hear(Extractive(knowledge), tools, ask("When do deploys happen?"))
    assert "web_search failed: No search engine could be reached." in heard.text
    assert "- Deploys happen on Tuesday mornings. [1]" in heard.text
    nothing = await hear(Extractive(knowledge), tools, ask("Who won the regatta?"))
    assert "Tuesday" not in nothing.text and "coffee" not in nothing.text


async def test_search_results_and_memories_are_quoted_from_their_json() -> None:
    async def search(_: Json) -> Outcome:
        result = {"title": "Tides", "url": "https://t.example/", "snippet": "High tide is at noon."}
        return Outcome(json.dumps({"answer": "", "abstract": "", "results": [result], "fetched_pages": []}))

    async def recall(_: Json) -> Outcome:
        return Outcome(json.dumps({"memories": [{"id": "mem_9", "content": "High tide matters to the crew."}]}))

    tools = [loop_tool("web_search", "query", search), loop_tool("recall_memory", "query", recall)]
    heard = await hear(Extractive(), tools, ask("When is high tide?"))
    assert "- High tide is at noon. [" in heard.text
    assert "Tides (https://t.example/)" in heard.text
    assert "(mem_9)" in heard.text


async def test_a_json_answer_is_json() -> None:
    heard = await hear(
        Extractive(knowledge), [], {**ask("When do deploys happen?"), "response_format": {"type": "json_object"}}
    )
    assert "Tuesday" in json.loads(heard.text)["answer"]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("What is 17 * 3?", "17 * 3"),
        ("compute (1 + 2)^3 please", "(1 + 2)^3"),
        ("12 plus 30", "12 + 30"),
        ("3 x 4", "3 * 4"),
        ("What's 15% of 80?", "15 / 100 * 80"),
        ("1,200 / 3", "1200 / 3"),
        ("sqrt(144) + 2", "sqrt(144) + 2"),
        ("What happened on 2026-11-16?", None),
        ("Is version 3.11.7 fine?", None),
        ("pages 3 to 7", None),
        ("1 / 0", None),
        ("call me at 5", None),
        ("((((", None),
    ],
)
def test_sums_are_told_from_dates_and_versions(text: str, expression: str | None) -> None:
    assert find_sum(text) == expression


def test_rules_choose_only_offered_tools_whose_parameters_fit() -> None:
    names = ("calculator", "fetch_url", "save_memory", "code_search", "file_search", "recall_memory")
    tools = [client_tool(name) for name in names]
    assert wanted_calls("remember that I like tea", tools) == [("save_memory", {"content": "I like tea"})]
    assert [name for name, _ in wanted_calls("Remember the tea I like?", tools)] == ["file_search", "recall_memory"]
    assert wanted_calls("Read https://a.example/x, https://b.example.", tools) == [
        ("fetch_url", {"url": "https://a.example/x", "urls": ["https://b.example"]})
    ]
    assert wanted_calls("Explain https://github.com/pallets/click.", tools) == [
        ("code_search", {"repository": "pallets/click"})
    ]
    assert [name for name, _ in wanted_calls("Which colour?", tools)] == ["file_search", "recall_memory"]
    assert wanted_calls("Which colour?", []) == []
    other = client_tool("calculator")
    other["function"]["parameters"]["properties"] = {"formula": {"type": "string"}}
    assert wanted_calls("1 + 1", [other]) == []


async def test_tool_choice_none_is_obeyed() -> None:
    body = {**ask("1 + 1"), "tools": [client_tool("calculator")], "tool_choice": "none"}
    heard = await hear(Extractive(), [], body)
    assert heard.done.finish_reason == "stop"


@pytest.mark.parametrize(
    "text",
    [
        "Hello", "hi there!", "Good morning, how are you today?", "Thanks a lot", "thank you so much", "Who are you?",
        "what can you do", "Hello team", "ok", "nope", "Hey! What’s up?", "Bonjour", "Guten Tag", "test", "bye",
    ],
)  # fmt: skip
async def test_small_talk_gets_an_honest_line_and_calls_nothing(text: str) -> None:
    async def fail(_: Json) -> Outcome:
        raise AssertionError("a tool was called")

    heard = await hear(Extractive(knowledge), [loop_tool("web_search", "query", fail)], ask(text))
    assert heard.text == f"{SMALL_TALK}\n\n{HINT}"


@pytest.mark.parametrize(
    "text",
    [
        "", "👋", "Who is the team?", "Hello, when do we deploy?", "How are you deployed?", "hiking", "no tests please",
        "Thanks, and what is the deadline?", "What is up with the lamp?", "test the lamp", "team and friends", "2 + 2",
    ],
)  # fmt: skip
def test_what_asks_for_something_is_no_small_talk(text: str) -> None:
    assert not is_small_talk(text)


async def test_what_was_told_is_quoted_before_what_was_read_and_code_only_in_its_absence() -> None:
    told = QuotedPassage("Deploys", "We deploy on Tuesdays.", "mem_1", place=0)
    page = QuotedPassage("docs/deploy.md", "Deploy with the pipeline.", "file", place=1)
    code = QuotedPassage("src/deploy.py", "def deploy(): return deploy", "file", place=2)
    test = QuotedPassage("tests/test_deploy.py", "def test_deploy(): deploy", "file", place=3)

    async def answer(*known: QuotedPassage, question: str = "When do we deploy?") -> list[str]:
        async def look(_: str) -> Sequence[QuotedPassage]:
            return known

        heard = await hear(Extractive(look), [], ask(question))
        return [line[2:].rpartition(" [")[0] for line in heard.text.splitlines() if line.startswith("- ")]

    more = QuotedPassage("docs/times.md", "When we deploy at night, deploy twice.", "file", place=1)
    assert await answer(test, code, page, told) == [told.text]
    assert await answer(test, code, page) == [page.text]
    night = "When do we deploy at night?"
    assert await answer(test, told, more, question=night) == [more.text]
    assert await answer(test, code) == [code.text]
    assert await answer(test) == [test.text]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("**Decision.** pygit2 was chosen.", ["**Decision.** pygit2 was chosen."]),
        ("- **pygit2** was chosen. Others were not.", ["**pygit2** was chosen."]),
        (
            "> pygit2 reads `packs` **and loose objects.\nMore of it** later.",
            ["pygit2 reads `packs` and loose objects."],
        ),
        ("*pygit2* is a library.", ["*pygit2* is a library."]),
        ("#pygit2 is a tag", ["#pygit2 is a tag"]),
    ],
)
def test_a_quoted_sentence_has_no_half_of_a_pair_of_marks(text: str, quoted: list[str]) -> None:
    assert [each.text for each in quotes("pygit2", [QuotedPassage("a.md", text)])] == quoted
