"""Owns calling a remote server's tool: one POST beside the official client, in the session that it opened.

The official client takes a task, two streams and three models for a call; a call is most of what happens here.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from holdfast import __version__
from holdfast.core.errors import FieldError, HoldfastError, Invalid
from holdfast.engines.fetch.network.url import Url
from holdfast.engines.llm.remote.connection import UpstreamAnswer
from holdfast.engines.mcp_client.base import CallNotTaken, CallRefused, LoginNeeded, ServerFailed, TellProgress
from holdfast.engines.mcp_client.event_streams import Allowance, EventCutter
from holdfast.engines.mcp_client.exchanges import BROKEN, MAX_BYTES, Exchanges
from holdfast.engines.mcp_client.gate import too_heavy
from holdfast.engines.mcp_client.stdio import STATELESS_PROTOCOL, ToolsChanged

_ACCEPTED = {"accept": "application/json, text/event-stream", "user-agent": f"holdfast/{__version__}"}
_METHOD_UNKNOWN = -32601
_MOST_TAKEN_UP = 5
_RETRY_SECONDS = 1.0
_SAID_BYTES = 65_536
_END_SECONDS = 2.0
_TOLD_SECONDS = 10.0
_DRAIN_SECONDS = 0.5
_LINES = 50_000
_MOST_ASKED_BACK = 100

_log = logging.getLogger(__name__)


class SessionLost(ServerFailed):
    """The server has forgotten the session; the next call needs a new one."""


@dataclass(frozen=True, slots=True)
class Session:
    """What the official client agreed on with the server."""

    url: Url
    id: str | None
    protocol: str

    @property
    def is_stateless(self) -> bool:
        return self.protocol == STATELESS_PROTOCOL

    def headers(self) -> dict[str, str]:
        """What each request in it says."""
        kept = {} if self.id is None else {"mcp-session-id": self.id}
        return {"mcp-protocol-version": self.protocol, **kept}


class PostedCalls:
    """The calls of one connection, each an exchange of its own; to be closed."""

    def __init__(self, name: str, exchanges: Exchanges, tools_changed: ToolsChanged | None) -> None:
        self._name = name
        self._exchanges = exchanges
        self._tools_changed = tools_changed
        self._numbers = itertools.count(1)
        self._telling: set[asyncio.Task[None]] = set()

    async def call(
        self, session: Session, tool: str, arguments: Mapping[str, Any], progress: TellProgress | None
    ) -> Mapping[str, Any]:
        """What `tools/call` answered. It is sent once, whatever becomes of it."""
        # Numbers are the official client's in the same session.
        id = f"call-{next(self._numbers)}"
        try:
            return await self._called(session, id, tool, arguments, progress)
        except asyncio.CancelledError:
            # Where there is no session, the end of the exchange says it.
            if not session.is_stateless:
                params = {"requestId": id, "reason": "the caller gave up"}
                self._later(self._told(session, {"method": "notifications/cancelled", "params": params}))
            raise

    async def close(self) -> None:
        """Wait, a moment at most, until the server knows what was given up."""
        if self._telling:
            _, late = await asyncio.wait(self._telling, timeout=_END_SECONDS)
            for task in late:
                task.cancel()

    async def _called(
        self, session: Session, id: str, tool: str, arguments: Mapping[str, Any], progress: TellProgress | None
    ) -> Mapping[str, Any]:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        meta: dict[str, Any] = {} if progress is None else {"progressToken": id}
        headers = {}
        if session.is_stateless:
            meta |= {
                "io.modelcontextprotocol/protocolVersion": session.protocol,
                "io.modelcontextprotocol/clientInfo": {"name": "holdfast", "version": __version__},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            headers = {"mcp-method": "tools/call", "mcp-name": tool}
        if meta:
            params["_meta"] = meta
        try:
            answer = await self._post(session, {"id": id, "method": "tools/call", "params": params}, headers)
        except LoginNeeded as problem:
            raise CallNotTaken(problem.message, problem.url) from None
        kind = _kind(answer)
        if answer.status < 300 and kind == "text/event-stream":
            return await self._followed(session, answer, id, progress)
        try:
            return self._result(await self._document(session, answer, kind), id)
        finally:
            answer.close()

    async def _followed(
        self, session: Session, answer: UpstreamAnswer, id: str, progress: TellProgress | None
    ) -> Mapping[str, Any]:
        """The answer out of a stream of events, taken up again where it broke off and the server can go on."""
        last, pause, asked_back = None, _RETRY_SECONDS, 0
        allowance = Allowance(self._name, lines=_LINES)
        for _ in range(_MOST_TAKEN_UP):
            events, is_over = EventCutter(self._name), False
            try:
                while piece := await answer.read():
                    allowance.take(piece)
                    for event in events.feed(piece):
                        last, pause = event.id or last, event.retry_seconds or pause
                        message = _read(self._name, event.data) if event.data else {}
                        if "method" in message:
                            asked_back += "id" in message
                            if asked_back > _MOST_ASKED_BACK:
                                raise ServerFailed(f"{self._name} goes on asking for what it has no right to.")
                            await self._heard(session, message, id, progress)
                        elif message.get("id") == id:
                            is_over = True
                            return self._result(message, id)
            except BROKEN as problem:
                _log.info("%s broke off a stream: %s", self._name, problem.message)
            finally:
                if is_over:
                    self._later(_drained(answer))
                else:
                    answer.close()
            if last is None:
                break
            await asyncio.sleep(pause)
            answer = await self._exchanges.send(
                "GET", session.url, {**_ACCEPTED, **session.headers(), "last-event-id": last}, b""
            )
            if answer.status != 200 or _kind(answer) != "text/event-stream":
                answer.close()
                break
        raise ServerFailed(f"{self._name} ended its answer before the result came.")

    async def _heard(
        self, session: Session, message: Mapping[str, Any], id: str, progress: TellProgress | None
    ) -> None:
        method, params = message["method"], message.get("params")
        if "id" in message:
            answer: dict[str, Any] = {"id": message["id"]}
            if method == "ping":
                answer["result"] = {}
            else:
                text = f"{str(method)[:100]} is not offered here; no such capability was announced"
                answer["error"] = {"code": _METHOD_UNKNOWN, "message": text}
            self._later(self._told(session, answer))
        elif method == "notifications/progress" and isinstance(params, dict) and params.get("progressToken") == id:
            done, total = params.get("progress"), params.get("total")
            if progress is not None and isinstance(done, int | float):
                of = float(total) if isinstance(total, int | float) else None
                await progress(float(done), of, str(params.get("message") or "")[:1_000])
        elif method == "notifications/tools/list_changed" and self._tools_changed is not None:
            await self._tools_changed()

    async def _document(self, session: Session, answer: UpstreamAnswer, kind: str) -> Mapping[str, Any]:
        if answer.status < 300 and kind != "application/json":
            raise ServerFailed(f"{self._name} answered with {kind or 'nothing'} (status {answer.status}).")
        if answer.status >= 300:
            said = await answer.whole(_SAID_BYTES) if kind == "application/json" else b""
            message = _object(said) if too_heavy(said) is None else {}
            if "error" in message:
                return message
            if answer.status == 404 and session.id is not None:
                raise SessionLost(f"{self._name} ended the session; call again for a new one.")
            raise ServerFailed(f"{self._name} answered with status {answer.status}.")
        try:
            whole = await answer.whole(MAX_BYTES + 1)
        except BROKEN as problem:
            raise ServerFailed(f"{self._name} broke off its answer: {problem.message}") from None
        if len(whole) > MAX_BYTES:
            raise ServerFailed(f"{self._name} answered more than {MAX_BYTES >> 20} MiB.")
        return _read(self._name, whole)

    def _result(self, message: Mapping[str, Any], id: str) -> Mapping[str, Any]:
        error, result = message.get("error"), message.get("result")
        if isinstance(error, dict):
            code, text = error.get("code"), str(error.get("message") or "no reason given")[:2_000]
            raise CallRefused(f"{self._name} refused: {text}", code if isinstance(code, int) else 0, error.get("data"))
        if not isinstance(result, dict) or message.get("id") != id:
            raise ServerFailed(f"{self._name} answered with something else than the result of the call.")
        return result

    async def _told(self, session: Session, message: Mapping[str, Any]) -> None:
        """Send what nobody waits for; a server that does not take it is told nothing else."""
        try:
            async with asyncio.timeout(_TOLD_SECONDS):
                (await self._post(session, message, {})).close()
        except (HoldfastError, TimeoutError):
            return

    async def _post(self, session: Session, message: Mapping[str, Any], headers: Mapping[str, str]) -> UpstreamAnswer:
        try:
            body = orjson.dumps({"jsonrpc": "2.0", **message})
        except TypeError as problem:
            raise Invalid(
                f"The arguments can't be written as JSON: {problem}.", fields=[FieldError("arguments", str(problem))]
            ) from None
        said = {**_ACCEPTED, "content-type": "application/json", **session.headers(), **headers}
        return await self._exchanges.send("POST", session.url, said, body)

    def _later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


async def _drained(answer: UpstreamAnswer) -> None:
    """Keep the connection where the answer ends in a moment, as it does when the result was the last event."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while await answer.read():
                continue
    except (TimeoutError, *BROKEN):
        return
    finally:
        answer.close()


def _read(name: str, data: bytes) -> dict[str, Any]:
    if (why := too_heavy(data)) is not None:
        raise ServerFailed(f"{name} sent a message that is not read: {why}.")
    message = _object(data)
    if not message:
        raise ServerFailed(f"{name} sent something that is no message of the protocol.")
    return message


def _object(data: bytes) -> dict[str, Any]:
    try:
        message = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return message if isinstance(message, dict) else {}


def _kind(answer: UpstreamAnswer) -> str:
    return (answer.header(b"content-type") or b"").partition(b";")[0].strip().lower().decode("latin-1")
