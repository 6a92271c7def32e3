"""Proves the two ways of the Responses API: items to messages, and a turn's events to a response's."""

from typing import Any

import pytest

from holdfast.core.errors import Invalid, UpstreamFailed
from holdfast.core.tools.outcome import Outcome
from holdfast.engines.llm.model import CallEvent, ChunkEvent, Done, LoopEvent, SideEvent, Tally
from holdfast.features.responses.events import ResponseEvents
from holdfast.features.responses.items import Called, input_items, translate

Json = dict[str, Any]


def chat(**request: Any) -> Json:
    """The chat that a request becomes."""
    return translate(request, input_items(request.get("input"))).body


def test_a_text_with_instructions_is_a_chat_of_two_messages() -> None:
    body = chat(model="m", input="Hello", instructions="Be brief.", store=True, stream=True, temperature=0.1, seed=7)
    assert body == {
        "model": "m",
        "temperature": 0.1,
        "seed": 7,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
    }


def test_developers_pictures_and_files_reach_the_model() -> None:
    parts = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
    ]
    items = [{"role": "developer", "content": "Rules."}, {"type": "message", "role": "user", "content": parts}]
    first, second = chat(input=items)["messages"]
    assert first == {"role": "developer", "content": "Rules."}
    assert second["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
    ]


def test_calls_in_a_row_are_one_message_and_outputs_may_be_parts() -> None:
    items = [
        {"role": "user", "content": "Look."},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}", "namespace": "files"},
        {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": "*** Begin"},
        {"type": "function_call_output", "call_id": "a", "output": "text"},
        {
            "type": "custom_tool_call_output",
            "call_id": "b",
            "output": [
                {"type": "input_text", "text": "done"},
                {"type": "input_image", "image_url": "http://x/y.png"},
            ],
        },
    ]
    _, asked, first, second, pictures = chat(input=items)["messages"]
    assert [call["function"] for call in asked["tool_calls"]] == [
        {"name": "files.read", "arguments": "{}"},
        {"name": "patch", "arguments": '{"input":"*** Begin"}'},
    ]
    assert first == {"role": "tool", "tool_call_id": "a", "content": "text"}
    assert second == {"role": "tool", "tool_call_id": "b", "content": "done"}
    assert pictures == {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}


def test_tools_of_every_kind_are_told_apart() -> None:
    request = {
        "tools": [
            {"type": "function", "name": "read", "description": "Reads.", "parameters": {"type": "object"}},
            {"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "read"}]},
            {"type": "custom", "name": "patch"},
            {"type": "web_search_preview", "x_tools": ["calculator"]},
            {"type": "image_generation"},
        ],
        "tool_choice": {"type": "function", "name": "read", "namespace": "mcp__x"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
        "reasoning": {"effort": "low"},
        "max_output_tokens": 9,
    }
    made = translate(request, input_items("Hi"))
    assert made.functions == {
        "read": Called("read"),
        "mcp__x.read": Called("read", "mcp__x"),
        "patch": Called("patch", None, True),
    }
    assert [tool.get("function", tool).get("name") for tool in made.body["tools"]] == [
        "read",
        "mcp__x.read",
        "patch",
        None,
    ]
    assert made.body["tool_choice"] == {"type": "function", "function": {"name": "mcp__x.read"}}
    assert made.body["response_format"] == {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    assert (made.body["reasoning_effort"], made.body["max_completion_tokens"]) == ("low", 9)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"input": 7}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "hologram"}]}]}, "input[0].content[0]"),
        ({"input": ["x", {"type": "item_reference"}]}, "input"),
        ({"input": [{"type": "item_reference"}]}, "input[0].id"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": "x", "tools": "all"}, "tools"),
        ({"input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
        ({"input": "x", "tools": [{"type": "custom", "name": "a"}] * 2}, "tools[1]"),
        ({"input": "x", "text": "json"}, "text"),
    ],
)
def test_what_cannot_be_read_is_named(request_: Json, field: str) -> None:
    with pytest.raises(Invalid) as wrong:
        chat(**request_)
    assert wrong.value.fields[0].field == field


# Events.


def chunk(**delta: Any) -> ChunkEvent:
    return ChunkEvent({"model": "m", "choices": [{"index": 0, "delta": delta}]})


def done(reason: str = "stop") -> Done:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    return Done({}, reason, Tally(3, 2), usage=usage)


def told(*events: LoopEvent, functions: dict[str, Called] | None = None) -> tuple[list[Json], Json]:
    """Everything that is told of a turn, and the response in the end."""
    made = ResponseEvents({"model": "", "output": []}, functions or {}, lambda: 5000)
    all_told = [*made.begin(), *(each for event in events for each in made.hear(event))]
    assert [event["sequence_number"] for event in all_told] == list(range(len(all_told)))
    return all_told, made.response


def test_text_grows_between_its_item_and_its_end() -> None:
    events, response = told(chunk(content="It "), chunk(content="is."), done())
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert response["output"][0]["content"][0]["text"] == "It is."
    assert response["usage"]["total_tokens"] == 5
    assert response["usage"]["input_tokens_details"]["cached_tokens"] == 1
    assert (response["status"], response["completed_at"], response["model"]) == ("completed", 5, "m")
    # What was told first is not changed by what came later.
    assert events[0]["response"]["output"] == [] and events[2]["item"]["content"] == []


def test_thoughts_text_and_refusals_are_parts_of_their_own() -> None:
    _, response = told(chunk(reasoning_content="Hm."), chunk(content="No"), chunk(refusal="I can't."), done())
    assert [item["type"] for item in response["output"]] == ["reasoning", "message", "message"]
    assert response["output"][2]["content"] == [{"type": "refusal", "refusal": "I can't."}]


@pytest.mark.parametrize(("reason", "detail"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_that_was_cut_is_incomplete(reason: str, detail: str) -> None:
    events, response = told(chunk(content="It"), done(reason))
    assert events[-1]["type"] == "response.incomplete"
    assert response["incomplete_details"] == {"reason": detail}
    assert response["output"][0]["status"] == "incomplete"


def test_parallel_calls_keep_their_pieces_apart() -> None:
    functions = {"x.read": Called("read", "x"), "patch": Called("patch", None, True)}
    events, response = told(
        chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "x.read", "arguments": ""}}]),
        chunk(tool_calls=[{"index": 1, "id": "b", "function": {"name": "patch", "arguments": '{"input": '}}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"p":'}}]),
        chunk(tool_calls=[{"index": 1, "function": {"arguments": '"new"}'}}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": "1}"}}]),
        done("tool_calls"),
        functions=functions,
    )
    first, second = response["output"]
    assert (first["name"], first["namespace"], first["arguments"], first["call_id"]) == ("read", "x", '{"p":1}', "a")
    assert (second["type"], second["name"], second["input"]) == ("custom_tool_call", "patch", "new")
    deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert "".join(deltas) == '{"p":1}'
    assert {item["status"] for item in response["output"]} == {"completed"}


def test_calls_without_numbers_are_told_apart_by_their_ids() -> None:
    _, response = told(
        chunk(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": {"q": 1}}}]),
        chunk(tool_calls=[{"id": "b", "function": {"name": "g", "arguments": "{"}}]),
        chunk(tool_calls=[{"function": {"arguments": "}"}}]),
        done("tool_calls"),
    )
    assert [(each["name"], each["arguments"]) for each in response["output"]] == [("f", '{"q":1}'), ("g", "{}")]


@pytest.mark.contract("XS-7")
def test_searches_here_are_items_with_their_events_in_order() -> None:
    query = '{"query": "rust"}'
    found = (
        '{"results": [{"filename": "a.md", "chunk_text": "Oxide.", "relevance_score": 0.5, "artifact_id": "doc_1"}]}'
    )
    hits = '{"results": [{"title": "Rust", "url": "https://rust-lang.org", "snippet": ""}]}'
    events, response = told(
        SideEvent({"type": "x_research.tool_call", "name": "file_search", "arguments": query}),
        SideEvent({"type": "x_research.searching", "name": "web_search", "arguments": query}),
        SideEvent({"type": "x_research.reading", "name": "fetch_url", "arguments": '{"url": "https://a.b"}'}),
        SideEvent({"type": "x_research.result", "name": "web_search", "tool_call_id": "c"}),
        CallEvent("c", "web_search", query, Outcome(hits)),
        CallEvent("d", "file_search", query, Outcome(found)),
        CallEvent("e", "fetch_url", '{"url": "https://a.b"}', Outcome("gone"), failed=True),
        chunk(content="Rust."),
        done(),
    )
    files, search, page, message = response["output"]
    assert files["queries"] == ["rust"]
    assert files["results"] == [
        {"file_id": "doc_1", "filename": "a.md", "score": 0.5, "text": "Oxide.", "attributes": {}}
    ]
    assert search["action"]["sources"] == [{"type": "url", "url": "https://rust-lang.org"}]
    assert (page["action"], page["status"]) == ({"type": "open_page", "url": "https://a.b"}, "failed")
    assert message["content"][0]["text"] == "Rust."
    of_files = [event for event in events if event.get("item_id") == files["id"]]
    assert [event["type"].rsplit(".")[-1] for event in of_files] == ["in_progress", "searching", "completed"]
    assert of_files[-1]["item"]["results"] == files["results"]
    assert [event["type"] for event in events if event["type"].startswith("x_")] == [
        "x_research.tool_call",
        "x_research.searching",
        "x_research.reading",
        "x_research.result",
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": None},
        {"choices": {"delta": {}}},
        {"choices": [None, 7, {"delta": "x"}, {"delta": {"content": 7, "tool_calls": {"a": 1}}}]},
        {"choices": [{"delta": {"tool_calls": [None, "x"]}}], "model": 7},
    ],
)
def test_chunks_of_odd_shapes_are_passed_over(odd: Json) -> None:
    _, response = told(ChunkEvent(odd), chunk(content="Fine."), done())
    assert [item["content"][0]["text"] for item in response["output"]] == ["Fine."]


def test_a_response_that_fails_says_why() -> None:
    made = ResponseEvents({"model": "", "output": []}, {}, lambda: 0)
    (event,) = made.fail(UpstreamFailed("The upstream hung up."))
    assert event["type"] == "response.failed"
    assert event["response"]["error"] == {"code": "server_error", "message": "The upstream hung up."}
