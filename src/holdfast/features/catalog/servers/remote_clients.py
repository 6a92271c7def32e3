"""Owns what saving a remote server finds out: whether people sign in there, where, and as whom we are known."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from holdfast.core.errors import FieldError, HoldfastError, Invalid
from holdfast.core.text import jsontext
from holdfast.engines.fetch.network.guard import FAILURES, Guard, Request
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.mcp_client.oauth import OAuthRefused, RemoteOAuth
from holdfast.features.catalog.manifest import invalid_entry
from holdfast.features.catalog.model import NewEntry
from holdfast.features.catalog.servers import login_store
from holdfast.features.catalog.servers.addresses import references_in
from holdfast.features.catalog.servers.kept_logins import KeptLogins, RemoteClient
from holdfast.storage.database import Tx

CALLBACK = "/connect/callback"
_SECONDS = 10.0
# Asks nothing and begins nothing; whoever wants a login says so instead of answering.
_PING = jsontext.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
_HEADERS = {
    "content-type": "application/json",
    "content-length": str(len(_PING)),
    "accept": "application/json, text/event-stream",
}


KeepClient = Callable[[Tx, str], None]
"""Keeps, within a transaction, what was found out for the entry of an id."""


class RemoteClients:
    """Looks at a remote server before it is saved, and keeps what was found."""

    def __init__(self, kept: KeptLogins, guard: Guard, url: Callable[[], str]) -> None:
        """`url` is where people reach this server."""
        self._kept = kept
        self._guard = guard
        self._oauth = RemoteOAuth(guard)
        self._url = url

    @property
    def redirect_uri(self) -> str:
        """Where people come back to."""
        return f"{self._url().rstrip('/')}{CALLBACK}"

    async def look(self, new: NewEntry) -> RemoteClient | None:
        """Register where people sign in for an entry; None where they do not. Invalid names `url` where that fails.

        A server that cannot be reached now is saved all the same: it may be started after us.
        """
        if new.shape != "remote" or new.url is None or sends_credential(new.headers, new.url):
            return None
        try:
            challenge = await self._challenge(new.url)
        except Invalid as refused:
            raise invalid_entry([FieldError("url", refused.message)]) from None
        if challenge is None:
            return None
        try:
            return await self.register(new.url, challenge)
        except HoldfastError as problem:
            if new.headers:
                # What it wants may be in the headers, which were not sent.
                return None
            raise invalid_entry([FieldError("url", f"{problem.message} {_REMEDY}")]) from None

    async def register(self, url: str, challenge: str = "") -> RemoteClient:
        """Make ourselves known at the authorization server of a remote one; OAuthRefused where that can't be."""
        server = await self._oauth.discover(url, challenge)
        if server.registration_endpoint is None:
            raise OAuthRefused(f"{server.issuer} registers no clients by itself.")
        return RemoteClient(server, await self._oauth.register(server, self.redirect_uri), self.redirect_uri)

    async def found(self, new: NewEntry) -> KeepClient:
        """What `look` found, to be kept with the entry when it is."""
        return await self.keeping(new.url or "", await self.look(new))

    async def keeping(self, url: str, known: RemoteClient | None) -> KeepClient:
        """What keeps, within a transaction, as whom we are known for an entry."""
        if known is None:
            return login_store.drop_client
        key = await self._kept.key()
        return lambda tx, server_id: self._kept.keep_client(tx, server_id, url, known, key)

    async def _challenge(self, url: str) -> str | None:
        """What the server answers who did not sign in; None where it lets everybody in, or does not answer."""
        request = Request(parse_url(url), "POST", _HEADERS, _PING)
        with suppress(TimeoutError, *FAILURES):
            async with asyncio.timeout(_SECONDS):
                reply = await self._guard.open(request, connect_seconds=_SECONDS, read_seconds=_SECONDS)
            await reply.aclose()
            return reply.header("www-authenticate") if reply.status == 401 else None
        return None


_REMEDY = "Where it takes a token instead, give that in headers: Authorization as ${SECRET}."


def sends_credential(headers: Mapping[str, str], url: str | None) -> bool:
    """Whether an entry brings its own credential, so that nobody has to sign in."""
    return bool(references_in(url or "")) or any(name.lower() == "authorization" for name in headers)
