"""Proves translation between the wires: what both can say survives the way there and back, and streams end well."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.engines.llm.messages.chat_chunks import ChatChunks
from holdfast.engines.llm.messages.chat_request import chat_body
from holdfast.engines.llm.messages.message_events import MessageEvents, TextDeltas, whole_message
from holdfast.engines.llm.messages.messages_request import messages_body
from holdfast.engines.llm.model import Heard
from holdfast.engines.llm.remote.sse import Events
from tests.fakes.llm.messages import Answer, in_order
from tests.fakes.llm.messages import check as check_messages
from tests.fakes.llm.model import check as check_chat
from tests.support.properties import examples

Json = dict[str, Any]
WORDS = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=12)
NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
INPUTS = st.dictionaries(NAMES, st.one_of(WORDS, st.integers(-9, 9), st.booleans(), st.lists(WORDS, max_size=2)))
# Anthropic refuses a text of blanks alone.
TEXT = WORDS.filter(lambda text: not text.isspace()).map(lambda text: {"type": "text", "text": text})
BASE64 = st.just("aGVsbG8=")
IMAGE = st.one_of(
    BASE64.map(lambda data: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}),
    st.just({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}),
)
PDF = BASE64.map(
    lambda data: {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": data},
        "title": "a.pdf",
    }
)
TOOLS = st.lists(NAMES, min_size=1, max_size=3, unique=True).map(
    lambda names: [
        {"name": name, "description": "Does.", "input_schema": {"type": "object", "properties": {}}} for name in names
    ]
)
CHOICES: st.SearchStrategy[Json | None] = st.sampled_from(
    [None, {"type": "auto"}, {"type": "any"}, {"type": "none"}, {"type": "tool"}]
)


@st.composite
def requests(draw: st.DrawFn) -> Json:
    """A Messages request that Chat Completions can say as well."""
    tools = draw(TOOLS)
    messages: list[Json] = []
    for turn in range(draw(st.integers(0, 2))):
        said = draw(st.one_of(WORDS, st.lists(st.one_of(TEXT, IMAGE, PDF), min_size=2, max_size=3)))
        messages.append({"role": "user", "content": said})
        calls = [
            {"type": "tool_use", "id": f"toolu_{turn}_{number}", "name": draw(NAMES), "input": draw(INPUTS)}
            for number in range(draw(st.integers(0, 2)))
        ]
        if not calls:
            messages.append({"role": "assistant", "content": draw(WORDS)})
            continue
        messages.append({"role": "assistant", "content": [*draw(st.lists(TEXT, max_size=1)), *calls]})
        results: list[Json] = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": draw(WORDS)} for call in calls
        ]
        more = draw(st.lists(st.one_of(TEXT, IMAGE), max_size=2))
        messages.append({"role": "user", "content": [*results, *more]})
        messages.append({"role": "assistant", "content": draw(WORDS)})
    messages.append({"role": "user", "content": draw(WORDS)})
    body: Json = {"model": "m", "max_tokens": draw(st.integers(1, 99)), "messages": messages}
    body |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "system": WORDS,
                "temperature": st.floats(0, 1),
                "top_p": st.floats(0, 1),
                "stop_sequences": st.lists(WORDS, min_size=1, max_size=4),
                "metadata": WORDS.map(lambda text: {"user_id": text}),
            },
        )
    )
    choice: Json | None = draw(CHOICES)
    if choice is not None and choice["type"] == "tool":
        choice = {**choice, "name": tools[0]["name"]}
    if choice is not None and choice["type"] != "none" and draw(st.booleans()):
        choice = {**choice, "disable_parallel_tool_use": True}
    if draw(st.booleans()):
        body |= {"tools": tools, **({"tool_choice": choice} if choice else {})}
    return body


@examples(200)
@given(requests())
def test_a_request_that_both_wires_can_say_survives_the_way_there_and_back(body: Json) -> None:
    chat = chat_body(body)

    assert check_chat({**chat, "model": "m"}) == ""
    assert {**messages_body(chat), "model": "m"} == body
    assert check_messages(body) == ""


BLOCKS = st.lists(
    st.one_of(
        TEXT,
        st.builds(
            lambda name, given, number: {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given},
            NAMES,
            INPUTS,
            st.integers(0, 10**9),
        ),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda block: block.get("id", "text"),
).map(lambda blocks: sorted(blocks, key=lambda block: block["type"] != "text"))


@examples(200)
@given(BLOCKS, st.sampled_from(["end_turn", "max_tokens", "stop_sequence"]))
def test_an_answer_survives_the_way_there_and_back(blocks: list[Json], reason: str) -> None:
    called = any(block["type"] == "tool_use" for block in blocks)
    reason = "tool_use" if called else reason
    answer = Answer(blocks, stop_reason=reason, stop_sequence="END" if reason == "stop_sequence" else None)
    heard, told = ChatChunks(), MessageEvents("claude-fake", 1, shows_thinking=True)
    events = list(told.begin())
    for event in answer.events():
        for chunk in heard.hear(event):
            events += told.hear(chunk)
    events += told.finish()
    made = whole_message(events)

    for name in ("content", "stop_reason", "stop_sequence", "usage"):
        assert made[name] == answer.message()[name], name
    assert in_order(events)


ODD = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=8,
)
CALL = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 2),
        "id": NAMES,
        "function": st.fixed_dictionaries({}, optional={"name": NAMES, "arguments": st.one_of(WORDS, INPUTS)}),
    },
)
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "content": st.one_of(WORDS, st.none(), ODD),
        "reasoning_content": st.one_of(WORDS, ODD),
        "tool_calls": st.one_of(st.lists(CALL, max_size=3), ODD),
        "thinking_blocks": ODD,
    },
)
CHUNK = st.one_of(
    DELTA.map(lambda delta: {"choices": [{"index": 0, "delta": delta}]}),
    st.fixed_dictionaries({"choices": ODD, "usage": ODD}),
)


@examples(300)
@given(st.lists(CHUNK, max_size=8))
def test_chunks_of_any_shape_become_events_in_order_or_an_error(chunks: list[Json]) -> None:
    told = MessageEvents("m", 1, shows_thinking=True)
    events = list(told.begin())
    try:
        for chunk in chunks:
            events += told.hear(chunk)
        events += told.finish()
    except HoldfastError:
        return
    assert in_order(events)
    json.dumps(events)


@examples(200)
@given(st.permutations(Answer([{"type": "text", "text": "Hello"}]).events()), st.lists(ODD, max_size=2))
def test_events_in_any_order_become_chunks_or_an_error(events: list[Json], odd: list[Any]) -> None:
    heard = ChatChunks()
    for event in [*events, *({"type": "content_block_delta", "delta": each} for each in odd)]:
        for chunk in heard.hear(event):
            json.dumps(chunk)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}]}, "messages.0"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]}, "source"),
        ({"messages": [{"role": "other", "content": "x"}]}, "messages.0.role"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools.0.type"),
        ({"tools": [{"name": "a", "input_schema": {}}], "tool_choice": {"type": "odd"}}, "tool_choice.type"),
        ({"mcp_servers": [{"url": "https://example.com"}]}, "mcp_servers"),
        ({"container": {"id": "c"}}, "container"),
        ({"compaction": {"type": "summarize"}}, "compaction"),
    ],
)
def test_what_cannot_be_said_is_refused_by_its_name(change: Json, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        chat_body({"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}], **change})

    assert field in refused.value.fields[0].field


def test_results_keep_images_errors_and_references_beside_their_calls() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True}
    body = {
        "messages": [
            {"role": "user", "content": "Look"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "see", "input": {}}]},
            {"role": "user", "content": [{**result, "content": [{"type": "text", "text": "dark"}, image]}]},
            {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": {}}]},
        ]
    }
    made = chat_body(body)["messages"]

    assert made[2] == {"role": "tool", "tool_call_id": "t1", "content": "Error: dark"}
    assert made[3]["content"][1] == {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    assert made[4] == {"role": "system", "content": "Be brief."}
    assert check_chat({"model": "m", "messages": made}) == ""


@pytest.mark.parametrize("beside", [[], [{"type": "text", "text": "Done."}]])
def test_a_conversation_goes_on_from_the_last_summary_that_stands_in_it(beside: list[Json]) -> None:
    def summary(text: str | None) -> Json:
        return {"type": "compaction", "content": text, "encrypted_content": "b3BhcXVl"}

    messages = [
        {"role": "user", "content": "What was long ago"},
        {"role": "assistant", "content": [summary("An older one."), {"type": "text", "text": "Long ago."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Before."}, summary("We count sheep."), *beside]},
        {"role": "user", "content": "Go on"},
        {"role": "assistant", "content": [summary(None)]},
        {"role": "user", "content": "And on"},
    ]
    made = chat_body({"system": "Be brief.", "messages": messages})["messages"]

    assert made[0] == {"role": "system", "content": "Be brief."}
    assert made[1]["role"] == "user" and made[1]["content"].endswith("We count sheep.")
    told = [(message["role"], message["content"]) for message in made[2:]]
    assert told == [*[("assistant", "Done.") for _ in beside], ("user", "Go on"), ("user", "And on")]
    assert check_chat({"model": "m", "messages": made}) == ""


def test_marks_of_a_history_that_tell_a_model_nothing_are_left_out() -> None:
    marks = [
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": []},
    ]
    answered = {"role": "assistant", "content": [*marks, {"type": "text", "text": "Hello"}]}

    assert chat_body({"messages": [answered]})["messages"] == [{"role": "assistant", "content": "Hello"}]


STREAMED = b"".join(Answer([{"type": "text", "text": "Hello, world"}]).stream())


@examples(200)
@given(st.lists(st.integers(1, len(STREAMED) - 1), max_size=12))
def test_a_stream_says_the_same_however_its_bytes_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(set(cuts)), len(STREAMED)]
    events, heard, told = Events(), ChatChunks(), MessageEvents("claude-fake", 1, shows_thinking=True)
    made: list[Json | TextDeltas] = list(told.begin())
    for begin, end in itertools.pairwise(edges):
        batch: list[Heard] = [json.loads(data) for data in events.feed(STREAMED[begin:end]) if isinstance(data, bytes)]
        made += told.hear_all(heard.hear_all(batch))
    made += told.finish()

    assert heard.is_finished and in_order([event for event in made if isinstance(event, dict)])
    assert whole_message(made)["content"] == [{"type": "text", "text": "Hello, world"}]
