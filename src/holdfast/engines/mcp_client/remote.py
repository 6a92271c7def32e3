"""Owns a connection to a remote MCP server: the official client over Streamable HTTP, by the guarded way out.

It opens, agrees on a revision, lists and listens; tools are called beside it (`posted.py`).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from holdfast import __version__
from holdfast.core.errors import HoldfastError, Invalid, UpstreamFailed
from holdfast.core.text import jsontext
from holdfast.engines.fetch.network.guard import Guard
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.llm.remote.connection import UpstreamAnswer
from holdfast.engines.mcp_client.base import (
    CallRefused,
    CallResult,
    ServedTool,
    ServerDescription,
    ServerFailed,
    TellProgress,
)
from holdfast.engines.mcp_client.event_streams import Allowance, EventCutter
from holdfast.engines.mcp_client.exchanges import CONNECT_SECONDS, MAX_BYTES, SILENT_SECONDS, Exchanges, RemoteAuth
from holdfast.engines.mcp_client.gate import too_heavy
from holdfast.engines.mcp_client.listing import call_result, list_tools
from holdfast.engines.mcp_client.posted import PostedCalls, Session, SessionLost
from holdfast.engines.mcp_client.stdio import ToolsChanged
from holdfast.engines.runtime.base import hide

_LINES = 2_000
"""That the official client is given at once of one stream: it answers each request that a server sends."""
_LOST = ("Session terminated", "Connection closed")
_FRAMING = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding"})
# Of any other name the headers would hold an encoding, which is the client's affair.
_PLAIN_NAME = re.compile(r"[\x21-\x7e]{1,200}")


async def open_remote(
    guard: Guard,
    name: str,
    url: str,
    *,
    headers: Mapping[str, str] = {},
    auth: RemoteAuth | None = None,
    tools_changed: ToolsChanged | None = None,
    start_seconds: float = 60.0,
    answer_seconds: float | None = None,
    secrets: frozenset[str] = frozenset(),
) -> "RemoteConnection":
    """Connect and agree on a revision; LoginNeeded, NotSignedIn or ServerFailed where that comes to nothing."""
    address = parse_url(url)
    if address.place.is_overheard and (headers or auth):
        raise Invalid(f"{name} is at {address.origin}, which is not https; credentials would be read on the way.")
    exchanges = Exchanges(guard, name, address, headers, auth)
    connection = RemoteConnection(name, exchanges, tools_changed, answer_seconds, secrets)
    try:
        async with asyncio.timeout(start_seconds):
            await connection.open(str(address))
    except TimeoutError:
        await connection.close()
        raise ServerFailed(f"{name} did not answer within {start_seconds:g} seconds.") from None
    except BaseException:
        await connection.close()
        raise
    return connection


class GuardedTransport(httpx2.AsyncBaseTransport):
    """httpx2's way to the network, narrowed to what exchanges with this one server allow."""

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges
        self.problem: HoldfastError | None = None
        """Why the last exchange came to nothing, in words that the client's own errors do not have."""
        self.session_id: str | None = None
        """Of the session that the client opened, where the server counts in sessions."""
        self.place = exchanges.url
        """Where the last request was answered: servers send on from `/mcp` to `/mcp/`."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.problem = None
        try:
            url = parse_url(str(request.url))
            body = await request.aread()
            headers = {key.lower(): value for key, value in request.headers.items() if key.lower() not in _FRAMING}
            answer = await self._exchanges.send(request.method, url, headers, body)
        except HoldfastError as problem:
            self.problem = problem
            raise httpx2.ConnectError(problem.message, request=request) from None
        if request.method == "POST" and answer.status < 300:
            self.place = url
        if session := answer.header(b"mcp-session-id"):
            self.session_id = session.decode("latin-1")
        headers_ = [(key, value) for key, value in answer.headers if key != b"content-encoding"]
        return httpx2.Response(
            answer.status, headers=headers_, stream=_Body(self, self._exchanges.name, answer, request), request=request
        )


class _Body(httpx2.AsyncByteStream):
    """An answer's bytes, bounded: events by each, a document as a whole."""

    def __init__(self, transport: GuardedTransport, name: str, answer: UpstreamAnswer, request: httpx2.Request) -> None:
        self._transport = transport
        self._name = name
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        streaming = (self._answer.header(b"content-type") or b"").startswith(b"text/event-stream")
        try:
            if not streaming:
                whole = await self._answer.whole(MAX_BYTES + 1)
                if len(whole) > MAX_BYTES:
                    raise ServerFailed(f"{self._name} answered more than {MAX_BYTES >> 20} MiB.")
                self._check(whole)
                yield whole
                return
            events, allowance = EventCutter(self._name), Allowance(self._name, lines=_LINES)
            while piece := await self._answer.read():
                allowance.take(piece)
                for event in events.feed(piece):
                    self._check(event.data)
                yield piece
        except UpstreamFailed as problem:
            if self._request.method == "POST":
                self._transport.problem = problem
            raise httpx2.ReadError(problem.message, request=self._request) from None

    async def aclose(self) -> None:
        self._answer.close()

    def _check(self, message: bytes) -> None:
        if (why := too_heavy(message)) is not None:
            raise ServerFailed(f"{self._name} sent a message that is not read: {why}.")


class RemoteConnection:
    """One client, owned by a task of its own, used by several callers."""

    def __init__(
        self,
        name: str,
        exchanges: Exchanges,
        tools_changed: ToolsChanged | None,
        answer_seconds: float | None,
        secrets: frozenset[str],
    ) -> None:
        self._name = name
        # Also as they are written in an address.
        self._secrets = secrets | {quote(each, safe="") for each in secrets}
        self._exchanges = exchanges
        self._transport = GuardedTransport(exchanges)
        self._posted = PostedCalls(name, exchanges, tools_changed)
        self._plain: frozenset[str] = frozenset()
        """The tools that are called without anything that only the client knows of them."""
        self._tools_changed = tools_changed
        self._answer_seconds = answer_seconds
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._is_lost = False

    @property
    def closed(self) -> bool:
        return self._client is None or self._is_lost

    def logs(self) -> str:
        return ""

    async def open(self, url: str) -> None:
        """Begin; the client's scopes belong to the task that entered them, so one task enters and leaves."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(url, ready))
        await ready

    async def describe(self) -> ServerDescription:
        client = self._open_client()
        tools = await list_tools(self._name, lambda params: self._answered(self._page(client, params.get("cursor"))))
        self._plain = frozenset(tool.name for tool in tools if _is_plain(tool))
        info = (
            client.server_info.model_dump(mode="json", by_alias=True, exclude_none=True) if client.server_info else {}
        )
        return ServerDescription(info, str(client.protocol_version), tools)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: TellProgress | None = None
    ) -> CallResult:
        client, listener = self._open_client(), progress
        if tool in self._plain:
            session = Session(self._transport.place, self._transport.session_id, str(client.protocol_version))
            return call_result(self._name, await self._answered(self._posted.call(session, tool, arguments, progress)))

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            if listener is not None:
                await listener(progress, total, message or "")

        async def called() -> dict[str, Any]:
            result = await client.session.call_tool(
                tool, dict(arguments), progress_callback=None if progress is None else tell
            )
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)

        return call_result(self._name, await self._answered(called()))

    async def close(self) -> None:
        await self._posted.close()
        self._ending.set()
        self._client = None
        if self._owner is not None:
            _, late = await asyncio.wait({self._owner}, timeout=5)
            for task in late:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await self._exchanges.aclose()

    async def _own(self, url: str, ready: "asyncio.Future[None]") -> None:
        try:
            timeout = httpx2.Timeout(CONNECT_SECONDS, read=SILENT_SECONDS)
            async with httpx2.AsyncClient(transport=self._transport, timeout=timeout) as http:
                streams = streamable_http_client(url, http_client=http, max_sse_event_size=MAX_BYTES)
                information = mcp_types.Implementation(name="holdfast", version=__version__)
                async with Client(streams, mode="auto", client_info=information, message_handler=self._noted) as client:
                    self._client = client
                    ready.set_result(None)
                    await self._ending.wait()
        except Exception as problem:
            if not ready.done():
                ready.set_exception(self._told(problem))
        finally:
            self._client = None
            if not ready.done():
                ready.cancel()

    async def _noted(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification) and self._tools_changed is not None:
            await self._tools_changed()

    async def _page(self, client: Client, cursor: str | None) -> dict[str, Any]:
        params = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await client.session.list_tools(params=params)
        return page.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def _answered(self, work: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await work
        except TimeoutError:
            raise ServerFailed(f"{self._name} did not answer within {self._answer_seconds:g} seconds.") from None
        except Exception as problem:
            raise self._told(problem) from None

    def _told(self, problem: BaseException) -> HoldfastError:
        if isinstance(problem, SessionLost):
            self._is_lost = True
        if isinstance(problem, HoldfastError):
            return problem
        if self._transport.problem is not None:
            return self._transport.problem
        while isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        if isinstance(problem, HoldfastError):
            return problem
        if isinstance(problem, MCPError):
            text = hide(str(problem.error.message)[:2_000], self._secrets)
            if text in _LOST:
                # The server forgot the session; the next call needs a new one.
                self._is_lost = True
                return ServerFailed(f"{self._name} ended the session; call again for a new one.")
            return CallRefused(f"{self._name} refused: {text}", problem.error.code, problem.error.data)
        said = hide(str(problem)[:500], self._secrets)
        return ServerFailed(f"{self._name} failed: {said or type(problem).__name__}")

    def _open_client(self) -> Client:
        if self._client is None:
            raise ServerFailed(f"The connection to {self._name} was closed.")
        return self._client


def _is_plain(tool: ServedTool) -> bool:
    """Whether its calls say nothing but its name and arguments: no header repeats any of them (SEP-2243)."""
    return _PLAIN_NAME.fullmatch(tool.name) is not None and b"x-mcp-header" not in jsontext.dumps(tool.input_schema)
