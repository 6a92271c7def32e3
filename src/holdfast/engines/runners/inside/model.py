"""Owns asking the model: one streaming request of Chat Completions over the sandbox's loopback, and what came of it.

The peer is Holdfast itself, so a few lines of HTTP are enough, and start ten times faster than the library's.
"""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from holdfast.engines.runners.inside.stopping import Stopping

_TRIES = 4
_MOST_WAIT_SECONDS = 30.0
_MOST_LINE = 16 << 20
_MOST_CALLS = 64
_AGAIN = (408, 429, 500, 502, 503, 504, 529)


class ModelFailed(Exception):
    """The model gave no answer; the text says why."""


class _TryAgain(Exception):
    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class ModelTurn:
    """What the model said: text, calls, and why it stopped."""

    def __init__(self) -> None:
        self.text = ""
        self.refusal = ""
        self.calls: list[dict[str, Any]] = []
        self.finish = ""


class AskedModel:
    """The model behind one URL."""

    def __init__(self, url: str, key: str, name: str, stopping: Stopping) -> None:
        rest = url.removeprefix("http://")
        place, _, path = rest.partition("/")
        host, _, port = place.partition(":")
        self._place = host, int(port or 80)
        self._path = f"/{path.rstrip('/')}/v1/chat/completions".replace("//", "/")
        self._key = key
        self._name = name
        self._stopping = stopping

    def ask(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        said: Callable[[str], None],
        thought: Callable[[str], None],
    ) -> ModelTurn:
        """One answer; its text is told as it comes. Interrupted breaks it off."""
        body = {"model": self._name, "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
        if tools:
            body["tools"] = tools
        data = json.dumps(body).encode()
        for attempt in range(_TRIES):
            answer = ModelTurn()
            try:
                self._ask(data, answer, said, thought)
            except (_TryAgain, OSError, ValueError) as problem:
                self._stopping.check()
                # What was told can't be taken back, so it is not asked for a second time.
                if attempt == _TRIES - 1 or answer.text:
                    raise ModelFailed(str(problem)) from None
                after = problem.after if isinstance(problem, _TryAgain) else None
                self._stopping.pause(min(_MOST_WAIT_SECONDS, 2.0**attempt / 2 if after is None else after))
            else:
                return answer
        raise AssertionError

    def _ask(self, data: bytes, answer: ModelTurn, said: Callable[[str], None], thought: Callable[[str], None]) -> None:
        with socket.create_connection(self._place) as connection, self._stopping.breaking(lambda: _close(connection)):
            head = (
                f"POST {self._path} HTTP/1.1\r\nHost: {self._place[0]}:{self._place[1]}\r\n"
                f"Authorization: Bearer {self._key}\r\nContent-Type: application/json\r\n"
                f"Accept: text/event-stream\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
            )
            connection.sendall(head.encode() + data)
            with connection.makefile("rb") as stream:
                status, headers = _head(stream)
                lines = _lines(_body(stream, headers))
                if status != 200:
                    _refused(status, headers, b"".join(lines))
                _read_events(lines, answer, said, thought)
        self._stopping.check()


def _close(connection: socket.socket) -> None:
    # Closing alone does not wake whoever reads.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _head(stream: Any) -> tuple[int, dict[str, str]]:
    first = stream.readline(65_536).split()
    if len(first) < 2 or not first[1].isdigit():
        raise _TryAgain("the model's server hung up")
    headers: dict[str, str] = {}
    while (line := stream.readline(65_536).strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(first[1]), headers


def _body(stream: Any, headers: dict[str, str]) -> Iterator[bytes]:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        left = int(headers.get("content-length", 1 << 62))
        while left > 0 and (piece := stream.read1(min(left, 65_536))):
            left -= len(piece)
            yield piece
        return
    while size := int(stream.readline(1_024).split(b";")[0] or b"x", 16):
        left = size
        while left > 0:
            piece = stream.read(min(left, 65_536))
            if not piece:
                raise _TryAgain("the model's server hung up in the middle of its answer")
            left -= len(piece)
            yield piece
        stream.readline(2)


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held = b""
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        yield from lines
        if len(held) > _MOST_LINE:
            raise ModelFailed("a line of the model's answer is too long")
    yield held


def _refused(status: int, headers: dict[str, str], body: bytes) -> None:
    try:
        error = json.loads(body)["error"]
        why = str(error.get("message") if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        why = body.decode("utf-8", "replace")
    why = f"the model's server answered {status}: {why[:2_000]}"
    if status not in _AGAIN:
        raise ModelFailed(why)
    after = headers.get("retry-after", "")
    raise _TryAgain(why, float(after) if after.isdigit() else None)


def _read_events(
    lines: Iterator[bytes], answer: ModelTurn, said: Callable[[str], None], thought: Callable[[str], None]
) -> None:
    for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            break
        event = json.loads(data)
        if event.get("error"):
            error = event["error"]
            raise ModelFailed(str(error.get("message") if isinstance(error, dict) else error)[:2_000])
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            answer.finish = choice.get("finish_reason") or answer.finish
            answer.refusal += delta.get("refusal") or ""
            if delta.get("reasoning_content"):
                thought(delta["reasoning_content"])
            if delta.get("content"):
                answer.text += delta["content"]
                said(delta["content"])
            for part in delta.get("tool_calls") or ():
                _add(answer.calls, part)
    if not answer.finish:
        raise _TryAgain("the model's answer ended in the middle")


def _add(calls: list[dict[str, Any]], part: dict[str, Any]) -> None:
    function = part.get("function") or {}
    index = part.get("index")
    if not isinstance(index, int):
        # Some servers send a call whole and do not number it.
        index = len(calls) if part.get("id") else max(0, len(calls) - 1)
    if index >= _MOST_CALLS:
        raise ModelFailed(f"the model made more than {_MOST_CALLS} calls at once")
    while len(calls) <= index:
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call = calls[index]
    call["id"] = part.get("id") or call["id"] or f"call_{index}"
    call["function"]["name"] = function.get("name") or call["function"]["name"]
    call["function"]["arguments"] += function.get("arguments") or ""
