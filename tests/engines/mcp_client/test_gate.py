"""The gate between callers and servers: only what every reader reads the same way passes, however it is cut up."""

import io
import json
import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.engines.mcp_client.gate import Frame, FrameGate, RefusedLine, clear, examine
from tests.support.properties import examples

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def refused(line: bytes) -> str:
    found = examine(line)
    assert isinstance(found, RefusedLine), found
    return found.why


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (PING, "request"),
        (b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{}}}', "request"),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', "notification"),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', "response"),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}', "response"),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}', "response"),
        (
            b'  {"jsonrpc":"2.0","method":"x","params":{"deep":[[[{"a":[]}]]],"n":1e308,"big":123456789012345678901}} ',
            "notification",
        ),
        (PING + b"\r", "request"),
    ],
)
def test_what_reads_one_way_passes(line: bytes, kind: str) -> None:
    found = examine(line)
    assert isinstance(found, Frame) and found.kind == kind
    assert json.loads(found.raw) == found.message == json.loads(line)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":\r{"x":{}}\r}', "carriage return"),
        (b'\r{"jsonrpc":"2.0","id":1,"method":"ping"}', "carriage return"),
        (PING + b"\r\r", "carriage return"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}', "twice"),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}', "twice"),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\\u0061me":"b"}}', "twice"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}', "does not know"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","extra":1}', "does not know"),
        (b"[" + PING + b"]", "batch"),
        (b'"ping"', "not an object"),
        (b"\xef\xbb\xbf" + PING, "not JSON"),
        (PING.replace(b"ping", b"p\xffng"), "not JSON"),
        (PING.replace(b"ping", b"p\xed\xa0\x80ng"), "not JSON"),
        (PING.replace(b"ping", b"p\\ud800ng"), "not JSON"),
        (PING.decode().encode("utf-16-le"), "not JSON"),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":NaN}}', "not JSON"),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":-Infinity}}', "not JSON"),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":1e999}}', "not JSON"),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":' + b"9" * 5_000 + b"}}", "JSON"),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":' + b"[" * 200 + b"]" * 200 + b"}}", "nested"),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":' + b"[" * 100_000, "nested"),
        (b'{"jsonrpc":"2.0","method":"x","params":' + b'{"a":' * 150 + b"1" + b"}" * 151, "nested"),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":[' + b"[]," * 300_000 + b"1]}}", "more than 200,000 values"),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":[' + b'"",' * 300_000 + b"1]}}", "more than 200,000 values"),
        (b'{"jsonrpc":"2.0","method":"x","params":{"n":[' + b"1," * 300_000 + b"1]}}", "more than 200,000 values"),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', "id"),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', "id"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', "id"),
        (b'{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', "id"),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', "id"),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', "jsonrpc"),
        (b'{"id":1,"method":"ping"}', "jsonrpc"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', "at once"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', "neither"),
        (b'{"jsonrpc":"2.0","id":1}', "neither"),
        (b'{"jsonrpc":"2.0","result":{}}', "neither"),
        (b'{"jsonrpc":"2.0","id":1,"result":[]}', "not an object"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}', "not an object"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', "not text"),
        (PING + PING, "not JSON"),
        (b"\x00" + PING, "not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping",}', "not JSON"),
        (b"{'jsonrpc':'2.0'}", "not JSON"),
        (b"/* x */" + PING, "not JSON"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(line: bytes, why: str) -> None:
    assert why in refused(line)


def test_a_long_text_is_one_value_whatever_is_in_it() -> None:
    text = '{"a": [1, 2, "x\\\\"]}, ' * 200_000
    found = examine(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": text}}).encode())
    assert isinstance(found, Frame) and found.message["result"]["text"] == text


def test_greetings_are_chatter_and_broken_messages_are_not() -> None:
    chatter, broken = examine(b"Server running on stdio"), examine(b'{"jsonrpc":')
    assert isinstance(chatter, RefusedLine) and not chatter.is_message
    assert isinstance(broken, RefusedLine) and broken.is_message


def lines_of(text: str) -> list[str]:
    """How every kind of reader cuts what was forwarded into lines."""
    ways = [
        text.split("\n"),
        text.splitlines(),
        io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8").read().split("\n"),
        text.replace("\u2028", "\n").replace("\u2029", "\n").split("\n"),
    ]
    assert len({json.dumps([line for line in way if line]) for way in ways}) == 1, ways
    return [line for line in ways[0] if line]


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\u0085"])
def test_a_line_end_hidden_in_a_text_is_written_as_an_escape(end: str) -> None:
    hidden = f'x{end}{{"jsonrpc":"2.0","id":2,"method":"tools/call"}}{end}'
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": hidden}}, ensure_ascii=False)
    found = examine(line.encode())
    assert isinstance(found, Frame)
    [only] = lines_of(found.raw.decode() + "\n")
    assert json.loads(only)["params"]["a"] == hidden
    assert clear(line.encode()) == found.raw


def test_a_line_that_is_too_long_is_never_held() -> None:
    gate = FrameGate(max_bytes=1_000)
    found: list[Any] = []
    for _ in range(100):
        found.extend(gate.feed(b"x" * 400))
    assert len(found) == 1 and "longer than 1,000 bytes" in found[0].why
    assert sum(map(len, gate._pieces)) == 0
    found = list(gate.feed(b"xx\n" + PING + b"\n"))
    assert len(found) == 1 and isinstance(found[0], Frame)
    whole = list(gate.feed(b'{"a":"' + b"y" * 2_000 + b'"}\n' + PING + b"\n"))
    assert [type(each) for each in whole] == [RefusedLine, Frame]


def test_half_a_message_at_the_end_is_none() -> None:
    gate = FrameGate()
    assert list(gate.feed(PING)) == []
    half = gate.finish()
    assert half is not None and "middle of a message" in half.why and gate.finish() is None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


json_values = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**70), 2**70)
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters(exclude_categories=["Cs"])),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(some.dictionaries(some.text(max_size=8), json_values, max_size=4), some.randoms(use_true_random=False))
@examples(200)
def test_honest_messages_pass_unchanged_however_they_are_cut(params: dict[str, Any], dice: random.Random) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    stream = json.dumps(message, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass") + b"\n"
    gate = FrameGate()
    found: list[Frame | RefusedLine] = []
    while stream:
        size = dice.randint(1, len(stream))
        found.extend(gate.feed(stream[:size]))
        stream = stream[size:]
    [frame] = found
    assert isinstance(frame, Frame), frame
    assert frame.message == message
    [line] = lines_of(frame.raw.decode() + "\n")
    assert json.loads(line) == message


@given(some.binary(max_size=200) | some.text(max_size=200).map(str.encode), some.integers(0, 60), some.integers(0, 60))
@examples(500)
def test_whatever_is_sent_what_passes_reads_one_way(noise: bytes, start: int, size: int) -> None:
    """Noise in an honest message: what passes is one line and one object to every reader, or nothing passes."""
    line = PING[:start] + noise + PING[start + size :]
    gate = FrameGate()
    for found in gate.feed(line + b"\n"):
        if isinstance(found, RefusedLine):
            continue
        [only] = lines_of(found.raw.decode() + "\n")
        json.loads(only, object_pairs_hook=_unique)
        assert orjson.loads(only)["jsonrpc"] == "2.0" and orjson.loads(only) == found.message
