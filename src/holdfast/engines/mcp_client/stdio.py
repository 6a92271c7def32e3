"""Owns a connection to an MCP server over the streams of a program that we run."""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson

from holdfast import __version__
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.mcp_client.base import (
    CallRefused,
    CallResult,
    ServerDescription,
    ServerFailed,
    TellProgress,
)
from holdfast.engines.mcp_client.gate import MAX_FRAME_BYTES, Frame, FrameGate, RefusedLine, clear
from holdfast.engines.mcp_client.listing import call_result, list_tools
from holdfast.engines.runtime.base import Running, RunSpec, Runtime, hide

ToolsChanged = Callable[[], Awaitable[None]]

HANDSHAKE_PROTOCOLS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS_PROTOCOL = "2026-07-28"
_METHOD_UNKNOWN = -32601
_READ_BYTES = 262_144
_MOST_WAITING_BYTES = 4 << 20
_MOST_UNASKED = 10_000
_MOST_CHATTER = 1_000
_MOST_DECLINED = 20
_LAST_WORDS = 600
_REMEMBERED_IDS = 256
_END_SECONDS = 2.0

_FRAMES = re.compile(r"^ +at .*\n|^ +File \".*\", line \d.*\n(?: {4}.*\n)*", re.MULTILINE)

_log = logging.getLogger(__name__)


async def open_stdio(
    runtime: Runtime,
    spec: RunSpec,
    *,
    tools_changed: ToolsChanged | None = None,
    start_seconds: float = 60.0,
    answer_seconds: float | None = None,
    max_frame_bytes: int = MAX_FRAME_BYTES,
) -> "StdioConnection":
    """Start a server and greet it; ServerFailed, with its last words, where that comes to nothing."""
    running = await runtime.start(spec)
    connection = StdioConnection(
        spec.name,
        running,
        secrets=spec.secrets,
        tools_changed=tools_changed,
        answer_seconds=answer_seconds,
        max_frame_bytes=max_frame_bytes,
    )
    try:
        async with asyncio.timeout(start_seconds):
            await connection.greet()
    except TimeoutError:
        await connection.close()
        raise ServerFailed(
            f"{spec.name} did not answer within {start_seconds:g} seconds of its start.{connection.last_words()}"
        ) from None
    except BaseException:
        await connection.close()
        raise
    return connection


class StdioConnection:
    """Speaks newline-separated JSON-RPC with one server, for several callers at once."""

    def __init__(
        self,
        name: str,
        running: Running,
        *,
        secrets: frozenset[str] = frozenset(),
        tools_changed: ToolsChanged | None = None,
        answer_seconds: float | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self._name = name
        self._running = running
        self._secrets = secrets
        self._tools_changed = tools_changed
        self._answer_seconds = answer_seconds
        self._gate = FrameGate(max_frame_bytes)
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._progress: dict[int, TellProgress] = {}
        self._given_up: deque[int] = deque(maxlen=_REMEMBERED_IDS)
        self._chatter: deque[str] = deque(maxlen=50)
        self._unasked = 0
        self._chattered = 0
        self._declined: set[str] = set()
        self._problem: ServerFailed | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._protocol = ""
        self._server_info: Mapping[str, Any] = {}
        self._reading = asyncio.create_task(self._read())

    @property
    def closed(self) -> bool:
        return self._problem is not None

    @property
    def protocol(self) -> str:
        """The revision that both sides speak."""
        return self._protocol

    def logs(self) -> str:
        return "\n".join(part for part in (self._running.stderr_tail(), *self._chatter) if part)

    def last_words(self) -> str:
        """The end of its log, as the end of a sentence; nothing where it said nothing."""
        # What went wrong stands before the frames of JavaScript and after those of Python.
        said = _FRAMES.sub("", f"{self.logs()}\n")[-_LAST_WORDS:].strip()
        return f" Its last words: {said}" if said else ""

    async def greet(self) -> None:
        """Agree on a revision of the protocol."""
        hello = {
            "protocolVersion": HANDSHAKE_PROTOCOLS[0],
            "capabilities": {},
            "clientInfo": {"name": "holdfast", "version": __version__},
        }
        try:
            answer = await self._request("initialize", hello, seconds=None)
        except CallRefused as refused:
            if refused.rpc_code != _METHOD_UNKNOWN:
                raise ServerFailed(f"{self._name} refused to begin: {refused.message}{self.last_words()}") from None
            await self._discover()
            return
        self._protocol = str(answer.get("protocolVersion", ""))
        if self._protocol not in HANDSHAKE_PROTOCOLS:
            raise ServerFailed(f"{self._name} speaks revision {self._protocol[:40]!r} of MCP, which is unknown here.")
        self._server_info = _object(answer.get("serverInfo"))
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def describe(self) -> ServerDescription:
        try:
            tools = await list_tools(
                self._name, lambda params: self._request("tools/list", params, seconds=self._answer_seconds)
            )
        except ServerFailed as problem:
            if problem is not self._problem:
                self._note(problem.message)
            raise
        return ServerDescription(self._server_info, self._protocol, tools)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: TellProgress | None = None
    ) -> CallResult:
        params = {"name": tool, "arguments": dict(arguments)}
        answer = await self._request("tools/call", params, progress, seconds=self._answer_seconds)
        return call_result(self._name, answer)

    async def close(self) -> None:
        self._fail(ServerFailed(f"{self._name} was stopped."), expected=True)
        await self._running.stop()
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    async def _discover(self) -> None:
        """The newer revision has no greeting: a server is asked what it is, and every request says who asks."""
        self._protocol = STATELESS_PROTOCOL
        answer = await self._request("server/discover", {}, seconds=None)
        if STATELESS_PROTOCOL not in (answer.get("supportedVersions") or ()):
            raise ServerFailed(f"{self._name} speaks no revision of MCP that is known here.")
        self._server_info = _object(answer.get("serverInfo"))

    async def _request(
        self,
        method: str,
        params: dict[str, Any],
        progress: TellProgress | None = None,
        *,
        seconds: float | None,
    ) -> dict[str, Any]:
        if self._problem is not None:
            raise self._problem
        self._next_id += 1
        id = self._next_id
        meta: dict[str, Any] = {}
        if progress is not None:
            meta["progressToken"] = id
            self._progress[id] = progress
        if self._protocol == STATELESS_PROTOCOL:
            meta |= {
                "io.modelcontextprotocol/protocolVersion": STATELESS_PROTOCOL,
                "io.modelcontextprotocol/clientInfo": {"name": "holdfast", "version": __version__},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        if meta:
            params = {**params, "_meta": meta}
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answered
        try:
            self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            async with asyncio.timeout(seconds):
                return await self._outcome(method, answered)
        except TimeoutError:
            self._give_up(id, "it took too long")
            raise ServerFailed(f"{self._name} did not answer {method} within {seconds:g} seconds.") from None
        except asyncio.CancelledError:
            self._give_up(id, "the caller gave up")
            raise
        finally:
            self._waiting.pop(id, None)
            self._progress.pop(id, None)

    async def _outcome(self, method: str, answered: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        message = await answered
        if "error" in message:
            error = message["error"]
            code = error.get("code")
            text = str(error.get("message") or "no reason given")[:2_000]
            raise CallRefused(
                f"{self._name} refused {method}: {text}", code if isinstance(code, int) else 0, error.get("data")
            )
        result: dict[str, Any] = message["result"]
        return result

    def _give_up(self, id: int, reason: str) -> None:
        self._given_up.append(id)
        if self._problem is None:
            params = {"requestId": id, "reason": reason}
            self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            line = clear(orjson.dumps(message)) + b"\n"
        except TypeError as problem:
            raise Invalid(
                f"The arguments can't be written as JSON: {problem}.", fields=[FieldError("arguments", str(problem))]
            ) from None
        writer = self._running.stdin
        if writer.transport.get_write_buffer_size() > _MOST_WAITING_BYTES:
            self._fail(ServerFailed(f"{self._name} does not read what it is sent.{self.last_words()}"))
        if self._problem is not None:
            raise self._problem
        writer.write(line)

    async def _read(self) -> None:
        try:
            while data := await self._running.stdout.read(_READ_BYTES):
                for found in self._gate.feed(data):
                    if isinstance(found, Frame):
                        self._take(found)
                    else:
                        self._refuse(found)
                if self._problem is not None:
                    break
            else:
                half = self._gate.finish()
                # Whoever closes its output ends in the same moment, and then by itself.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_END_SECONDS):
                        await self._running.wait()
                if half is not None:
                    self._refuse(half)
        except ServerFailed as problem:
            self._fail(problem)
        except OSError as problem:
            self._fail(ServerFailed(f"{self._name} can't be read any more: {problem}."))
        # A server that is silent for good, or breaks the protocol, serves nobody; what is left of it goes.
        ending = await self._running.stop(0)
        self._fail(ServerFailed(f"{self._name} ended. {ending.said}{self.last_words()}"))

    def _take(self, frame: Frame) -> None:
        message = frame.message
        if frame.kind == "response":
            self._answer(message)
            return
        self._unasked += 1
        if self._unasked > _MOST_UNASKED:
            raise ServerFailed(f"{self._name} sent {_MOST_UNASKED:,} messages that nobody asked for; it was stopped.")
        if frame.kind == "request":
            self._decline(message)
            return
        params = message.get("params", {})
        if message["method"] == "notifications/progress":
            self._tell(params)
        elif message["method"] == "notifications/tools/list_changed" and self._tools_changed is not None:
            self._run(self._tools_changed())

    def _answer(self, message: dict[str, Any]) -> None:
        answered = self._waiting.get(message["id"]) if isinstance(message["id"], int) else None
        if answered is not None and not answered.done():
            self._unasked = 0
            answered.set_result(message)
        elif answered is not None and answered.cancelled():
            # Its caller gives up in this very moment, and has not had the turn to say so.
            return
        elif message["id"] not in self._given_up:
            self._unasked += 100
            _log.warning("%s answered a request that was never made (id %.40r)", self._name, message["id"])
            if self._unasked > _MOST_UNASKED:
                raise ServerFailed(f"{self._name} goes on answering requests that were never made; it was stopped.")

    def _decline(self, message: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "ping":
            self._send(answer | {"result": {}})
            return
        method = message["method"][:100]
        if method not in self._declined and len(self._declined) < _MOST_DECLINED:
            self._declined.add(method)
            self._note(f"{self._name} was declined {method}, which it has no right to ask for.")
        error = {"code": _METHOD_UNKNOWN, "message": f"{method} is not offered here; no such capability was announced"}
        self._send(answer | {"error": error})

    def _tell(self, params: dict[str, Any]) -> None:
        token, done, total = params.get("progressToken"), params.get("progress"), params.get("total")
        tell = self._progress.get(token) if isinstance(token, int) else None
        if tell is None or not isinstance(done, int | float):
            return
        of = float(total) if isinstance(total, int | float) else None
        self._run(tell(float(done), of, str(params.get("message") or "")[:1_000]))

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._telling.add(task)
        task.add_done_callback(self._told)

    def _told(self, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.error("telling what %s reported failed", self._name, exc_info=problem)

    def _refuse(self, refusal: RefusedLine) -> None:
        shown = hide(refusal.line.decode("utf-8", "replace"), self._secrets)
        if refusal.is_message:
            raise ServerFailed(f"{self._name} broke the protocol: {refusal.why}. It was stopped.{self.last_words()}")
        # Servers greet people on stdout; that is noise, up to a point.
        self._chattered += 1
        self._chatter.append(shown)
        if self._chattered > _MOST_CHATTER:
            raise ServerFailed(f"{self._name} prints text where only messages belong; it was stopped. It said: {shown}")

    def _note(self, said: str) -> None:
        """For the operator's log, and for whoever reads the server's own."""
        _log.warning("%s", said)
        self._chatter.append(f"[holdfast] {said}")

    def _fail(self, problem: ServerFailed, *, expected: bool = False) -> None:
        if self._problem is not None:
            return
        self._problem = problem
        if not expected:
            self._note(problem.message)
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(problem)
                # Whoever waited may have been cancelled in the same moment.
                answered.exception()


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
