"""Proves that an answer that is only text is said at once as its events would say it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.llm.assembly import Assembly
from holdfast.engines.llm.messages.chat_chunks import ChatChunks
from holdfast.engines.llm.messages.message_events import MessageEvents, whole_message
from holdfast.engines.llm.messages.plain import plain_completion, plain_message
from tests.support.properties import examples

Json = dict[str, Any]
COUNTS = st.none() | st.integers(-1, 5) | st.just(7.0) | st.text(max_size=1)
TEXTS = st.text(max_size=30) | st.sampled_from(["", " ", "\n\t", " hi "])
FINISH = st.sampled_from(["stop", "length", "tool_calls", "content_filter", "other", None, 3])
COMPLETIONS = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {"message": st.fixed_dictionaries({"role": st.just("assistant"), "content": TEXTS | st.none()})},
                optional={
                    "index": st.sampled_from([0, None]),
                    "finish_reason": FINISH,
                    "stop_reason": st.sampled_from([None, "END", 5]),
                },
            ),
            max_size=2,
        )
    },
    optional={
        "usage": st.none()
        | st.dictionaries(st.sampled_from(["prompt_tokens", "completion_tokens", "total_tokens"]), COUNTS),
        "id": TEXTS,
    },
)
STOPS = st.sampled_from(["end_turn", "max_tokens", "tool_use", "refusal", "pause_turn", "stop_sequence", "new", None])
BLOCKS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "text", "text", "thinking"])},
        optional={"text": TEXTS, "thinking": TEXTS, "citations": st.just([]), "signature": st.sampled_from(["", "s"])},
    ),
    max_size=3,
)
MESSAGES = st.fixed_dictionaries(
    {"content": BLOCKS, "stop_reason": STOPS},
    optional={
        "id": TEXTS | st.none(),
        "model": TEXTS,
        "stop_sequence": st.sampled_from([None, "END"]),
        "usage": st.dictionaries(
            st.sampled_from(["input_tokens", "output_tokens", "cache_read_input_tokens"]), COUNTS, max_size=3
        ),
    },
)


@examples(400)
@given(completion=COMPLETIONS)
def test_a_completion_of_text_is_the_message_that_its_events_tell(completion: Json) -> None:
    message = plain_message(completion, "asked", lambda: 11)
    if message is None:
        return
    events = MessageEvents("asked", 11, shows_thinking=False)
    choices = [{**each, "delta": each["message"]} for each in completion["choices"]]
    told = [*events.begin(), *events.hear_all([{**completion, "choices": choices}]), *events.finish()]
    slow = whole_message(told)
    assert {**message, "id": ""} == {**slow, "id": ""}
    assert list(message) == list(slow) and message["id"].startswith("msg_")


@examples(400)
@given(message=MESSAGES)
def test_a_message_of_text_is_the_completion_that_its_chunks_make(message: Json) -> None:
    completion = plain_completion(message)
    if completion is None:
        return
    assembly = Assembly()
    for chunk in ChatChunks().whole(message):
        assembly.add(chunk)
    slow = assembly.completion()
    assert {**completion, "created": 0} == {**slow, "created": 0}


def test_what_has_more_than_text_is_left_to_its_events() -> None:
    said: Json = {"role": "assistant", "content": "Hi"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    for more in ({"tool_calls": [{"id": "a"}]}, {"reasoning_content": "Hm"}, {"content": [{"type": "text"}]}):
        assert plain_message({"choices": [{"message": {**said, **more}}], "usage": usage}, "m", lambda: 1) is None
    assert plain_message({"choices": [{"message": said}]}, "m", lambda: 1) is None
    plain = plain_message({"choices": [{"message": {**said, "tool_calls": []}}], "usage": usage}, "m", lambda: 1)
    assert plain is not None and plain["content"] == [{"type": "text", "text": "Hi"}]
    called = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    assert plain_completion({"content": [{"type": "text", "text": "Hi"}, called], "usage": {"input_tokens": 1}}) is None
