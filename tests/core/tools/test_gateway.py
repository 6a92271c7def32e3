"""How a tool is run for whoever asks: who sees it, how wrong input is told, what becomes of large results."""

import asyncio
from dataclasses import replace
from typing import Any, get_args

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.access import Access, NeededTier
from holdfast.core.errors import ApprovalRequired, Forbidden, HoldfastError, Invalid
from holdfast.core.principal import Principal, Tier
from holdfast.core.text.schema import input_schema, output_schema
from holdfast.core.tools.alias import under_its_name
from holdfast.core.tools.deadline import TookTooLong
from holdfast.core.tools.gateway import Catalog, Gateway, Intent, ToolRefused, ToolUnknown
from holdfast.core.tools.outcome import Outcome, Spilled
from holdfast.core.tools.shortening import shortened
from holdfast.core.tools.tool import Annotations, AnyTool, Consumer, Tool, ToolCall


class Inner(BaseModel):
    """Words for people who read code."""

    word: str = Field(max_length=9)
    more: "list[Inner] | None" = None


class Given(BaseModel):
    model_config = ConfigDict(extra="forbid")

    count: int = Field(ge=1, description="How many")
    inner: Inner | None = None
    kind: str | None = Field(default=None, description="Which")


class Answer(BaseModel):
    items: list[str]
    note: str | None = None
    inner: Inner | None = None


async def _count(call: ToolCall, given: Given) -> Answer:
    return Answer(items=["x" * 100] * given.count)


async def _refuse(call: ToolCall, given: Given) -> Answer:
    raise Forbidden("Not you.")


async def _wrong(call: ToolCall, given: Given) -> Any:
    return {"items": []}


def _tool(name: str, handler: Any = _count, tier: NeededTier = "core") -> AnyTool:
    access = Access("workspace", "inference", tier=tier)
    return Tool(name, name, name, Given, Answer, handler, Annotations(read_only=True), access)


def _gateway(tools: list[AnyTool], **hooks: Any) -> Gateway:
    return Gateway(lambda: Catalog(tools), **hooks)


def _principal(tier: Tier = "all") -> Principal:
    return Principal("org_1", "key_1", "key", False, frozenset({"inference"}), tier=tier)


def _call(tier: Tier = "all", workspace_id: str | None = "ws_1") -> ToolCall:
    return ToolCall(_principal(tier), workspace_id, "mcp")


async def test_a_call_gives_text_and_the_same_as_data() -> None:
    outcome = await _gateway([_tool("a")]).call(_call(), "a", {"count": 1})
    assert outcome.data == {"items": ["x" * 100], "note": None, "inner": None}
    assert "xxx" in outcome.text


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "count"),
        ({"count": 0}, "count"),
        ({"count": 1, "more": 2}, "more"),
        ({"count": 1, "inner": {}}, "inner.word"),
    ],
)
async def test_wrong_arguments_are_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        await _gateway([_tool("a")]).call(_call(), "a", given)
    assert [wrong.field for wrong in caught.value.fields] == [field]


async def test_tools_above_the_tier_are_neither_seen_nor_run_and_the_denial_is_told() -> None:
    told: list[tuple[str, str]] = []

    async def denied(call: ToolCall, name: str, error: HoldfastError) -> None:
        told.append((name, error.code))

    gateway = _gateway([_tool("a"), _tool("b", tier="intel"), _tool("c", _refuse)], denied=denied)
    assert [tool.name for tool in gateway.visible(_principal("core"), "mcp")] == ["a", "c"]
    with pytest.raises(ToolRefused):
        await gateway.call(_call("core"), "b", {"count": 1})
    with pytest.raises(Forbidden):
        await gateway.call(_call("core"), "c", {"count": 1})
    with pytest.raises(ToolUnknown):
        await gateway.call(_call(), "nothing", {})
    assert told == [("b", "tool_refused"), ("c", "forbidden")]


async def test_a_tool_that_answers_another_model_is_our_mistake() -> None:
    with pytest.raises(TypeError):
        await _gateway([_tool("a", _wrong)]).call(_call(), "a", {"count": 1})


async def test_every_ending_is_observed() -> None:
    seen: list[tuple[str, str]] = []
    gateway = _gateway(
        [_tool("a"), _tool("c", _refuse)], observe=lambda call, name, ending, seconds: seen.append((name, ending))
    )
    await gateway.call(_call(), "a", {"count": 1})
    for name, given in (("a", {}), ("c", {"count": 1}), ("zzz", {})):
        with pytest.raises(HoldfastError):
            await gateway.call(_call(), name, given)
    assert seen == [("a", "ok"), ("a", "invalid"), ("c", "refused"), ("unknown", "refused")]


async def test_a_large_result_is_set_aside_and_what_stays_follows_the_schema() -> None:
    kept: list[str] = []

    async def spill(call: ToolCall, name: str, text: str) -> Spilled:
        kept.append(text)
        return Spilled("art_1", "xerotier://artifact/art_1", len(text))

    gateway = _gateway([_tool("a")], spill=spill, max_result_bytes=10_000)
    small = await gateway.call(_call(), "a", {"count": 5})
    assert small.spilled is None
    large = await gateway.call(_call(), "a", {"count": 500})
    assert large.spilled is not None and len(kept) == 1
    jsonschema.validate(large.data, _tool("a").output_schema())
    unbound = await gateway.call(_call(workspace_id=None), "a", {"count": 500})
    assert unbound.spilled is None and len(unbound.data["items"]) == 500


def test_shortening_ends_below_the_cap_whatever_the_shape() -> None:
    deep: dict[str, Any] = {"a": [{"b": ["y" * 5_000] * 100}] * 100}
    cut = shortened(deep, 5_000)
    assert len(str(cut)) < 6_000


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools"):
        _gateway([_tool("a"), _tool("a")]).listed("mcp")


def test_the_schema_of_arguments_has_no_references_nulls_or_titles() -> None:
    schema = input_schema(Given)
    assert schema == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "description": "How many"},
            "inner": {
                "type": "object",
                "properties": {
                    "word": {"type": "string"},
                    "more": {"type": "array", "items": {"type": "object"}},
                },
                "required": ["word"],
            },
            "kind": {"type": "string", "description": "Which"},
        },
        "required": ["count"],
    }


def test_the_schema_of_results_accepts_every_result() -> None:
    schema = output_schema(Answer)
    jsonschema.Draft202012Validator.check_schema(schema)
    inner = Inner(word="a", more=[Inner(word="b")])
    for answer in (Answer(items=[]), Answer(items=["a"], note="n", inner=inner)):
        jsonschema.validate(answer.model_dump(mode="json"), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"note": 1}, schema)


@pytest.mark.contract("XS-4")
async def test_a_tool_that_takes_too_long_is_cancelled_and_told() -> None:
    cancelled = asyncio.Event()

    async def hang(call: ToolCall, given: Given) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    with pytest.raises(TookTooLong) as caught:
        await _gateway([_tool("a", hang)]).call(replace(_call(), seconds=0.05), "a", {"count": 1})
    await asyncio.wait_for(cancelled.wait(), 30)
    assert caught.value.message == "a did not finish within 0.05 seconds."


async def test_a_tool_that_ignores_its_cancellation_does_not_hold_the_answer() -> None:
    release = asyncio.Event()

    async def stubborn(call: ToolCall, given: Given) -> Answer:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return Answer(items=[])

    with pytest.raises(TookTooLong):
        await _gateway([_tool("a", stubborn)]).call(replace(_call(), seconds=0.05), "a", {"count": 1})
    release.set()


async def test_whoever_is_cancelled_cancels_the_tool() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(call: ToolCall, given: Given) -> Answer:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    for seconds in (None, 60.0):
        started.clear()
        cancelled.clear()
        running = asyncio.create_task(
            _gateway([_tool("a", hang)]).call(replace(_call(), seconds=seconds), "a", {"count": 1})
        )
        await asyncio.wait_for(started.wait(), 30)
        running.cancel()
        await asyncio.wait_for(cancelled.wait(), 30)
        with pytest.raises(asyncio.CancelledError):
            await running


def _listed(consumer: Consumer, handler: Any = _count) -> Gateway:
    """One tool as a consumer has it: under its own name, or by an alias."""
    by_alias = consumer in ("chat", "ask")
    tool = replace(_tool("a", handler), consumer=None if by_alias else consumer)
    aliases = [under_its_name("a", consumer, "A", Given, lambda output: Outcome(output.model_dump_json()))]

    async def spill(call: ToolCall, name: str, text: str) -> Spilled:
        return Spilled("art_1", "xerotier://artifact/art_1", len(text))

    return Gateway(lambda: Catalog([tool], aliases if by_alias else ()), spill=spill, max_result_bytes=10_000)


@pytest.mark.parametrize("consumer", get_args(Consumer))
async def test_time_and_size_are_limited_alike_for_each_consumer(consumer: Consumer) -> None:
    call = replace(_call(), consumer=consumer)
    large = await _listed(consumer).call(call, "a", {"count": 500})
    assert large.spilled is not None and large.spilled.uri == "xerotier://artifact/art_1"
    assert len(large.text) < 5_000

    async def hang(call: ToolCall, given: Given) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(TookTooLong) as caught:
        await _listed(consumer, hang).call(replace(call, seconds=0.05), "a", {"count": 1})
    assert (caught.value.code, caught.value.message) == ("timeout", "a did not finish within 0.05 seconds.")


async def test_a_consumer_calls_what_it_lists_and_nothing_else() -> None:
    for consumer in get_args(Consumer):
        for other in get_args(Consumer):
            call = replace(_call(), consumer=other)
            if other == consumer:
                await _listed(consumer).call(call, "a", {"count": 1})
            else:
                with pytest.raises(ToolUnknown):
                    await _listed(consumer).call(call, "a", {"count": 1})


async def test_a_refusal_by_policy_is_told_and_nothing_runs() -> None:
    told: list[str] = []
    ran: list[int] = []

    async def denied(call: ToolCall, name: str, error: HoldfastError) -> None:
        told.append(f"{call.consumer} {name} {error.code}")

    async def run(call: ToolCall, given: Given) -> Answer:
        ran.append(given.count)
        return Answer(items=[])

    async def decide(intent: Intent) -> None:
        if intent.arguments["count"] > 1:
            raise ApprovalRequired("Ask first.")

    gateway = _gateway([_tool("a", run)], denied=denied)
    gateway.decide = decide
    await gateway.call(_call(), "a", {"count": 1})
    with pytest.raises(ApprovalRequired):
        await gateway.call(_call(), "a", {"count": 2})
    assert (told, ran) == (["mcp a approval_required"], [1])
