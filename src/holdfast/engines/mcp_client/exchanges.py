"""Owns exchanges with one remote MCP server: its origin alone, at addresses that the guard judged, signed here."""

import asyncio
from collections.abc import Mapping

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.fetch.network.guard import FAILURES, Guard
from holdfast.engines.fetch.network.url import Url
from holdfast.engines.llm.remote.connection import (
    Origin,
    Timeouts,
    UpstreamAnswer,
    UpstreamConnections,
    request_bytes,
    request_head,
)
from holdfast.engines.llm.remote.wire import UpstreamCut, UpstreamUnreachable
from holdfast.engines.mcp_client.base import LoginNeeded, ServerFailed
from holdfast.engines.mcp_client.oauth import Login, LoginEnded, LoginStore, RemoteOAuth, is_stale

MAX_BYTES = 16 << 20
CONNECT_SECONDS = 10.0
SILENT_SECONDS = 300.0
BROKEN = (UpstreamCut, UpstreamUnreachable)
"""What comes of an answer that does not come, or not whole."""
_TIMEOUTS = Timeouts(CONNECT_SECONDS, SILENT_SECONDS, SILENT_SECONDS, 86_400.0)
# Shorter than what servers commonly keep an idle connection for: a call on one that just closed is lost.
_IDLE_SECONDS = 4.0


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


class Exchanges:
    """Sends requests to one server; to be closed."""

    def __init__(self, guard: Guard, name: str, url: Url, headers: Mapping[str, str], auth: RemoteAuth | None) -> None:
        self.url = url
        self.name = name
        self._origin = Origin(url.host, url.port, url.scheme == "https")
        self._headers = {key.lower(): value for key, value in headers.items()} | {"accept-encoding": "identity"}
        self._auth = auth

        async def resolve(origin: Origin) -> list[str]:
            return await guard.addresses(url)

        self._connections = UpstreamConnections(resolve=resolve, tls=guard.ssl_context, idle_seconds=_IDLE_SECONDS)

    async def send(self, method: str, url: Url, headers: Mapping[str, str], body: bytes) -> UpstreamAnswer:
        """Send a request once and wait for the head of its answer; ServerFailed, NotSignedIn or LoginNeeded."""
        if url.origin != self.url.origin:
            raise ServerFailed(f"{self.name} leads to {url.origin}, which is another server.")
        said = {**headers, **self._headers}
        token = await self._auth.token() if self._auth is not None else None
        answer = await self._sent(method, url, said, body, token)
        if answer.status == 401:
            answer.close()
            if self._auth is None:
                raise NotSignedIn(self.name, (answer.header(b"www-authenticate") or b"").decode("latin-1"))
            # It was refused before it did anything, so that it may be sent again.
            answer = await self._sent(method, url, said, body, await self._auth.token(rejected=token))
            if answer.status == 401:
                answer.close()
                raise self._auth.login_needed("it does not take your login")
        if (answer.header(b"content-encoding") or b"identity") != b"identity":
            answer.close()
            raise ServerFailed(f"{self.name} compresses its answers although it was asked not to.")
        return answer

    async def aclose(self) -> None:
        """Hang up."""
        await self._connections.aclose()

    async def _sent(
        self, method: str, url: Url, headers: Mapping[str, str], body: bytes, token: str | None
    ) -> UpstreamAnswer:
        if token is not None:
            headers = {**headers, "authorization": f"Bearer {token}"}
        try:
            pairs = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        except UnicodeEncodeError:
            problem = "a value holds letters that HTTP cannot carry; it may have been copied with curly quotes"
            raise Invalid(f"{self.name} cannot be asked.", fields=[FieldError("headers", problem)]) from None
        data = request_bytes(request_head(self._origin, method, url.target), pairs, body or None)
        try:
            return await self._connections.send(self._origin, data, _TIMEOUTS, may_repeat=False)
        except (*BROKEN, *FAILURES) as problem:
            raise ServerFailed(f"{self.name} could not be reached: {str(problem)[:200]}") from None
