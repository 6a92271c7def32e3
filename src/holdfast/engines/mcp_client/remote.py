"""Owns a connection to a remote MCP server: the official client over Streamable HTTP, by the guarded way out."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from holdfast import __version__
from holdfast.core.errors import HoldfastError, Invalid
from holdfast.engines.fetch.network.guard import FAILURES, Guard, OpenReply, Request
from holdfast.engines.fetch.network.url import Url, parse_url
from holdfast.engines.mcp_client.base import (
    CallRefused,
    CallResult,
    LoginNeeded,
    ServerDescription,
    ServerFailed,
    TellProgress,
)
from holdfast.engines.mcp_client.listing import call_result, list_tools
from holdfast.engines.mcp_client.oauth import Login, LoginEnded, LoginStore, RemoteOAuth, is_stale
from holdfast.engines.mcp_client.stdio import ToolsChanged

_MAX_BYTES = 16 << 20
_CONNECT_SECONDS = 10.0
_SILENT_SECONDS = 300.0
_LOST = ("Session terminated", "Connection closed")


class RemoteAuth:
    """One person's standing at one remote server; one for all of that person's connections, so that one renews."""

    def __init__(self, name: str, oauth: RemoteOAuth, store: LoginStore, login_url: str) -> None:
        self._name = name
        self._oauth = oauth
        self._store = store
        self._login_url = login_url
        self._lock = asyncio.Lock()
        self._renewing: set[asyncio.Task[str]] = set()

    async def token(self, *, rejected: str | None = None) -> str:
        """The token to send; LoginNeeded where there is none. `rejected` is the one that was just refused."""
        async with self._lock:
            login = await self._kept()
            # Somebody else may have renewed it while we waited, or were being refused.
            if _serves(login, rejected):
                return login.access_token
            # A caller who gives up in the middle must not take the new tokens along.
            renewing = asyncio.create_task(self._renewed(rejected))
            self._renewing.add(renewing)
            renewing.add_done_callback(self._over)
            return await asyncio.shield(renewing)

    async def _kept(self) -> Login:
        login = await self._store.load()
        if login is None:
            raise self.login_needed("nobody has signed in there for you yet")
        return login

    async def _renewed(self, rejected: str | None) -> str:
        async with self._store.renewal():
            login = await self._kept()
            if _serves(login, rejected):
                # By another process, while this one waited for its turn.
                return login.access_token
            try:
                renewed = await self._oauth.refresh(login)
            except LoginEnded:
                now = await self._kept()
                if now.access_token != login.access_token:
                    # The person signed in anew meanwhile.
                    return now.access_token
                await self._store.forget()
                raise self.login_needed("your login there has ended") from None
            await self._store.save(renewed)
            return renewed.access_token

    def _over(self, renewing: "asyncio.Task[str]") -> None:
        self._renewing.discard(renewing)
        if not renewing.cancelled():
            # Whoever asked for it may have given up; it is no news to anybody else.
            renewing.exception()

    def login_needed(self, why: str) -> LoginNeeded:
        """The error that a person can do something about."""
        return LoginNeeded(f"{self._name} needs you to sign in: {why}. Open {self._login_url}", self._login_url)


def _serves(login: Login, rejected: str | None) -> bool:
    return not is_stale(login) and login.access_token != rejected


class NotSignedIn(ServerFailed):
    """The remote server wants a login, and none is set up; `challenge` says where one begins (RFC 9728)."""

    code = "remote_unauthenticated"

    def __init__(self, name: str, challenge: str) -> None:
        super().__init__(f"{name} wants a login before it says anything.")
        self.challenge = challenge


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
) -> "RemoteConnection":
    """Connect and agree on a revision; LoginNeeded, NotSignedIn or ServerFailed where that comes to nothing."""
    address = parse_url(url)
    if address.place.is_overheard and (headers or auth):
        raise Invalid(f"{name} is at {address.origin}, which is not https; credentials would be read on the way.")
    connection = RemoteConnection(
        name, GuardedTransport(guard, name, address, headers, auth), tools_changed, answer_seconds
    )
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
    """httpx2's way to the network, narrowed: to one origin, by the guard, with the credential attached here alone."""

    def __init__(self, guard: Guard, name: str, url: Url, headers: Mapping[str, str], auth: RemoteAuth | None) -> None:
        self._guard = guard
        self._name = name
        self._origin = url.origin
        self._headers = {key.lower(): value for key, value in headers.items()}
        self._auth = auth
        self.problem: HoldfastError | None = None
        """Why the last exchange came to nothing, in words that the client's own errors do not have."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.problem = None
        try:
            url = parse_url(str(request.url))
            if url.origin != self._origin:
                raise ServerFailed(f"{self._name} leads to {url.origin}, which is another server.")
            body = await request.aread()
            reply = await self._send(request, url, body)
        except HoldfastError as problem:
            self.problem = problem
            raise httpx2.ConnectError(problem.message, request=request) from None
        except FAILURES as problem:
            self.problem = ServerFailed(f"{self._name} could not be reached: {str(problem)[:200] or 'no answer'}.")
            raise httpx2.ConnectError(self.problem.message, request=request) from None
        headers = [(key, value) for key, value in reply.headers if key != b"content-encoding"]
        return httpx2.Response(reply.status, headers=headers, stream=_Body(reply, self._name), request=request)

    async def _send(self, request: httpx2.Request, url: Url, body: bytes) -> OpenReply:
        token = await self._auth.token() if self._auth is not None else None
        reply = await self._open(request, url, body, token)
        if reply.status == 401 and self._auth is not None:
            await reply.aclose()
            token = await self._auth.token(rejected=token)
            reply = await self._open(request, url, body, token)
            if reply.status == 401:
                await reply.aclose()
                raise self._auth.login_needed("it does not take your login")
        elif reply.status == 401:
            await reply.aclose()
            raise NotSignedIn(self._name, reply.header("www-authenticate"))
        return reply

    async def _open(self, request: httpx2.Request, url: Url, body: bytes, token: str | None) -> OpenReply:
        headers = {key.lower(): value for key, value in request.headers.items()} | self._headers
        headers["accept-encoding"] = "identity"
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        sent = Request(url, request.method, headers, body)
        reply = await self._guard.open(sent, connect_seconds=_CONNECT_SECONDS, read_seconds=_SILENT_SECONDS)
        if reply.header("content-encoding") not in ("", "identity"):
            await reply.aclose()
            raise ServerFailed(f"{self._name} compresses its answers although it was asked not to.")
        return reply


class _Body(httpx2.AsyncByteStream):
    """An answer's bytes, bounded: events by each, a document as a whole."""

    def __init__(self, reply: OpenReply, name: str) -> None:
        self._reply = reply
        self._name = name

    async def __aiter__(self) -> AsyncIterator[bytes]:
        streaming = self._reply.header("content-type").startswith("text/event-stream")
        received = 0
        try:
            async for piece in self._reply.pieces():
                received += len(piece)
                if received > _MAX_BYTES and not streaming:
                    raise httpx2.ReadError(f"{self._name} answered more than {_MAX_BYTES >> 20} MiB")
                yield piece
        except FAILURES as problem:
            raise httpx2.ReadError(str(problem)[:200] or "it broke off the exchange") from None

    async def aclose(self) -> None:
        await self._reply.aclose()


class RemoteConnection:
    """One client, owned by a task of its own, used by several callers."""

    def __init__(
        self,
        name: str,
        transport: GuardedTransport,
        tools_changed: ToolsChanged | None,
        answer_seconds: float | None,
    ) -> None:
        self._name = name
        self._transport = transport
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
        info = (
            client.server_info.model_dump(mode="json", by_alias=True, exclude_none=True) if client.server_info else {}
        )
        return ServerDescription(info, str(client.protocol_version), tools)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: TellProgress | None = None
    ) -> CallResult:
        client, listener = self._open_client(), progress

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
        self._ending.set()
        self._client = None
        if self._owner is not None:
            _, late = await asyncio.wait({self._owner}, timeout=5)
            for task in late:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _own(self, url: str, ready: "asyncio.Future[None]") -> None:
        try:
            timeout = httpx2.Timeout(_CONNECT_SECONDS, read=_SILENT_SECONDS)
            async with httpx2.AsyncClient(transport=self._transport, timeout=timeout) as http:
                streams = streamable_http_client(url, http_client=http, max_sse_event_size=_MAX_BYTES)
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

    async def _answered(self, work: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._answer_seconds):
                answer: dict[str, Any] = await work
                return answer
        except TimeoutError:
            raise ServerFailed(f"{self._name} did not answer within {self._answer_seconds:g} seconds.") from None
        except Exception as problem:
            raise self._told(problem) from None

    def _told(self, problem: BaseException) -> HoldfastError:
        if self._transport.problem is not None:
            return self._transport.problem
        while isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        if isinstance(problem, HoldfastError):
            return problem
        if isinstance(problem, MCPError):
            text = str(problem.error.message)[:2_000]
            if text in _LOST:
                # The server forgot the session; the next call needs a new one.
                self._is_lost = True
                return ServerFailed(f"{self._name} ended the session; call again for a new one.")
            return CallRefused(f"{self._name} refused: {text}", problem.error.code, problem.error.data)
        return ServerFailed(f"{self._name} failed: {str(problem)[:500] or type(problem).__name__}")

    def _open_client(self) -> Client:
        if self._client is None:
            raise ServerFailed(f"The connection to {self._name} was closed.")
        return self._client
