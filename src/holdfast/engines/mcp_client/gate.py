"""Owns what may pass between a caller and an MCP server: only messages that every reader reads the same way.

`{"method":"ping","params":\\r{…tools/call…}\\r}` is a ping to a JSON parser, and a tool call to a reader that also ends
lines at a carriage return. What two readers could take for two things is refused here, in both directions.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import orjson

MAX_FRAME_BYTES = 16 << 20
_MAX_DEPTH = 100
_MAX_VALUES = 200_000
"""A value takes a hundred bytes when it is parsed, and two in a message."""
_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_MAX_ID = 1 << 53
_BLANK = b" \t\r"
# Legal inside a JSON string, and the end of a line to Python's `splitlines`, Unicode and old JavaScript. Characters
# beyond ASCII stand only inside strings, so that writing them as escapes changes nothing else.
_LINE_ENDS = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")
_ESCAPED = {b"\xc2\x85": b"\\u0085", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NOT_BRACKETS = re.compile(rb"[^\[\]{}]+")

Kind = Literal["request", "notification", "response"]


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: the bytes to forward, without the line's end, and what they say."""

    raw: bytes
    message: dict[str, Any]
    kind: Kind


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that was not let through, and why; `is_message` unless it is mere chatter that nobody would parse."""

    why: str
    line: bytes
    """Its beginning."""
    is_message: bool = True


class _Unclear(Exception):
    """The text can be read in more than one way, or in none."""


class FrameGate:
    """Cuts a stream of bytes into messages; holds at most one line, and of one that is too long nothing."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._held = 0
        self._is_skipping = False

    def feed(self, data: bytes) -> Iterator[Frame | RefusedLine]:
        """What the next bytes complete."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._is_skipping:
                self._is_skipping = False
                continue
            if self._held + len(line) > self._max_bytes:
                yield self._too_long(line)
                continue
            whole = b"".join((*self._pieces, line))
            self._pieces.clear()
            self._held = 0
            if whole.strip(_BLANK):
                yield examine(whole)
        if self._is_skipping or not rest:
            return
        if self._held + len(rest) > self._max_bytes:
            yield self._too_long(rest)
            self._is_skipping = True
            return
        self._pieces.append(rest)
        self._held += len(rest)

    def finish(self) -> RefusedLine | None:
        """What is left when the stream ends: half a message is none."""
        left = b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        return RefusedLine("it ended in the middle of a message", left[:200]) if left.strip(_BLANK) else None

    def _too_long(self, line: bytes) -> RefusedLine:
        beginning = b"".join((*self._pieces, line[:200]))[:200]
        self._pieces.clear()
        self._held = 0
        return RefusedLine(f"a message is longer than {self._max_bytes:,} bytes", beginning)


def examine(line: bytes) -> Frame | RefusedLine:
    """One line without its end: the message that it is to every reader, or why it is none."""
    # CRLF ends a line as LF does; any other carriage return ends one only for some.
    body = line.removesuffix(b"\r")
    try:
        if b"\r" in body:
            raise _Unclear("a carriage return stands inside a message")
        message = _parse(body)
        kind = _kind(message)
    except _Unclear as problem:
        return RefusedLine(str(problem), line[:200], is_message=body.lstrip(b" \t\xef\xbb\xbf")[:1] in (b"{", b"["))
    return Frame(clear(body), message, kind)


def read_object(line: bytes) -> dict[str, Any] | RefusedLine:
    """One line without its end as the JSON object that it is to every reader, whatever protocol it belongs to."""
    body = line.removesuffix(b"\r")
    try:
        return _parse(body)
    except _Unclear as problem:
        return RefusedLine(str(problem), line[:200], is_message=body.lstrip(b" \t\xef\xbb\xbf")[:1] == b"{")


def too_heavy(body: bytes) -> str | None:
    """Why JSON should not even be parsed: it would take much memory, or recursion, to hold. None where it may be."""
    try:
        _check_size(body)
    except _Unclear as problem:
        return str(problem)
    return None


def clear(body: bytes) -> bytes:
    """The same JSON on one line, whatever a reader takes for the end of a line."""
    return _LINE_ENDS.sub(lambda found: _ESCAPED[found[0]], body)


def _parse(body: bytes) -> dict[str, Any]:
    _check_size(body)
    try:
        # The stricter reader first: UTF-8, no mark at the beginning, no NaN, no infinity, no half characters.
        orjson.loads(body)
        message = _DECODER.decode(body.decode())
    except orjson.JSONDecodeError as problem:
        raise _Unclear(f"it is not JSON: {problem.msg}") from None
    except (ValueError, RecursionError) as problem:
        raise _Unclear(f"it is not JSON that everybody reads: {problem}") from None
    if isinstance(message, list):
        raise _Unclear("it is a batch")
    if not isinstance(message, dict):
        raise _Unclear("it is not an object")
    return message


def _check_size(body: bytes) -> None:
    """Refuse, before anything is built of it, what would take much memory or recursion to hold."""
    brackets = body.count(b"[") + body.count(b"{")
    if brackets <= _MAX_DEPTH and body.count(b",") <= _MAX_VALUES:
        return
    # Quotes inside strings are escaped; this counts too few of them at most.
    if body.count(b'"') - body.count(b'\\"') > 4 * _MAX_VALUES:
        raise _Unclear(f"it has more than {_MAX_VALUES:,} values")
    outside = _STRINGS.sub(b"", body)
    if outside.count(b",") + outside.count(b"[") + outside.count(b"{") > _MAX_VALUES:
        raise _Unclear(f"it has more than {_MAX_VALUES:,} values")
    if outside.count(b"[") + outside.count(b"{") > _MAX_DEPTH and _is_deep(outside):
        raise _Unclear(f"it is nested more than {_MAX_DEPTH} deep")


def _is_deep(outside: bytes) -> bool:
    brackets = _NOT_BRACKETS.sub(b"", outside)
    for _ in range(_MAX_DEPTH):
        fewer = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    # What is left is deeper, or not balanced, which the parser will say.
    return bool(brackets)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Unclear("a member stands twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise _Unclear(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _kind(message: dict[str, Any]) -> Kind:
    if message.get("jsonrpc") != "2.0":
        raise _Unclear('it does not say "jsonrpc": "2.0"')
    strange = message.keys() - _MEMBERS
    if strange:
        raise _Unclear(f"it has a member that JSON-RPC does not know: {sorted(strange)[0][:40]!r}")
    if "id" in message:
        _check_id(message["id"], may_be_null="error" in message and "method" not in message)
    if "method" in message:
        if message.keys() & {"result", "error"}:
            raise _Unclear("it is a request and an answer at once")
        if not isinstance(message["method"], str) or not isinstance(message.get("params", {}), dict):
            raise _Unclear("its method is not text, or its params are not an object")
        return "request" if "id" in message else "notification"
    if "params" in message or "id" not in message or ("result" in message) == ("error" in message):
        raise _Unclear("it is neither a request nor an answer")
    if not isinstance(message.get("result", message.get("error")), dict):
        raise _Unclear("its result or error is not an object")
    return "response"


def _check_id(id: Any, *, may_be_null: bool) -> None:
    if id is None and may_be_null:
        return
    if isinstance(id, str) and len(id) <= 256:
        return
    # True is 1 and 1.0 is 1 to some, and beyond 2^53 neighbours are one number.
    if isinstance(id, int) and not isinstance(id, bool) and abs(id) < _MAX_ID:
        return
    raise _Unclear("its id is neither a whole number nor a short text")
