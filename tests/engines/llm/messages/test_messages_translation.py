"""Proves single rules of the translation between the wires that no random request would come upon."""

from typing import Any

import pytest

from holdfast.core.errors import Invalid, UpstreamFailed
from holdfast.engines.llm.assembly import tally_of
from holdfast.engines.llm.messages.chat_request import chat_body
from holdfast.engines.llm.messages.message_events import MessageEvents, whole_message
from holdfast.engines.llm.messages.messages_request import messages_body
from holdfast.engines.llm.messages.plain import plain_message
from holdfast.engines.llm.model import Tally
from tests.fakes.llm.messages import check as check_messages
from tests.fakes.llm.model import Turn, calls, says

Json = dict[str, Any]
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def answer_of(turn: Turn) -> Json:
    """What a turn of an OpenAI model becomes."""
    told = MessageEvents("m", 1, shows_thinking=True)
    events = list(told.begin())
    for chunk in turn.made():
        events += told.hear(chunk)
    return whole_message([*events, *told.finish()])


def asked(**more: Any) -> Json:
    """A chat request as an Anthropic model is asked."""
    return messages_body({"messages": [{"role": "user", "content": "Hi"}], **more})


def test_a_call_that_the_limit_cut_is_not_told_as_one_to_make() -> None:
    message = answer_of(calls(("look", '{"word": "ha'), content="Let me see.", finish_reason="length"))

    assert message["stop_reason"] == "max_tokens"
    assert [block["type"] for block in message["content"]] == ["text"]


def test_a_call_with_arguments_that_are_no_object_is_the_upstreams_failure() -> None:
    with pytest.raises(UpstreamFailed):
        answer_of(calls(("look", "[1]")))


def test_a_call_without_arguments_has_none() -> None:
    assert answer_of(calls(("look", "")))["content"][0]["input"] == {}


def test_a_text_of_blanks_alone_is_no_block() -> None:
    message = answer_of(calls(("look", {}), content="\n\n"))

    assert [block["type"] for block in message["content"]] == ["tool_use"]
    assert answer_of(says("\n\nHello.", pieces=4))["content"] == [{"type": "text", "text": "\n\nHello."}]


def test_an_upstreams_ids_are_written_as_anthropic_takes_them() -> None:
    told = calls(("look", {}))
    told.calls[0]["id"] = "functions.look:0"
    call = answer_of(told)["content"][0]
    history = asked(
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [dict(told.calls[0])]},
            {"role": "tool", "tool_call_id": "functions.look:0", "content": "a"},
        ]
    )

    assert call["id"] == "functions_look_0"
    assert (
        history["messages"][1]["content"][0]["id"] == history["messages"][2]["content"][0]["tool_use_id"] == call["id"]
    )
    assert check_messages({**history, "model": "m"}) == ""


def test_a_person_who_says_nothing_to_a_result_adds_no_block() -> None:
    history = asked(
        messages=[
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "a"},
            {"role": "user", "content": ""},
        ]
    )

    assert [block["type"] for block in history["messages"][2]["content"]] == ["tool_result"]


def test_effort_is_asked_for_without_what_thinking_forbids() -> None:
    free = asked(reasoning_effort="high", temperature=0.2, top_p=0.5)
    forced = asked(reasoning_effort="high", temperature=0.2, tools=[FUNCTION], tool_choice="required")

    assert free["thinking"] == {"type": "adaptive"} and not {"temperature", "top_p"} & set(free)
    # A call that is forced comes without thoughts, and keeps the temperature.
    assert "thinking" not in forced and forced["temperature"] == 0.2 and forced["output_config"] == {"effort": "high"}
    for body in (free, forced):
        assert check_messages({**body, "model": "m"}) == ""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"type": "text", "media_type": "text/plain", "data": "Tides."}, "Log\n\nOf 1912.\n\nTides."),
        ({"type": "content", "content": "Tides."}, "Log\n\nOf 1912.\n\nTides."),
        ({"type": "content", "content": [{"type": "text", "text": "Tides."}]}, "Log\n\nOf 1912.\n\nTides."),
    ],
)
def test_a_documents_title_and_context_stand_before_its_text(source: Json, says: str) -> None:
    document = {"type": "document", "title": "Log", "context": "Of 1912.", "source": source}
    made = chat_body({"messages": [{"role": "user", "content": [document]}]})["messages"]

    assert "\n\n".join(part["text"] for part in _parts(made[0]["content"])) == says


def _parts(content: Any) -> list[Json]:
    return [{"text": content}] if isinstance(content, str) else content


@pytest.mark.parametrize(
    ("body", "effort"),
    [
        ({"output_config": {"effort": "low"}}, "low"),
        ({"output_config": {"effort": "max"}}, "high"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1_024}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 10_000}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 32_000}}, "high"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1_024}, "output_config": {"effort": "high"}}, "high"),
        ({"thinking": {"type": "disabled", "budget_tokens": 1_024}}, None),
        ({"thinking": {"type": "adaptive"}}, None),
        ({}, None),
    ],
)
def test_thought_is_asked_for_by_its_word_or_by_its_budget(body: Json, effort: str | None) -> None:
    made = chat_body({"messages": [{"role": "user", "content": "Hi"}], **body})

    assert made.get("reasoning_effort") == effort
    assert not {"thinking", "output_config"} & set(made)


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("odd", "end_turn")],
)
def test_reasons_to_stop_have_their_counterparts(finish: str, reason: str) -> None:
    assert answer_of(says("Hi.", finish_reason=finish))["stop_reason"] == reason


def test_usage_is_never_zero_and_tells_what_was_cached() -> None:
    told = {"prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 20}}
    full = answer_of(says("Hi.", usage=told))["usage"]
    none = answer_of(says("Hello there.", usage=None))["usage"]

    assert (full["input_tokens"], full["cache_read_input_tokens"], full["output_tokens"]) == (10, 20, 4)
    assert none["input_tokens"] == 1 and none["output_tokens"] == 3
    assert none["cache_creation_input_tokens"] == none["cache_read_input_tokens"] == 0


def test_what_only_anthropics_models_know_is_dropped_for_others() -> None:
    body: Json = {
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "cache_control": {"type": "ephemeral"},
        "context_management": {"edits": []},
        "service_tier": "auto",
        "top_k": 5,
        "betas_of_tomorrow": True,
        "tools": [
            {"type": "tool_search_tool_bm25_20251119", "name": "search"},
            {"name": "look", "input_schema": {"type": "object"}, "defer_loading": True, "input_examples": [{}]},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                    {"type": "text", "text": "Found.", "citations": [{"type": "page_location"}]},
                ],
            },
            {"role": "user", "content": [{"type": "text", "text": "And?", "odd": 1}]},
        ],
    }
    made = chat_body(body)

    assert set(made) == {"messages", "tools"}
    assert [tool["function"]["name"] for tool in made["tools"]] == ["look"]
    assert made["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Found."},
        {"role": "user", "content": "And?"},
    ]


def test_a_tool_that_ran_here_is_streamed_as_anthropic_streams_its_own() -> None:
    told = MessageEvents("m", 1, shows_thinking=True)
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tide"}}
    start, piece, stop = told.blocks([use])

    assert start["content_block"] == {**use, "input": {}}
    assert piece["delta"] == {"type": "input_json_delta", "partial_json": '{"query":"tide"}'}
    assert stop["type"] == "content_block_stop"


def test_null_is_no_arguments_and_a_call_has_a_name_and_an_id_of_its_own() -> None:
    assert answer_of(calls(("look", "null"), pieces=4))["content"][0]["input"] == {}
    assert answer_of(calls(("look", ' {"a": null}'), pieces=4))["content"][0]["input"] == {"a": None}
    two = calls(("look", {}), ("look", {}), ("", {}))
    two.calls[0]["id"], two.calls[1]["id"] = "a.b", "a_b"
    blocks = answer_of(two)["content"]

    assert len({block["id"] for block in blocks}) == 3
    assert [block["name"] for block in blocks] == ["look", "look", "nameless"]
    assert answer_of(calls(("", {})))["content"][0]["name"] == "nameless"


def test_tools_that_are_allowed_are_the_ones_that_are_offered() -> None:
    tools = [FUNCTION, {"type": "function", "function": {"name": "hear"}}]
    among: Json = {"mode": "required", "tools": [{"type": "function", "function": {"name": "hear"}}]}
    told = asked(tools=tools, tool_choice={"type": "allowed_tools", "allowed_tools": among})

    assert [tool["name"] for tool in told["tools"]] == ["hear"]
    assert told["tool_choice"] == {"type": "any"}
    for odd in ({"type": "allowed_tools"}, {"type": "custom", "custom": {"name": "hear"}}, {"function": "hear"}):
        with pytest.raises(Invalid):
            asked(tools=tools, tool_choice=odd)


def test_instructions_alone_are_what_is_asked() -> None:
    told = messages_body(
        {"messages": [{"role": "system", "content": "Be kind."}, {"role": "system", "content": "Go."}]}
    )

    assert told["system"] == "Be kind." and told["messages"] == [{"role": "user", "content": "Go."}]


def test_line_breaks_before_a_call_are_no_text() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    told = asked(
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "\n\n", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "Seen."},
        ],
        tools=[FUNCTION],
        model="m",
    )

    assert check_messages({**told, "model": "m"}) == ""


def test_tokens_of_the_question_are_told_where_the_upstream_counts_only_its_answer() -> None:
    turn = says("Hi.", usage={"prompt_tokens": "ten", "completion_tokens": 5})
    assert answer_of(turn)["usage"]["input_tokens"] > 0
    plain = plain_message(turn.whole(), "m", lambda: 3)
    assert plain is not None and plain["usage"]["input_tokens"] == 3


def test_counts_beyond_all_measure_are_still_whole_numbers_that_clients_read() -> None:
    turn = says("Hi.", usage={"prompt_tokens": 1e30, "completion_tokens": 5})
    assert answer_of(turn)["usage"]["input_tokens"] == 2**53
    assert tally_of({"prompt_tokens": 1e300, "completion_tokens": -1}) == Tally(2**53, 0)
