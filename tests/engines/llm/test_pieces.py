"""Streams in pieces: however bytes and deltas are cut, the same comes out."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import UpstreamFailed
from holdfast.core.text.jsontext import loads_strange
from holdfast.engines.llm import assembly
from holdfast.engines.llm.assembly import Assembly, add_usage
from holdfast.engines.llm.model import Json
from holdfast.engines.llm.remote.names import ToolNames, needs_rewriting
from holdfast.engines.llm.remote.sse import Events, LineTooLong
from tests.engines.llm.turns import client_tool
from tests.fakes.llm.model import Turn, calls
from tests.support.properties import examples

STREAM = b': hello\r\ndata: {"a": 1}\r\n\r\ndata:one\ndata: two\n\nevent: x\nid: 3\n\n\ndata: [DONE]\n\ndata: last'
EXPECTED = [b'{"a": 1}', b"one\ntwo", b"[DONE]"]


@examples(60)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    events, found, at = Events(), list[bytes | list[str]](), 0
    for cut in [*sorted(cuts), len(STREAM)]:
        found += events.feed(STREAM[at:cut])
        at = cut
    assert found == EXPECTED


def test_an_event_without_its_last_blank_line_comes_at_the_end() -> None:
    events = Events()
    assert list(events.feed(b"data: last\n")) == []
    assert list(events.flush()) == [b"last"]


def assembled(turn: Turn) -> Assembly:
    made = Assembly()
    for chunk in turn.made():
        made.add(chunk)
    return made


@examples(60)
@given(st.integers(1, 40), st.text(max_size=60))
def test_calls_are_the_same_however_their_arguments_are_cut(pieces: int, text: str) -> None:
    wanted = (("one", {"text": text}), ("two", {"text": text * 2}))
    assert assembled(calls(*wanted, pieces=pieces)).calls == assembled(calls(*wanted, pieces=0)).calls


def test_calls_that_are_all_numbered_alike_stay_apart() -> None:
    made = Assembly()
    for id in ("a", "b"):
        call = {"index": 0, "id": id, "function": {"name": "one", "arguments": {"id": id}}}
        made.add({"choices": [{"delta": {"tool_calls": [call]}}]})
    assert [(call.id, call.arguments) for call in made.calls] == [("a", '{"id":"a"}'), ("b", '{"id":"b"}')]


def test_calls_without_an_id_get_one_that_stays() -> None:
    made = Assembly()
    made.add({"choices": [{"delta": {"tool_calls": [{"function": {"name": "one"}}, {"function": {"name": "two"}}]}}]})
    ids = [call.id for call in made.calls]
    assert len(set(ids)) == 2
    assert ids == [call["id"] for call in made.message["tool_calls"]]


def test_a_completion_keeps_every_choice_and_unknown_field() -> None:
    made = Assembly()
    for index, text in ((0, "Hel"), (1, "By"), (0, "lo"), (1, "e")):
        logprobs = {"content": [{"token": text, "logprob": -0.1}]}
        choice: dict[str, Any] = {"index": index, "delta": {"content": text, "mood": "calm"}, "logprobs": logprobs}
        made.add({"id": "a", "system_fingerprint": "f", "choices": [choice]})
    made.add(
        {"id": "a", "choices": [{"index": 1, "delta": {}, "finish_reason": "length"}], "usage": {"total_tokens": 4}}
    )
    whole = made.completion()
    assert [choice["message"]["content"] for choice in whole["choices"]] == ["Hello", "Bye"]
    assert [choice["finish_reason"] for choice in whole["choices"]] == ["stop", "length"]
    assert [len(choice["logprobs"]["content"]) for choice in whole["choices"]] == [2, 2]
    assert (whole["object"], whole["system_fingerprint"]) == ("chat.completion", "f")
    assert whole["usage"] == {"total_tokens": 4}


def test_an_endless_answer_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MAX_BYTES", 100)
    made = Assembly()
    with pytest.raises(UpstreamFailed):
        for _ in range(30):
            made.add({"choices": [{"index": 0, "delta": {"content": "12345"}}]})


@pytest.mark.parametrize("chunk", [{"choices": None}, {"choices": [1]}, {"choices": [{"delta": "x"}]}, {"choices": {}}])
def test_a_chunk_of_no_known_shape_is_passed_over(chunk: dict[str, Any]) -> None:
    made = Assembly()
    made.add(chunk)
    assert made.calls == []


def test_usage_adds_up_by_field() -> None:
    first = {"prompt_tokens": 1, "details": {"cached": 2, "tier": "a"}, "note": None}
    second = {"prompt_tokens": 2, "details": {"cached": 3, "audio": 1, "tier": "b"}}
    assert add_usage(first, second) == {
        "prompt_tokens": 3,
        "details": {"cached": 5, "audio": 1, "tier": "b"},
        "note": None,
    }


@examples(60)
@given(st.lists(st.text(min_size=1, max_size=100), max_size=8))
def test_every_name_goes_out_strict_and_distinct_and_comes_back(names: list[str]) -> None:
    made = ToolNames(names)
    outward = [made.outward(name) for name in dict.fromkeys(names)]
    assert len(set(outward)) == len(outward)
    assert all(
        len(name) <= 64 and name.isascii() and name.replace("_", "a").replace("-", "a").isalnum() for name in outward
    )
    assert [made.inward(name) for name in outward] == list(dict.fromkeys(names))


def test_only_names_that_a_strict_upstream_refuses_need_rewriting() -> None:
    assert needs_rewriting({"tools": [client_tool("repo.read")]})
    assert not needs_rewriting({"tools": [client_tool("repo_read")], "messages": [{"role": "user"}]})
    assert not needs_rewriting({})


@pytest.mark.parametrize(
    "chunk",
    [
        lambda number: {"choices": [{"index": 0, "delta": {"tool_calls": [{"id": f"c{number}"}]}}]},
        lambda number: {"choices": [{"index": number, "delta": {}}]},
        lambda number: {"choices": [{"index": 0, "delta": {f"field{number}": "x"}}]},
        lambda number: {"choices": [{"index": 0, f"field{number}": "x"}]},
        lambda number: {f"field{number}": "x"},
        lambda number: {"choices": [{"index": 0, "delta": {"x": [[]] * 200_000}}]},
        lambda number: {"choices": [{"index": 0, "logprobs": {"content": [[]] * 200_000}}]},
    ],
    ids=["calls", "choices", "fields", "fields of a choice", "fields of an answer", "lists", "logprobs"],
)
def test_an_answer_of_ever_more_parts_is_broken_off(chunk: Callable[[int], Json]) -> None:
    """Each part is small; looking through them all for each new one would cost their square."""
    made = Assembly()
    with pytest.raises(UpstreamFailed, match="upstream's answer"):
        for number in range(2_000):
            made.add(chunk(number))


@pytest.mark.slow
def test_an_event_that_never_ends_is_refused() -> None:
    events = Events()
    with pytest.raises(LineTooLong):
        for _ in range(40):
            list(events.feed(b"data: x\n" * 65_536))


@pytest.mark.parametrize("text", [b"[" + b"[]," * 600_000 + b"0]", b"[" + b"1," * 1_000_001 + b"0]"])
def test_a_text_of_too_many_values_is_not_read(text: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        loads_strange(text)
    assert loads_strange(b'{"a": [1, 2, 3]}') == {"a": [1, 2, 3]}
