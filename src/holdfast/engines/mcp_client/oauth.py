"""Owns signing in at the authorization server of a remote MCP server: finding it, registering there, codes and tokens.

Everything that is fetched was named by a stranger (the remote server, then its authorization server), so everything is
fetched by the guard, over no redirect, and held against what it must say: RFC 9728, 8414, 7591, 7636, 8707, 9207.
"""

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import orjson

from holdfast.core.errors import UpstreamFailed
from holdfast.engines.fetch.network.guard import FetchLimits, FetchReply, Guard, Request
from holdfast.engines.fetch.network.url import BadUrl, Url, parse_url

_LIMITS = FetchLimits(bytes=200_000, seconds=15.0, redirects=0)
_METADATA_OF = re.compile(r'resource_metadata="([^"]+)"')
_SCOPE_OF = re.compile(r'\bscope="([^"]+)"')
_METHODS = ("none", "client_secret_basic", "client_secret_post")
_EARLY_SECONDS = 60.0


class OAuthRefused(UpstreamFailed):
    """The authorization server, or what was said about it, is not what it must be; nothing was sent on."""

    code = "oauth_refused"


class LoginEnded(OAuthRefused):
    """The authorization server does not take the login any more: it expired, or somebody revoked it."""

    code = "login_ended"


@dataclass(frozen=True, slots=True)
class AuthServer:
    """Who says who may use a remote server, as its metadata has it."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None
    resource: str
    """What tokens are for: the remote server, as it calls itself."""
    scope: str
    names_itself: bool
    """Whether it says its name with every code that it gives (RFC 9207)."""


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Who we are to one authorization server."""

    client_id: str
    client_secret: str | None
    method: str


@dataclass(frozen=True, slots=True)
class LoginBegun:
    """A person on the way to the authorization server: where they go, and what to remember until they come back."""

    url: str
    state: str
    verifier: str
    redirect_uri: str
    server: AuthServer
    client: OAuthClient


@dataclass(frozen=True, slots=True)
class Login:
    """Somebody's tokens, with all that it takes to renew them after a restart. Secret as a whole."""

    server: AuthServer
    client: OAuthClient
    access_token: str
    refresh_token: str | None
    expires_at: float | None
    """In seconds since 1970; None where it was not said."""
    scope: str

    def __repr__(self) -> str:
        return f"Login(at {self.server.issuer!r})"

    def to_json(self) -> bytes:
        """To be sealed and kept."""
        return orjson.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: bytes) -> "Login":
        """What `to_json` wrote."""
        kept = orjson.loads(text)
        return cls(**(kept | {"server": AuthServer(**kept["server"]), "client": OAuthClient(**kept["client"])}))


class LoginStore(Protocol):
    """Where the login of one person at one remote server is kept."""

    async def load(self) -> Login | None:
        """The kept one."""
        ...

    async def save(self, login: Login) -> None:
        """Keep it instead of the one before."""
        ...

    def renewal(self) -> AbstractAsyncContextManager[None]:
        """Entered by one at a time, in whatever process: a refresh token that is replaced by its use is used once."""
        ...

    async def forget(self) -> None:
        """It ended."""
        ...


class RemoteOAuth:
    """Speaks OAuth with authorization servers that remote servers name."""

    def __init__(self, guard: Guard, client_name: str = "Holdfast") -> None:
        self._guard = guard
        self._client_name = client_name

    async def discover(self, server_url: str, challenge: str = "") -> AuthServer:
        """The authorization server of a remote one, by the `WWW-Authenticate` of its 401 or its well-known place."""
        url = _secure(server_url, "the server's address")
        resource, issuer, scopes = await self._resource(url, challenge)
        metadata = await self._metadata(issuer)
        if metadata.get("issuer") != issuer:
            named = str(metadata.get("issuer"))[:200]
            raise OAuthRefused(f"{url.host} sends people to {issuer!r}, whose metadata names {named!r} instead.")
        methods = metadata.get("code_challenge_methods_supported")
        if not isinstance(methods, list) or "S256" not in methods:
            raise OAuthRefused(f"{issuer} does not offer PKCE with S256, without which codes can be stolen.")
        registration = metadata.get("registration_endpoint")
        asked = _SCOPE_OF.search(challenge)
        return AuthServer(
            issuer=issuer,
            authorization_endpoint=_endpoint(metadata, "authorization_endpoint"),
            token_endpoint=_endpoint(metadata, "token_endpoint"),
            registration_endpoint=None if registration is None else _endpoint(metadata, "registration_endpoint"),
            resource=resource,
            scope=asked[1] if asked else " ".join(scopes),
            names_itself=metadata.get("authorization_response_iss_parameter_supported") is True,
        )

    async def register(self, server: AuthServer, redirect_uri: str) -> OAuthClient:
        """Make ourselves known (RFC 7591); OAuthRefused where a client has to be given by hand."""
        if server.registration_endpoint is None:
            raise OAuthRefused(
                f"{server.issuer} registers nobody by itself: make a client there with the redirect URI "
                f"{redirect_uri}, and give its id and secret here."
            )
        wanted: dict[str, Any] = {
            "client_name": self._client_name,
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        if server.scope:
            wanted["scope"] = server.scope
        headers = {"content-type": "application/json", "accept": "application/json"}
        request = Request(parse_url(server.registration_endpoint), "POST", headers, orjson.dumps(wanted))
        given = _object(await self._guard.send(request, limits=_LIMITS), server.issuer, (200, 201))
        id, secret = given.get("client_id"), given.get("client_secret")
        method = given.get("token_endpoint_auth_method", "client_secret_basic" if secret else "none")
        if not isinstance(id, str) or not id or method not in _METHODS or (method != "none" and not secret):
            raise OAuthRefused(f"{server.issuer} registered us in a way that can't be used ({str(method)[:60]}).")
        return OAuthClient(id, secret if isinstance(secret, str) else None, method)

    def begin(self, server: AuthServer, client: OAuthClient, redirect_uri: str) -> LoginBegun:
        """Where a person signs in."""
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": server.resource,
        }
        if server.scope:
            query["scope"] = server.scope
        if "offline_access" in server.scope.split():
            query["prompt"] = "consent"
        joint = "&" if "?" in server.authorization_endpoint else "?"
        url = f"{server.authorization_endpoint}{joint}{urlencode(query)}"
        return LoginBegun(url, state, verifier, redirect_uri, server, client)

    async def finish(self, begun: LoginBegun, code: str, issuer: str | None) -> Login:
        """Exchange the code that the person came back with; `issuer` is the `iss` beside it, if any."""
        server = begun.server
        # A code of another server, sent to this one's token endpoint, would be that other server's loss.
        if (issuer is None and server.names_itself) or (issuer is not None and issuer != server.issuer):
            raise OAuthRefused(f"The code does not come from {server.issuer}; begin to sign in once more.")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": begun.redirect_uri,
            "code_verifier": begun.verifier,
        }
        given = await self._token(server, begun.client, form)
        return _login(server, begun.client, given, scope=server.scope)

    async def refresh(self, login: Login) -> Login:
        """New tokens for old ones; LoginEnded where a person has to sign in again."""
        if login.refresh_token is None:
            raise LoginEnded(f"The login at {login.server.issuer} has expired.")
        form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
        given = await self._token(login.server, login.client, form)
        renewed = _login(login.server, login.client, given, scope=login.scope)
        return renewed if renewed.refresh_token else replace(renewed, refresh_token=login.refresh_token)

    async def _resource(self, url: Url, challenge: str) -> tuple[str, str, list[str]]:
        """What the remote server calls itself, its authorization server, and the scopes that it knows."""
        named = _METADATA_OF.search(challenge)
        path = url.target.partition("?")[0].rstrip("/")
        places = [f"{url.origin}/.well-known/oauth-protected-resource{path}"]
        if path:
            places.append(f"{url.origin}/.well-known/oauth-protected-resource")
        for place in [named[1]] if named else places:
            reply = await self._guard.get(_secure(place, "the resource's metadata"), limits=_LIMITS)
            if reply.status == 200:
                break
        else:
            # Before RFC 9728 a server was its own authorization server.
            return str(url).rstrip("/"), url.origin, []
        metadata = _object(reply, url.host, (200,))
        resource = str(metadata.get("resource", ""))
        if not _covers(resource, url):
            raise OAuthRefused(f"{url.host} says that its tokens are for {resource[:200]!r}, which is somebody else.")
        servers = metadata.get("authorization_servers")
        if not isinstance(servers, list) or not servers or not isinstance(servers[0], str):
            raise OAuthRefused(f"{url.host} names no authorization server.")
        scopes = metadata.get("scopes_supported")
        return resource, servers[0], [each for each in scopes or [] if isinstance(each, str)]

    async def _metadata(self, issuer: str) -> dict[str, Any]:
        url = _secure(issuer, "the authorization server")
        path = url.target.partition("?")[0].rstrip("/")
        places = [
            f"{url.origin}/.well-known/{kind}{path}" for kind in ("oauth-authorization-server", "openid-configuration")
        ]
        if path:
            places.append(f"{url.origin}{path}/.well-known/openid-configuration")
        for place in places:
            reply = await self._guard.get(parse_url(place), limits=_LIMITS)
            if reply.status == 200:
                return _object(reply, url.host, (200,))
        raise OAuthRefused(f"{issuer} publishes no metadata of an authorization server.")

    async def _token(self, server: AuthServer, client: OAuthClient, form: dict[str, str]) -> dict[str, Any]:
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        form = form | {"resource": server.resource}
        if client.method == "client_secret_basic" and client.client_secret:
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = client.client_id
            if client.method == "client_secret_post" and client.client_secret:
                form["client_secret"] = client.client_secret
        request = Request(
            _secure(server.token_endpoint, "the token endpoint"), "POST", headers, urlencode(form).encode()
        )
        reply = await self._guard.send(request, limits=_LIMITS)
        if reply.status in (400, 401):
            error = _object(reply, server.issuer, (400, 401)).get("error")
            if error in ("invalid_grant", "invalid_client", "unauthorized_client"):
                raise LoginEnded(f"{server.issuer} does not take the login any more ({error}).")
            raise OAuthRefused(f"{server.issuer} refused to give tokens: {str(error)[:100]}.")
        return _object(reply, server.issuer, (200,))


def _login(server: AuthServer, client: OAuthClient, given: Mapping[str, Any], *, scope: str) -> Login:
    access, refresh, seconds = given.get("access_token"), given.get("refresh_token"), given.get("expires_in")
    if not isinstance(access, str) or not access or str(given.get("token_type", "")).lower() != "bearer":
        raise OAuthRefused(f"{server.issuer} gave no bearer token.")
    if not access.isascii() or not access.isprintable():
        raise OAuthRefused(f"{server.issuer} gave a token that can't stand in a header.")
    expires = time.time() + float(seconds) if isinstance(seconds, int | float) else None
    granted = given.get("scope")
    kept = refresh if isinstance(refresh, str) and refresh else None
    return Login(server, client, access, kept, expires, granted if isinstance(granted, str) else scope)


def is_stale(login: Login) -> bool:
    """Whether its token has expired, or will before a call could end."""
    return login.expires_at is not None and login.expires_at - _EARLY_SECONDS < time.time()


def _covers(resource: str, url: Url) -> bool:
    """Whether tokens for a resource are meant for this address: the same origin, and the same path or one above."""
    try:
        named = parse_url(resource)
    except BadUrl:
        return False
    above, path = named.target.rstrip("/") + "/", url.target.partition("?")[0].rstrip("/") + "/"
    return named.origin == url.origin and path.startswith(above)


def _secure(text: str, what: str) -> Url:
    try:
        url = parse_url(text)
    except BadUrl as problem:
        raise OAuthRefused(f"{what[0].upper()}{what[1:]} is no address: {problem.message}") from None
    if url.place.is_overheard:
        raise OAuthRefused(f"{what[0].upper()}{what[1:]}, {url.origin}, is not https; others could read along.")
    return url


def _endpoint(metadata: Mapping[str, Any], name: str) -> str:
    value = metadata.get(name)
    if not isinstance(value, str):
        raise OAuthRefused(f"The authorization server's metadata names no {name}.")
    _secure(value, f"the {name}")
    return value


def _object(reply: FetchReply, who: str, expected: tuple[int, ...]) -> dict[str, Any]:
    if reply.status not in expected:
        raise OAuthRefused(f"{who} answered {reply.status}.")
    try:
        found = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or reply.truncated:
        raise OAuthRefused(f"{who} answered something that is not a JSON object.")
    return found
