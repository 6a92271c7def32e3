"""Owns every request that leaves for a place somebody else named: checked, capped, and followed hop by hop."""

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import httpcore

from holdfast import __version__
from holdfast.core.errors import UpstreamFailed
from holdfast.engines.fetch.network.addresses import Exceptions
from holdfast.engines.fetch.network.connect import Blocked, PinnedBackend, Resolver, SystemResolver
from holdfast.engines.fetch.network.inflate import CannotInflate, Inflater
from holdfast.engines.fetch.network.url import BadUrl, Url, parse_url

AGENT = "Holdfast"
USER_AGENT = f"Mozilla/5.0 (compatible; {AGENT}/{__version__}; self-hosted)"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What may travel on when a redirect leaves the origin; everything else could be a credential.
_HARMLESS = frozenset({"accept", "accept-language", "user-agent"})

# All that httpcore raises when a server cannot be reached or does not speak HTTP.
FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)

Hop = Callable[[Url], Awaitable[None]]


class FetchFailed(UpstreamFailed):
    """The other server did not give us the page."""

    code = "fetch_failed"


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much of somebody's server we bear: plain bytes after inflating, seconds over all hops, redirects."""

    bytes: int = 5_000_000
    bytes_of_type: Mapping[str, int] = field(default_factory=dict)
    """Another number of bytes for some media types."""
    seconds: float = 10.0
    connect_seconds: float = 5.0
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it will be sent to the first hop."""

    url: Url
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class FetchReply:
    """What came back from the last hop; `truncated` when the body was longer than the limit."""

    url: Url
    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool = False

    @property
    def content_type(self) -> str:
        """The media type without its parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str:
        """The charset that the content type names, or nothing."""
        _, _, rest = self.headers.get("content-type", "").lower().partition("charset=")
        return rest.partition(";")[0].strip(" \"'")


class OpenReply:
    """An answer that is still coming: its status and headers, and its bytes as they arrive. To be closed."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response
        self.status = response.status
        self.headers = [(name.lower(), value) for name, value in response.headers]

    def header(self, name: str) -> str:
        """One header, or nothing."""
        return _headers(self.headers).get(name, "")

    def pieces(self) -> AsyncIterator[bytes]:
        """What comes, as sent: nothing is inflated, and nothing is counted."""
        return aiter(self._response.aiter_stream())

    async def aclose(self) -> None:
        """Hang up, or give the connection back where everything was read."""
        await self._response.aclose()


@functools.cache
def system_trust() -> ssl.SSLContext:
    """What this machine trusts, read once in a process: 45 ms, more than building everything else takes."""
    return ssl.create_default_context()


class Guard:
    """The only way out. `allow_private` lists internal places that may be read all the same."""

    def __init__(
        self,
        *,
        allow_private: Iterable[str] = (),
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        limits: FetchLimits | None = None,
    ) -> None:
        self._allow_private = tuple(allow_private)
        self._exceptions = Exceptions(self._allow_private)
        self._resolver = resolver or SystemResolver()
        self.ssl_context = ssl_context or system_trust()
        self.limits = limits or FetchLimits()
        self._backend = PinnedBackend(self._resolver, self._exceptions)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=self.ssl_context,
            max_connections=64,
            max_keepalive_connections=16,
            keepalive_expiry=10,
            network_backend=self._backend,
        )

    def trusting(self, base_url: str) -> "Guard":
        """A guard that also reaches this one origin, for an API that the operator configured."""
        url = parse_url(base_url)
        host = f"[{url.host}]" if ":" in url.host else url.host
        return Guard(
            allow_private=(*self._allow_private, f"{host}:{url.port}"),
            resolver=self._resolver,
            ssl_context=self.ssl_context,
            limits=self.limits,
        )

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._pool.aclose()

    async def get(
        self,
        url: Url,
        *,
        headers: Mapping[str, str] = {},
        limits: FetchLimits | None = None,
        before_hop: Hop | None = None,
    ) -> FetchReply:
        """Fetch a URL, following redirects."""
        return await self.send(Request(url, headers=headers), limits=limits, before_hop=before_hop)

    async def send(
        self, request: Request, *, limits: FetchLimits | None = None, before_hop: Hop | None = None
    ) -> FetchReply:
        """Send a request, follow its redirects, and read the last answer; `before_hop` may refuse any of them."""
        limits = limits or self.limits
        host = request.url.host
        try:
            async with asyncio.timeout(limits.seconds):
                return await self._follow(request, limits, before_hop)
        except (TimeoutError, httpcore.TimeoutException):
            raise FetchFailed(f"{host} did not answer completely within {limits.seconds:g} seconds.") from None
        except CannotInflate as error:
            raise FetchFailed(f"{host} sent a body that can't be read: {error}.") from None
        except httpcore.ConnectError as error:
            raise FetchFailed(f"{host} could not be reached: {_plain(error)}.") from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise FetchFailed(f"{host} broke off the exchange: {_plain(error)}.") from None

    async def open(self, request: Request, *, connect_seconds: float, read_seconds: float) -> OpenReply:
        """Send a request to one hop, for whoever reads the answer as it comes; redirects are the caller's affair."""
        self._admit(request.url)
        timeout = {"connect": connect_seconds, "read": read_seconds, "write": read_seconds, "pool": connect_seconds}
        headers = {name.lower(): value for name, value in request.headers.items()} | {"host": request.url.authority}
        sent = httpcore.Request(
            request.method,
            _target(request.url),
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
            content=request.body or None,
            extensions={"timeout": timeout},
        )
        return OpenReply(await self._pool.handle_async_request(sent))

    async def addresses(self, url: Url) -> list[str]:
        """Where a URL's host leads now, judged as for `open`, for whoever connects to exactly that by other means."""
        self._admit(url)
        return await self._backend.checked(url.host, url.port)

    async def _follow(self, request: Request, limits: FetchLimits, before_hop: Hop | None) -> FetchReply:
        for _ in range(limits.redirects + 1):
            self._admit(request.url)
            if before_hop is not None:
                await before_hop(request.url)
            reply = await self._exchange(request, limits)
            location = reply.headers.get("location")
            if reply.status not in _REDIRECTS or not location:
                return reply
            request = _redirected(request, reply.status, location)
        raise FetchFailed(f"{request.url.host} redirected more than {limits.redirects} times.")

    def _admit(self, url: Url) -> None:
        if self._exceptions.name_known(url.host, url.port):
            return
        if url.is_local_name and not self._exceptions.hold_networks:
            raise Blocked(url.host, "a local name")
        if url.port_is_closed:
            raise BadUrl(str(url), f"port {url.port} is not one that the web uses")

    async def _exchange(self, request: Request, limits: FetchLimits) -> FetchReply:
        url = request.url
        headers = {"user-agent": USER_AGENT, "accept": "*/*", "accept-encoding": "gzip, deflate"}
        headers |= {name.lower(): value for name, value in request.headers.items()} | {"host": url.authority}
        if request.body:
            headers["content-length"] = str(len(request.body))
        timeout = {
            "connect": limits.connect_seconds,
            "read": limits.seconds,
            "write": limits.seconds,
            "pool": limits.seconds,
        }
        sent = self._pool.stream(
            request.method,
            _target(url),
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
            content=request.body or None,
            extensions={"timeout": timeout},
        )
        async with sent as response:
            received = _headers(response.headers)
            if response.status in _REDIRECTS:
                # Nobody reads it, but a drained connection serves the next hop without another look-up.
                await _body(response, Inflater("", 65_536))
                return FetchReply(url, response.status, received, b"")
            reply = FetchReply(url, response.status, received, b"")
            limit = limits.bytes_of_type.get(reply.content_type, limits.bytes)
            body, truncated = await _body(response, Inflater(received.get("content-encoding", ""), limit))
            return replace(reply, body=body, truncated=truncated)


def _target(url: Url) -> httpcore.URL:
    return httpcore.URL(scheme=url.scheme.encode(), host=url.host.encode(), port=url.port, target=url.target.encode())


async def _body(response: httpcore.Response, inflater: Inflater) -> tuple[bytes, bool]:
    pieces: list[bytes] = []
    async for piece in response.aiter_stream():
        if plain := inflater.feed(piece):
            pieces.append(plain)
        if inflater.full:
            break
    return b"".join(pieces), inflater.full


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _redirected(request: Request, status: int, location: str) -> Request:
    # Headers arrive as Latin-1, but a Location beyond ASCII is UTF-8 wherever browsers understand it.
    url = request.url.join(location.encode("latin-1").decode("utf-8", "replace"))
    headers = request.headers
    if url.origin != request.url.origin:
        headers = {name: value for name, value in headers.items() if name.lower() in _HARMLESS}
    if status in (307, 308) and url.origin == request.url.origin:
        return replace(request, url=url, headers=headers)
    return Request(url, "HEAD" if request.method == "HEAD" else "GET", headers)


def _plain(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, ssl.SSLError | OSError) else error
    text = str(cause).strip() or type(error).__name__
    return text[:200]
