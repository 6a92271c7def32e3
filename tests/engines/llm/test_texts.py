"""Mere texts of a stream: read by the bytes around them, they are what parsing every event would have told."""

import json
from collections.abc import Callable, Sequence

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.llm.model import Json
from holdfast.engines.llm.remote.sse import Events
from holdfast.engines.llm.remote.texts import Texts, chat_texts, messages_texts
from tests.support.properties import examples

Told = tuple[str, ...] | str


def chunk(text: str, **more: object) -> Json:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return {"id": "chatcmpl-1", "created": 1, "choices": [choice], **more}


def delta(text: str, index: int = 0) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


def compact(event: Json) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(event)


def spaced(event: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event.get("type", "x")).encode(), json.dumps(event).encode())


def told(raw: bytes, cuts: Sequence[int], texts: Texts) -> tuple[list[Json | str], int]:
    """What a stream says, and how many texts were read without parsing their events."""
    events, found, runs, at = Events(texts), list[Json | str](), 0, 0
    for cut in [*sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]:
        for data in events.feed(raw[at:cut]):
            if isinstance(data, list):
                found += data
                runs += len(data)
                continue
            event = orjson.loads(data)
            text = texts.learn(events.framing, data, event)
            found.append(event if text is None else text)
        at = cut
    return found, runs


CALL = {"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"content": "x'}}]}}
OTHERS: list[Json] = [
    {"id": "chatcmpl-1", "created": 1, "choices": [CALL]},
    chunk("x", usage={"prompt_tokens": 1}),
    {**chunk("end"), "choices": [{"index": 0, "delta": {"content": "end"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"content": "no"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"text": "'}},
    {"type": "ping"},
]
EVENTS = st.one_of(
    st.text().map(chunk),
    st.text().map(delta),
    st.builds(delta, st.text(), st.integers(0, 2)),
    st.builds(lambda text, stamp: chunk(text, created=stamp), st.text(), st.integers(1, 3)),
    st.sampled_from(OTHERS),
)


@examples(300)
@given(
    st.lists(EVENTS, max_size=40),
    st.sampled_from([compact, spaced]),
    st.lists(st.integers(0, 20_000), max_size=4),
    st.sampled_from([chat_texts, messages_texts]),
)
def test_texts_are_what_parsing_each_event_tells(
    sent: list[Json], written: Callable[[Json], bytes], cuts: list[int], texts: Callable[[], Texts]
) -> None:
    raw = b"".join(map(written, sent))
    plain = texts()
    expected = [event if (text := plain.learn(None, b"", event)) is None else text for event in sent]

    assert told(raw, cuts, texts())[0] == expected


@pytest.mark.parametrize(("event", "texts"), [(chunk, chat_texts), (delta, messages_texts)])
@pytest.mark.parametrize("written", [compact, spaced])
def test_a_run_of_texts_is_read_without_parsing_its_events(
    event: Callable[[str], Json], texts: Callable[[], Texts], written: Callable[[Json], bytes]
) -> None:
    said = ['a "word"', "", "\n\n", "\\u00e9 é 🙂", '"},"finish_reason":null}]}', *(f"word {n}" for n in range(2_000))]
    found, runs = told(b"".join(written(event(text)) for text in said), (), texts())

    assert found == said
    assert runs == len(said) - 1


@pytest.mark.parametrize("middle", ["null", '"a","b"', '"a"}},{"x":{"y":"b"', "7", "", '"a'])
def test_what_only_looks_like_a_text_is_left_to_the_parser(middle: str) -> None:
    whole = b"".join(compact(chunk(text)) for text in ("one", "MIDDLE", "three"))
    texts = chat_texts()
    texts.learn(b"data: ", orjson.dumps(chunk("one")), chunk("one"))
    events = list(Events(texts).feed(whole.replace(b'"MIDDLE"', middle.encode())))

    # The good ones around it may wait for the parser too; nothing of it is taken for a text.
    assert all(not isinstance(event, list) or set(event) <= {"one", "three"} for event in events)
    assert sum(1 if isinstance(event, bytes) else len(event) for event in events) == 3


def test_a_key_that_stands_twice_teaches_nothing() -> None:
    texts = chat_texts()
    data = b'{"choices":[{"index":0,"delta":{"content":"first","content":"second"}}]}'

    assert texts.learn(b"data: ", data, orjson.loads(data)) == "second"
    assert texts.before == b""


def test_nothing_is_learned_from_an_event_of_megabytes() -> None:
    texts = chat_texts()
    raw = compact(chunk("x" * 3_000_000))
    assert told(raw, [], texts)[0] == ["x" * 3_000_000] and texts.before == b""
    assert told(compact(chunk("a")) + compact(chunk("b")), [], texts) == (["a", "b"], 1)
