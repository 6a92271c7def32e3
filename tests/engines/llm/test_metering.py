"""Proves that an answer whose model tells no counts, or that was given up, is counted by what was written."""

from typing import Any

from holdfast.engines.llm.metering import Meter
from tests.fakes.llm.model import Turn, calls, says

Json = dict[str, Any]


def tokens(turn: Turn) -> int:
    meter = Meter({"messages": [{"role": "user", "content": "Hi"}]})
    for chunk in turn.made():
        meter.hear(chunk)
    return meter.tally().output_tokens


def test_a_text_counts_the_same_in_however_many_pieces_it_came() -> None:
    counts = {tokens(says("word " * 80, pieces=pieces, usage=None)) for pieces in (1, 40, 400)}

    assert counts == {101}


def test_calls_count_by_their_names_and_arguments() -> None:
    few, many = (tokens(calls(("look", {"word": "a" * 400}), pieces=pieces, usage=None)) for pieces in (0, 100))

    assert few == many == 1 + (4 + len('{"word": ""}') + 400) // 4


def test_words_of_any_shape_are_counted_or_left_out() -> None:
    meter = Meter({})
    odd: list[Any] = [
        None,
        [],
        {"content": [{"text": "four"}, 7]},
        {"tool_calls": [{"function": None}, {}]},
        {"role": "x"},
    ]
    for delta in odd:
        meter.hear({"choices": [{"delta": delta}, None]})
    meter.hear({"choices": [{"message": {"role": "assistant", "content": "four"}}]})

    assert meter.tally().output_tokens == 3
