"""Owns one client's conversation with a socket of the gate: MCP over lines of JSON-RPC, and nothing that is not named.

Only what every reader reads the same way comes in, and only tools are served: everything else is refused by default.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from holdfast import __version__
from holdfast.core.errors import HoldfastError
from holdfast.core.text import jsontext
from holdfast.core.tools.gateway import ToolRefused, ToolUnknown
from holdfast.engines.mcp_client.gate import MAX_FRAME_BYTES, Frame, FrameGate, RefusedLine, examine
from holdfast.engines.mcp_client.stdio import HANDSHAKE_PROTOCOLS, STATELESS_PROTOCOL
from holdfast.features.agents.gate.pace import BYTES_PER_COST, CALL_COST, FRAME_COST, SessionPace
from holdfast.features.agents.gate.toolset import Toolset, error_result

MAX_LINE_BYTES = 4 << 20
MOST_AT_ONCE = 32
"""Requests of one client that may be under way."""
MOST_REFUSED = 20
"""Lines that are no messages, after which a client is not listened to any more."""
_READ_BYTES = 65_536
_UNREAD_BYTES = 1 << 20
_READING_SECONDS = 60.0
_GRACE_SECONDS = 2.0
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_PARSE_ERROR, _INVALID_REQUEST, _METHOD_UNKNOWN, _INVALID_PARAMS, _INTERNAL = -32700, -32600, -32601, -32602, -32603
_VERSION_UNSUPPORTED, _BUSY = -32022, -32000

_log = logging.getLogger(__name__)


class _RpcError(Exception):
    """An error of the protocol."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.body: dict[str, Any] = {"code": code, "message": message, **({} if data is None else {"data": data})}


class GateConversation:
    """Serves a toolset to one client until it hangs up, does not read, or sends what is no message too often."""

    def __init__(
        self,
        session_id: str,
        toolset: Toolset,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pace: SessionPace,
    ) -> None:
        self._session_id = session_id
        self._toolset = toolset
        self._reader = reader
        self._writer = writer
        self._pace = pace
        self._gate = FrameGate(MAX_LINE_BYTES)
        self._running: dict[str | int, asyncio.Task[None]] = {}
        self._writing = asyncio.Lock()
        self._refused = 0

    async def run(self) -> None:
        """Serve; returns when it is over and nothing of it runs any more."""
        self._writer.transport.set_write_buffer_limits(high=_UNREAD_BYTES)
        try:
            while data := await self._reader.read(_READ_BYTES):
                await self._pace.spend(len(data) / BYTES_PER_COST)
                for found in self._gate.feed(data):
                    await self._take(found)
            half = self._gate.finish()
            if half is not None:
                await self._refuse(half)
            if self._running:
                # Whoever pipes a request in and closes its end may still read the answer.
                await asyncio.wait(self._running.values(), timeout=_GRACE_SECONDS)
        except (ConnectionError, TimeoutError, _HungUp):
            pass
        finally:
            await self._end()

    async def _end(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._writer.transport.abort()

    async def _take(self, found: Frame | RefusedLine) -> None:
        if isinstance(found, RefusedLine):
            await self._refuse(found)
            return
        message = found.message
        is_call = message.get("method") == "tools/call"
        await self._pace.spend(CALL_COST if is_call else FRAME_COST)
        if found.kind == "notification":
            if message["method"] == "notifications/cancelled":
                self._cancel(message.get("params", {}).get("requestId"))
        elif found.kind == "request":
            await self._begin(message)
        # Answers go unheard: nothing is ever asked of a client.

    async def _begin(self, message: dict[str, Any]) -> None:
        id = message["id"]
        if message["method"] not in ("tools/call", "tools/list"):
            await self._answer(message)
            return
        problem = None
        if id in self._running:
            problem = _RpcError(_INVALID_REQUEST, "A request with this id is under way.")
        elif len(self._running) >= MOST_AT_ONCE:
            problem = _RpcError(_BUSY, f"{MOST_AT_ONCE} requests are under way; wait for one of them.")
        if problem is not None:
            await self._send({"jsonrpc": "2.0", "id": id, "error": problem.body})
            return
        task = asyncio.create_task(self._answer(message))
        self._running[id] = task
        task.add_done_callback(lambda _: self._forget(id, task))

    def _forget(self, id: str | int, task: "asyncio.Task[None]") -> None:
        if self._running.get(id) is task:
            del self._running[id]
        if not task.cancelled() and (problem := task.exception()) is not None:
            if not isinstance(problem, (ConnectionError, TimeoutError, _HungUp)):
                _log.error(
                    "an answer of %s to session %s was lost", self._toolset.name, self._session_id, exc_info=problem
                )
            self._writer.transport.abort()

    def _cancel(self, id: Any) -> None:
        task = self._running.get(id) if isinstance(id, (str, int)) and not isinstance(id, bool) else None
        if task is not None:
            task.cancel()

    async def _answer(self, message: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = await self._result(message["method"], message.get("params", {}))
        except _RpcError as problem:
            answer["error"] = problem.body
        except (ToolUnknown, ToolRefused) as problem:
            answer["error"] = {"code": _INVALID_PARAMS, "message": problem.message, "data": {"code": problem.code}}
        except (ConnectionError, _HungUp):
            raise
        except Exception:
            _log.exception("%s failed for session %s", self._toolset.name, self._session_id)
            answer["error"] = {"code": _INTERNAL, "message": "Something went wrong inside Holdfast; it was logged."}
        await self._send(answer)

    async def _result(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        meta = params.get("_meta", {})
        if not isinstance(meta, dict):
            raise _RpcError(_INVALID_PARAMS, "_meta is not an object.")
        version = meta.get(_VERSION_KEY)
        if method == "initialize":
            return self._introduction(params)
        if version is not None and version != STATELESS_PROTOCOL:
            supported = {"supported": [STATELESS_PROTOCOL], "requested": str(version)[:40]}
            raise _RpcError(_VERSION_UNSUPPORTED, "This revision of MCP is not spoken here.", supported)
        return {**await self._served(method, params, meta), **({} if version is None else {"resultType": "complete"})}

    async def _served(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Mapping[str, Any]:
        # What may be kept for how long is said to whoever speaks the revision that asks for it.
        cached = {"ttlMs": 0, "cacheScope": "private"} if _VERSION_KEY in meta else {}
        if method == "ping":
            return {}
        if method == "server/discover":
            return {**self._description(), "supportedVersions": [STATELESS_PROTOCOL], **cached}
        if method == "tools/list":
            if params.get("cursor") is not None:
                raise _RpcError(_INVALID_PARAMS, "There is one page; leave the cursor out.")
            return {"tools": list(await self._toolset.tools()), **cached}
        if method == "tools/call":
            return await self._call(params, meta)
        # Which, only the agent is told: it may hold anything.
        _log.info("session %s asked %s for a method that is not served", self._session_id, self._toolset.name)
        raise _RpcError(_METHOD_UNKNOWN, f"{method[:100]} is not served here; only tools are.")

    def _introduction(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        spoken = wanted if wanted in HANDSHAKE_PROTOCOLS else HANDSHAKE_PROTOCOLS[0]
        return {**self._description(), "protocolVersion": spoken}

    def _description(self) -> dict[str, Any]:
        said = {"instructions": self._toolset.instructions} if self._toolset.instructions else {}
        info = {"name": self._toolset.name, "version": __version__}
        return {"capabilities": {"tools": {"listChanged": False}}, "serverInfo": info, **said}

    async def _call(self, params: dict[str, Any], meta: dict[str, Any]) -> Mapping[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise _RpcError(_INVALID_PARAMS, "tools/call takes name (text) and arguments (an object).")
        token = meta.get("progressToken")
        told = _Progress(self, token if isinstance(token, (str, int)) and not isinstance(token, bool) else None)
        try:
            return await self._toolset.call(name, arguments or {}, told.tell)
        except (ToolUnknown, ToolRefused):
            raise
        except HoldfastError as problem:
            return error_result(problem)
        finally:
            told.is_over = True

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client something that it did not ask for."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def _refuse(self, refusal: RefusedLine) -> None:
        self._refused += 1
        # The line itself is not logged: what an agent sends may hold anything.
        _log.warning("session %s: a line to %s was refused: %s", self._session_id, self._toolset.name, refusal.why)
        error = {"code": _PARSE_ERROR, "message": f"Refused: {refusal.why}."}
        await self._send({"jsonrpc": "2.0", "id": None, "error": error})
        if self._refused >= MOST_REFUSED:
            _log.warning(
                "session %s: %s hangs up on a client that breaks the protocol", self._session_id, self._toolset.name
            )
            raise _HungUp

    async def _send(self, message: Mapping[str, Any]) -> None:
        line = jsontext.dumps(message)
        passed = examine(line) if len(line) <= MAX_FRAME_BYTES else RefusedLine("it is too long", b"")
        if isinstance(passed, RefusedLine):
            _log.warning(
                "session %s: an answer of %s was refused: %s", self._session_id, self._toolset.name, passed.why
            )
            if "method" in message:
                return
            error = {"code": _INTERNAL, "message": f"The answer cannot be passed on: {passed.why}."}
            passed = examine(jsontext.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}))
            assert isinstance(passed, Frame)
        line = passed.raw + b"\n"
        async with self._writing:
            self._writer.write(line)
            try:
                async with asyncio.timeout(_READING_SECONDS):
                    await self._writer.drain()
            except TimeoutError:
                _log.warning("session %s: a client of %s does not read", self._session_id, self._toolset.name)
                self._writer.transport.abort()
                raise _HungUp from None


class _HungUp(Exception):
    """We hung up."""


class _Progress:
    """Tells the client how far one call is, until it is over."""

    def __init__(self, conversation: GateConversation, token: str | int | None) -> None:
        self._conversation = conversation
        self._token = token
        self.is_over = False

    async def tell(self, done: float, total: float | None, message: str) -> None:
        """Tell it, where it asked to be told."""
        if self._token is None or self.is_over:
            return
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        await self._conversation.notify("notifications/progress", params)
