"""An OpenAI-compatible server that replays scripted turns, refuses what OpenAI would refuse, and can misbehave."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
KEY = "sk-fake-upstream-key"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROLES = {"system", "developer", "user", "assistant", "tool"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@dataclass
class Turn:
    """One answer. Of the misbehaviours at most one is set."""

    content: str = ""
    calls: Sequence[Json] = ()
    pieces: int = 3
    """How many chunks the content and each call's arguments are cut into; 0 sends calls whole and without index."""
    finish_reason: str | None = None
    usage: Json | None = field(default_factory=lambda: dict(USAGE))
    chunks: list[Json] | None = None
    """Exactly these chunks instead of made ones."""
    extra: Json = field(default_factory=dict)
    """Unknown fields for every chunk."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Json | None = None
    """An answer that is not a stream."""
    raw: bytes | None = None
    """Bytes to write as the whole HTTP answer; with `silent` nothing more comes and the connection stays open."""
    silent: bool = False
    """Half-open: the request is taken and never answered."""
    cut_after: int | None = None
    """Abort the connection after so many chunks."""
    end_after: int | None = None
    """End the stream properly, but without a finish reason or [DONE], after so many chunks."""
    stall_after: int | None = None
    """Send so many chunks, then nothing until the client goes, or until `go_on` where that is set."""
    go_on: asyncio.Event | None = None
    drip: bool = False
    """Send a line that never ends, byte by byte."""
    done: bool = True
    """Whether [DONE] is said."""

    def made(self) -> list[Json]:
        """The chunks of the answer."""
        if self.chunks is not None:
            return self.chunks
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in _cut(self.content, self.pieces or 1)]
        for index, call in enumerate(self.calls):
            function = call["function"]
            if not self.pieces:
                deltas.append({"tool_calls": [call]})
                continue
            head = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
            deltas.append({"tool_calls": [head]})
            for piece in _cut(function["arguments"], self.pieces):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        made = [self._chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
        reason = self.finish_reason or ("tool_calls" if self.calls else "stop")
        made.append(self._chunk([{"index": 0, "delta": {}, "finish_reason": reason}]))
        if self.usage is not None:
            made.append({**self._chunk([]), "usage": self.usage})
        return made

    def whole(self) -> Json:
        """The answer when it is not streamed."""
        message: Json = {"role": "assistant", "content": self.content or None}
        if self.calls:
            message["tool_calls"] = list(self.calls)
        reason = self.finish_reason or ("tool_calls" if self.calls else "stop")
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        return {**self._chunk(choices), "object": "chat.completion", "usage": self.usage}

    def _chunk(self, choices: list[Json]) -> Json:
        return {
            "id": "chatcmpl-fake",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "fake-model",
            "choices": choices,
            **self.extra,
        }


def says(content: str, **more: Any) -> Turn:
    """A turn that answers with text."""
    return Turn(content=content, **more)


def calls(*wanted: tuple[str, Any], **more: Any) -> Turn:
    """A turn that calls tools; arguments that are text are sent as they are."""
    made = []
    for number, (name, arguments) in enumerate(wanted, 1):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        made.append({"id": f"call_{name}_{number}", "type": "function", "function": {"name": name, "arguments": text}})
    return Turn(calls=made, **more)


@dataclass
class FakeModel:
    """What was asked of it, and what it will answer next; after the script it repeats `otherwise`."""

    url: str = ""
    script: list[Turn] = field(default_factory=list)
    otherwise: Turn = field(default_factory=lambda: says("Nothing was scripted."))
    requests: list[Json] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    connections: int = 0
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client went away in the middle of an answer."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    choose: Callable[[Json], Turn] | None = None
    """Answers by what was asked, instead of the script."""
    close_each: bool = False
    """Close the connection after each answer without saying so before."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer) and not self.close_each:
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            with contextlib.suppress(ConnectionError, RuntimeError):
                writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        self.paths.append(f"{method} {path}")
        self.headers.append(headers)
        body = json.loads(raw) if raw else {}
        self.requests.append(body)
        self.asked.set()
        problem = self._refusal(path, headers, body)
        if problem:
            self.refused.append(problem)
            error = {"error": {"message": problem, "type": "invalid_request_error", "param": None, "code": None}}
            _write(writer, 400, error, {})
            return True
        turn = self.choose(body) if self.choose else self.script.pop(0) if self.script else self.otherwise
        return await self._answer(turn, body, reader, writer)

    def _refusal(self, path: str, headers: dict[str, str], body: Json) -> str:
        if headers.get("authorization") != f"Bearer {KEY}":
            return "Incorrect API key provided."
        try:
            return check(body) if path.endswith("/chat/completions") else ""
        except (AttributeError, TypeError) as problem:
            return f"Malformed request: {problem}"

    async def _answer(self, turn: Turn, body: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if turn.raw is not None:
            writer.write(turn.raw)
            await writer.drain()
        if turn.silent:
            await self._until_gone(reader)
        if turn.silent or turn.raw is not None:
            return False
        if turn.status != 200 or turn.body is not None:
            _write(writer, turn.status, turn.body or {"error": {"message": "scripted", "type": "x"}}, turn.headers)
            return True
        if not body.get("stream"):
            _write(writer, 200, turn.whole(), turn.headers)
            return True
        return await self._stream(turn, reader, writer)

    async def _stream(self, turn: Turn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        more = "".join(f"{name}: {value}\r\n" for name, value in turn.headers.items())
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n{more}\r\n".encode()
        )
        if turn.drip:
            await self._drip(reader, writer)
            return False
        for count, chunk in enumerate(turn.made()):
            if count == turn.cut_after:
                await writer.drain()
                writer.transport.abort()
                return False
            if count == turn.stall_after and turn.go_on is not None:
                await turn.go_on.wait()
            elif count == turn.stall_after:
                await self._until_gone(reader)
                return False
            if count == turn.end_after:
                break
            _piece(writer, f"data: {json.dumps(chunk)}\n\n".encode())
            await writer.drain()
        else:
            if turn.done:
                _piece(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _drip(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = asyncio.create_task(self._until_gone(reader))
        while not gone.done():
            _piece(writer, b" ")
            await asyncio.wait({gone}, timeout=0.01)

    async def _until_gone(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        self.hung_up.set()


@asynccontextmanager
async def model(*script: Turn) -> AsyncIterator[FakeModel]:
    """A fake upstream on a port of its own; its `url` is the base URL."""
    made = FakeModel(script=list(script))
    serving: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        # The server's own callback would log a cancelled handler as an error.
        with contextlib.suppress(asyncio.CancelledError):
            await made.serve(reader, writer)
        serving.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=16 * 1024 * 1024)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield made
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def check(body: Json) -> str:
    """What OpenAI would refuse a Chat Completions request for; empty for a right one."""
    for name in body:
        if name.startswith("x_") or name == "web_search_options":
            return f"Unrecognized request argument supplied: {name}"
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "you must provide a model parameter"
    if body.get("stream_options") is not None and not body.get("stream"):
        return "stream_options is only allowed when stream is enabled"
    names = set()
    for tool in body.get("tools") or []:
        function = tool.get("function") or {}
        if tool.get("type") != "function" or not _NAME.fullmatch(function.get("name", "")):
            return f"Invalid tool: {tool!r}"
        if function["name"] in names:
            return f"Duplicate tool: {function['name']}"
        names.add(function["name"])
        if function.get("parameters", {"type": "object"}).get("type") != "object":
            return "Invalid schema for function: it must be an object"
    if "tools" in body and not body["tools"]:
        return "[] is too short - 'tools'"
    if body.get("tool_choice") is not None and not body.get("tools"):
        return "'tool_choice' is only allowed when 'tools' are specified"
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("function", {}).get("name") not in names:
        return "tool_choice names an unknown tool"
    return _check_messages(body.get("messages"))


def _check_messages(messages: Any) -> str:
    if not isinstance(messages, list) or not messages:
        return "[] is too short - 'messages'"
    open_calls: set[str] = set()
    for number, message in enumerate(messages):
        role = message.get("role")
        if role not in _ROLES:
            return f"Invalid role at messages.[{number}]"
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                return f"messages.[{number}]: 'tool' must follow the message with its 'tool_calls'"
            if not isinstance(message.get("content"), (str, list)):
                return f"messages.[{number}]: content must be text or parts"
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            return f"An assistant message with 'tool_calls' must be followed by tool messages for {sorted(open_calls)}"
        for call in message.get("tool_calls") or []:
            function = call.get("function") or {}
            if call.get("type") != "function" or not call.get("id") or not _NAME.fullmatch(function.get("name", "")):
                return f"Invalid tool call at messages.[{number}]"
            if not isinstance(function.get("arguments"), str) or set(call) - {"id", "type", "function"}:
                return f"Invalid tool call at messages.[{number}]"
            if call["id"] in open_calls:
                return f"Duplicate tool call id at messages.[{number}]"
            open_calls.add(call["id"])
        if role == "assistant" and message.get("content") is None and not message.get("tool_calls"):
            return f"messages.[{number}]: content or tool_calls is needed"
    return f"Calls without an answer: {sorted(open_calls)}" if open_calls else ""


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _write(writer: asyncio.StreamWriter, status: int, body: Json, headers: dict[str, str]) -> None:
    data = json.dumps(body).encode()
    named = {"content-type": "application/json", "content-length": str(len(data)), **headers}
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in named.items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


def _piece(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n" % len(data) + data + b"\r\n")
