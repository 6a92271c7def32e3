"""Deep Think over a scripted upstream: phases and their events, budgets, resuming, cancelling, and without a model."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.core.text.jsontext import dumps
from holdfast.core.tools.outcome import Outcome
from holdfast.engines.llm.budget import Budgeted
from holdfast.engines.llm.extractive.embedded import HINT, Extractive
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.model import Done, LanguageModel, LoopRequest, LoopTool
from holdfast.engines.llm.research.deep_think import SUBTASK_TOKENS, DeepThink, WrittenArtifact
from holdfast.engines.llm.research.planning import plain_plan, read_plan, targets
from tests.engines.llm.turns import Heard, tool, upstream
from tests.fakes.llm.model import Turn, calls, says
from tests.support.event_grammar import check

Json = dict[str, Any]
QUESTION = "How do herons and tides fit together?"
PLAN = json.dumps({"title": "Herons and tides", "subtasks": [{"query": f"part {number}"} for number in (1, 2, 3)]})
PAGES = {
    "results": [{"title": "Herons", "url": "https://birds.test/", "snippet": "Herons nest."}],
    "fetched_pages": [{"url": "https://birds.test/", "content": "Grey herons nest in April near the tide."}],
}
REPORT = (
    '# Herons\n\nGrey herons nest in April [1 "nest in April"]. They nest on the moon [1 "nest on the moon"]. '
    "Grey herons nest in May [1]. They also dance."
)
FOUND = "Grey herons nest in April (https://birds.test/). They live for 400 years."


class Memo:
    """A notebook in memory, which can be told to fail."""

    def __init__(self) -> None:
        self.state: Json | None = None
        self.kept: dict[str, str] = {}

    async def resume(self) -> Json | None:
        return self.state

    async def save(self, state: Json) -> None:
        self.state = json.loads(json.dumps(state))

    async def keep(self, part: str, title: str, content: str) -> WrittenArtifact:
        name = f"deep-think-{part or 'report'}.md"
        self.kept[name] = content
        return WrittenArtifact(name, title, 1)

    async def finish(self) -> None:
        self.state = None


def search(found: Any = PAGES) -> LoopTool:
    async def run(arguments: Json) -> Outcome:
        return Outcome(json.dumps(found), sources=1, untrusted=True)

    return tool("web_search", run)


def asking(question: str = QUESTION, **more: Any) -> Json:
    return {"model": "any", "stream": True, "messages": [{"role": "user", "content": question}], **more}


async def think(
    model: LanguageModel,
    tools: Sequence[LoopTool] = (),
    memo: Memo | None = None,
    body: Json | None = None,
    **more: Any,
) -> Heard:
    """A research to its end; the whole stream has to be grammatical."""
    heard = Heard()
    async for event in DeepThink(Loop()).run(model, LoopRequest(body or asking(), tools, **more), memo or Memo()):
        heard.events.append(event)
    check(heard.wire)
    return heard


async def failing(model: LanguageModel, tools: Sequence[LoopTool], memo: Memo) -> tuple[Heard, HoldfastError]:
    heard = Heard()
    with pytest.raises(HoldfastError) as caught:
        async for event in DeepThink(Loop()).run(model, LoopRequest(asking(), tools), memo):
            heard.events.append(event)
    check(heard.wire)
    return heard, caught.value


def whole() -> list[Turn]:
    return [says(PLAN), calls(("web_search", {"query": "herons"})), says(FOUND), says("Two."), says("Three.")]


@pytest.mark.contract("XS-6")
async def test_a_research_plans_looks_into_each_part_and_reports_with_checked_citations() -> None:
    memo = Memo()
    async with upstream(*whole(), says(REPORT, pieces=40)) as (fake, model):
        heard = await think(model, [search()], memo, asking(stream_options={"include_usage": True}, max_tokens=900))

    assert heard.side == [
        "x_deep_think.plan_created",
        "x_deep_think.subtask_started",
        "x_research.searching",
        "x_research.result",
        "x_deep_think.subtask_completed",
        "x_deep_think.subtask_started",
        "x_deep_think.subtask_completed",
        "x_deep_think.subtask_started",
        "x_research.complete",
        "x_deep_think.subtask_completed",
        "x_deep_think.artifact_created",
        "x_deep_think.synthesizing",
        "x_artifact.created",
        "x_deep_think.completed",
    ]
    plan, started = heard.wire[0], heard.wire[1]
    assert plan == {"type": "x_deep_think.plan_created", "title": "Herons and tides", "total_subtasks": 3}
    assert started == {
        "type": "x_deep_think.subtask_started",
        "subtask_id": "1",
        "subtask_query": "part 1",
        "subtask_index": 0,
        "total_subtasks": 3,
    }
    assert heard.wire[-1] == {
        "type": "x_deep_think.completed",
        "title": "Herons and tides",
        "artifact_name": "deep-think-report.md",
    }
    assert heard.text == (
        "# Herons\n\nGrey herons nest in April [1].\n\n## Sources\n\n- [1] Herons – https://birds.test/\n"
        "  > nest in April\n\n*Left out, because nothing that was read bears it out: 3 statements, 2 citations.*"
    )
    assert memo.kept["deep-think-findings.md"] == (
        "# Findings: Herons and tides\n\n## part 1\n\n- Grey herons nest in April [1].\n\n"
        "## Sources\n\n- [1] Herons – https://birds.test/\n"
    )
    assert memo.kept["deep-think-report.md"] == heard.text == heard.done.message["content"]
    assert memo.state is None
    assert heard.done.tally.total == 6 * 15
    assert heard.done.sources == 1
    assert "max_tokens" not in fake.requests[1] and fake.requests[-1]["max_tokens"] == 900
    assert "Grey herons nest in April" in fake.requests[-1]["messages"][-1]["content"]
    assert "untrusted" in fake.requests[-1]["messages"][-1]["content"]


@pytest.mark.contract("XS-6")
async def test_a_site_in_the_question_is_looked_at_first() -> None:
    asked: list[Json] = []

    async def read(arguments: Json) -> Outcome:
        asked.append(arguments)
        links = [{"url": "https://birds.test/nests", "text": "Nests"}]
        page = {"url": "https://birds.test/", "content": "Herons nest.", "error": False, "discovered_links": links}
        return Outcome(json.dumps({"pages": [page]}), sources=1, untrusted=True)

    fetch = tool("fetch_url", read, event="x_research.reading")
    body = asking("What does birds.test say?".replace("birds.test", "https://birds.test/"))
    async with upstream(says(PLAN), says("One."), says("Two."), says("Three."), says("Report.")) as (fake, model):
        heard = await think(model, [fetch], body=body)
    assert asked == [{"urls": ["https://birds.test/"], "discover_links": True, "max_follow": 3}]
    assert heard.side[:5] == [
        "x_deep_think.discovery_started",
        "x_research.reading",
        "x_research.result",
        "x_deep_think.discovery_completed",
        "x_deep_think.plan_created",
    ]
    assert heard.wire[0]["mode"] == "target"
    assert heard.wire[3]["pages_fetched"] == 1
    assert heard.wire[3]["site_map"] == "- https://birds.test/\n- https://birds.test/nests (Nests)"
    assert "https://birds.test/nests" in fake.requests[0]["messages"][0]["content"]


async def test_a_site_that_cannot_be_read_does_not_end_the_research() -> None:
    async def read(arguments: Json) -> Outcome:
        raise Invalid("No such host.")

    fetch = tool("fetch_url", read, event="x_research.reading")
    body = asking("Compare https://gone.test and others")
    async with upstream(says(PLAN), says("One."), says("Two."), says("Three."), says("Report.")) as (_, model):
        heard = await think(model, [fetch], body=body)
    assert heard.wire[3]["pages_fetched"] == 0
    assert heard.side[-1] == "x_deep_think.completed"


async def test_tables_of_sub_tasks_become_artifacts_of_their_own_as_far_as_they_hold() -> None:
    memo = Memo()
    page = {"url": "https://birds.test/", "title": "Birds", "content": "A heron measures 95 cm. | kite | yes | no |"}
    at = "https://birds.test/"
    table = f"### Birds\n\n| bird | cm | where |\n|---|---|---|\n| heron | 95 | {at} |\n| heron | 99 | {at} |"
    matrix = f"| bird | yes | no |\n|---|---|---|\n| kite | yes | no | ({at}) |\n| heron | no | yes | ({at}) |"
    script = [says(PLAN), calls(("web_search", {"query": "q"})), says(table), says(matrix), says("Three."), says("R.")]
    async with upstream(*script) as (_, model):
        heard = await think(model, [search({"results": [page]})], memo=memo)
    made = [event for event in heard.wire if event.get("type") == "x_deep_think.artifact_created"]
    assert [(each["artifact_type"], each["artifact_title"]) for each in made] == [
        ("table", "Birds"),
        ("matrix", "part 2"),
    ]
    assert made[0]["message"] == "Saved 1 row as deep-think-table-1.md"
    assert "| heron | 95 | [1] |\n\n## Sources\n\n- [1] Birds" in memo.kept["deep-think-table-1.md"]
    assert "99" not in memo.kept["deep-think-table-1.md"]
    assert "| kite | yes | no | [1] |" in memo.kept["deep-think-matrix-2.md"]
    assert "heron" not in memo.kept["deep-think-matrix-2.md"]


@pytest.mark.contract("XS-6")
async def test_after_a_refusal_the_same_question_goes_on_where_it_was() -> None:
    memo = Memo()
    limited = Turn(status=429, headers={"retry-after": "7"}, body={"error": {"message": "slow down", "type": "x"}})
    async with upstream(*whole()[:4], limited) as (_, model):
        heard, problem = await failing(model, [search()], memo)
    assert problem.status == 429
    assert heard.wire[-1]["type"] == "x_deep_think.error"
    assert "slow down" in heard.wire[-1]["message"]
    assert memo.state is not None and len(memo.state["results"]) == 2

    async with upstream(says("Three."), says(REPORT)) as (fake, model):
        again = await think(model, [search()], memo)
    assert len(fake.requests) == 2
    assert again.side.count("x_deep_think.subtask_completed") == 3
    assert "[1] Herons" in again.text
    assert again.done.tally.total == 6 * 15
    assert memo.state is None


async def test_a_report_that_breaks_off_is_written_anew_without_research() -> None:
    memo = Memo()
    async with upstream(*whole(), says("Half a", pieces=6, cut_after=3)) as (_, model):
        heard, _ = await failing(model, [search()], memo)
    assert heard.wire[-1]["type"] == "x_deep_think.error"
    async with upstream(says(REPORT)) as (fake, model):
        again = await think(model, [search()], memo)
    assert len(fake.requests) == 1
    assert again.side.count("x_deep_think.artifact_created") == 0
    assert "[1] Herons" in again.text
    first, second = (
        next(event for event in each.wire if event.get("type") == "x_research.complete") for each in (heard, again)
    )
    assert {**first, "elapsed_ms": 0} == {**second, "elapsed_ms": 0}
    assert (second["iterations"], again.done.rounds) == (1, 1)


@pytest.mark.contract("XS-6")
async def test_closing_the_iterator_hangs_up_and_keeps_what_was_found() -> None:
    memo = Memo()
    async with upstream(*whole()[:3], says("Two and more", pieces=9, stall_after=3)) as (fake, model):
        events = DeepThink(Loop()).run(model, LoopRequest(asking(), [search()]), memo)
        seen = 0
        async for event in events:
            seen += getattr(event, "data", {}).get("type") == "x_deep_think.subtask_started"
            if seen == 2:
                break
        pending = asyncio.ensure_future(anext(events))
        async with asyncio.timeout(10):
            while len(fake.requests) < 4:
                await asyncio.sleep(0.01)
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)
        await events.aclose()
        async with asyncio.timeout(10):
            await fake.hung_up.wait()
    assert memo.state is not None and len(memo.state["results"]) == 1


async def test_what_a_research_cannot_do_is_refused_before_it_begins() -> None:
    wrong = [asking(n=2), asking(response_format={"type": "json_object"}), {"messages": []}, asking(" ")]
    async with upstream() as (fake, model):
        for body in wrong:
            with pytest.raises(Invalid):
                await think(model, body=body)
    assert fake.requests == []


async def test_only_research_is_offered_to_sub_tasks() -> None:
    tools = [search(), tool("ask_user", research=False), tool("recall_memory", research=False)]
    mine = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object"}}}
    body = asking(tools=[mine], tool_choice="required", parallel_tool_calls=False)
    async with upstream(*whole(), says("Report.")) as (fake, model):
        await think(model, tools, body=body)
    assert [each["function"]["name"] for each in fake.requests[1]["tools"]] == ["web_search", "recall_memory"]
    assert "tools" not in fake.requests[0] and "tools" not in fake.requests[-1]


@pytest.mark.contract("XS-6")
async def test_a_sub_task_that_spends_its_budget_has_to_answer() -> None:
    huge = {"fetched_pages": [{"url": "https://birds.test/", "content": "Herons nest. " * 8_000}]}
    rounds = [
        calls(("web_search", {"query": str(number)}), usage={"prompt_tokens": tokens, "completion_tokens": 50})
        for number, tokens in ((1, 400), (2, 5_000))
    ]
    script = [says(PLAN), *rounds, says("Enough."), says("Two."), says("Three."), says("Report.")]
    async with upstream(*script) as (fake, model):
        await think(model, [search(huge)])
    sizes = [len(json.dumps(each["messages"])) / 4 for each in fake.requests]
    assert sizes[2] < SUBTASK_TOKENS / 2
    assert fake.requests[2].get("tool_choice") is None
    assert fake.requests[3]["tool_choice"] == "none"
    assert "budget of this task is used up" in fake.requests[3]["messages"][-1]["content"]
    assert sizes[3] < SUBTASK_TOKENS - 10_000


class Counting:
    """An upstream that counts what it reads and writes, a token for so many bytes, and never stops calling tools."""

    name = "counting"

    def __init__(self, bytes_per_token: float, *, tells_usage: bool, words: int) -> None:
        self._bytes_per_token, self._tells_usage, self._words = bytes_per_token, tells_usage, words
        self.spent = 0
        self.asked = 0

    async def stream(self, body: Json) -> AsyncIterator[Json]:
        self.asked += 1
        read = round(len(dumps([body["messages"], body.get("tools")])) / self._bytes_per_token)
        self.spent += read
        wrote = 0
        for _ in range(self._words):
            wrote += 10
            self.spent += 10
            text = "x" * round(10 * self._bytes_per_token)
            yield {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        call = {"index": 0, "id": f"c{self.asked}", "function": {"name": "web_search", "arguments": "{}"}}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
        if self._tells_usage:
            yield {"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": wrote}}


@pytest.mark.contract("XS-6")
@pytest.mark.parametrize("words", [1, 60, 5_000])
@pytest.mark.parametrize("question", ["When do herons nest?", "Herons nest. " * 20_000], ids=["short", "endless"])
@pytest.mark.parametrize(("bytes_per_token", "tells_usage"), [(4, True), (4, False), (2.5, True)])
async def test_no_model_spends_more_than_its_budget(
    bytes_per_token: float, tells_usage: bool, question: str, words: int
) -> None:
    async def endless(_: Json) -> Outcome:
        return Outcome("Herons nest in April. " * 4_000)

    model = Counting(bytes_per_token, tells_usage=tells_usage, words=words)
    limited = Budgeted(model, SUBTASK_TOKENS)
    request = LoopRequest(asking(question), [tool("web_search", endless)], 50)
    done = [event async for event in Loop().run(limited, request)][-1]
    assert isinstance(done, Done)
    assert model.asked >= 1
    # An answer that we cut off is never counted for us: it holds as many tokens as we guess, whatever the tokeniser.
    guessed = 4 / bytes_per_token if words == 5_000 else 1
    assert model.spent <= SUBTASK_TOKENS * guessed


async def test_an_answer_without_end_is_cut_at_the_budget() -> None:
    class Endless:
        name = "endless"
        closed = False

        async def stream(self, body: Json) -> AsyncIterator[Json]:
            try:
                while True:
                    yield {"choices": [{"index": 0, "delta": {"content": "word " * 100}, "finish_reason": None}]}
            finally:
                self.closed = True

    endless = Endless()
    limited = Budgeted(endless, 2_000)
    chunks = [chunk async for chunk in limited.stream(asking())]
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["usage"]["completion_tokens"] < 2_500
    assert endless.closed


@pytest.mark.contract("XS-6")
async def test_without_a_model_the_plan_is_plain_and_the_report_is_quoted() -> None:
    memo = Memo()
    first = await think(Extractive(), [search()], memo, asking("When do grey herons nest?"))
    again = await think(Extractive(), [search()], Memo(), asking("When do grey herons nest?"))
    assert first.text == again.text == memo.kept["deep-think-report.md"]
    assert "- Grey herons nest in April near the tide. [1]" in first.text
    assert "left out" not in first.text
    assert first.text.endswith(HINT)
    assert first.wire[0]["total_subtasks"] == 3


async def test_a_model_without_words_still_gives_a_quoted_report() -> None:
    async with upstream(*whole(), says("")) as (_, model):
        heard = await think(model, [search()])
    assert "Grey herons nest in April near the tide. [1]" in heard.text


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ('```json\n{"title": "T", "subtasks": ["a b", "c d", "e f"]}\n```', ["a b", "c d", "e f"]),
        (
            'Sure! {"plan": {"steps": [{"question": "a b"}, {"task": "c d"}, {"query": "e f"}]}} Done.',
            ["a b", "c d", "e f"],
        ),
        ("1. **a b**\n2) c d\n- e f", ["a b", "c d", "e f"]),
        (json.dumps([f"q {number}" for number in range(12)]), [f"q {number}" for number in range(7)]),
        ('{"subtasks": ["only one", "Only one"]}', None),
        ("{" * 30_000, None),
        ("I cannot plan.", None),
    ],
)
def test_plans_are_read_leniently_and_have_three_to_seven_parts(text: str, queries: list[str] | None) -> None:
    plan = read_plan(text, QUESTION, ["web_search"])
    assert 3 <= len(plan.subtasks) <= 7
    assert plan.title
    assert [task.id for task in plan.subtasks] == [str(number) for number in range(1, len(plan.subtasks) + 1)]
    if queries is not None:
        assert [task.query for task in plan.subtasks] == queries


def test_a_plain_plan_follows_the_parts_of_the_question() -> None:
    parts = ["What is a heron?", "Where does it nest?", "What does it eat?"]
    assert [task.query for task in plain_plan(" ".join(parts)).subtasks] == parts
    assert len(plain_plan("herons").subtasks) == 3
    assert len(plain_plan("a b? " * 40 + " ".join(f"q {number}?" for number in range(20))).subtasks) == 7


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What is on https://birds.test/nests?", ["https://birds.test/nests"]),
        ("Audit example.com and docs.example.org/a.", ["https://example.com", "https://docs.example.org/a"]),
        ("Is node.js better than main.py?", []),
        ("Write to me@example.com", []),
    ],
)
def test_sites_in_question_are_found(question: str, found: list[str]) -> None:
    assert targets(question) == found
