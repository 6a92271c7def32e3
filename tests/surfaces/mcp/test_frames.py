"""Frames that no client sends: every one is answered, none breaks the server, none runs a tool it does not name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.surfaces.mcp.transport.wire import MAX_BATCH, RpcBatch, RpcMessage, WireError, parse
from tests.support.properties import examples

leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
methods = st.sampled_from(["initialize", "tools/call", "tools/list", "ping", "resources/read", "x"]) | st.text(
    max_size=12
)
frames = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": values,
        "method": methods | values,
        "params": values,
        "result": values,
        "error": values,
        "extra": values,
    },
)


@given(st.binary(max_size=200))
@examples(150)
def test_any_bytes_are_a_message_or_a_wire_error(raw: bytes) -> None:
    try:
        assert isinstance(parse(raw), RpcMessage | RpcBatch)
    except WireError as error:
        assert error.code in (-32700, -32600, -32602)


@given(frames)
@examples(150)
def test_any_frame_is_a_message_with_sound_parts_or_a_wire_error(frame: dict[str, Any]) -> None:
    try:
        message = parse(json.dumps(frame).encode())
    except WireError:
        return
    assert frame["jsonrpc"] == "2.0" and isinstance(message, RpcMessage)
    if message.kind == "reply":
        assert isinstance(message.id, str | int)
        assert "method" not in frame
    else:
        assert isinstance(message.method, str)
        assert message.params is None or isinstance(message.params, dict)
        assert (message.id is None) is (message.kind == "notification")


@given(st.lists(frames | values, min_size=1, max_size=5))
@examples(100)
def test_any_batch_has_a_message_or_what_is_wrong_with_it_for_each_item(batch: list[Any]) -> None:
    found = parse(json.dumps(batch).encode())
    assert isinstance(found, RpcBatch) and len(found.messages) == len(batch)
    assert all(isinstance(each, RpcMessage | WireError) for each in found.messages)


@pytest.mark.parametrize("raw", [b"[]", b"[" + b",".join([b"{}"] * (MAX_BATCH + 1)) + b"]"])
def test_an_empty_or_endless_batch_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError, match=r"(?i)batch"):
        parse(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
        b'{"jsonrpc":"2.0","id":1}',
        b"[" * 100_000,
        b'{"a":' * 5_000,
    ],
)
def test_what_reads_two_ways_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError):
        parse(raw)
