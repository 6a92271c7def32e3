"""Owns speaking with an API server: requests, watches, and a program in a container, over HTTP as it is documented."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import httpcore

from holdfast.core.errors import HoldfastError, Unavailable, UpstreamFailed
from holdfast.engines.runtime.kubernetes.cluster.config import ClusterConfig
from holdfast.engines.runtime.kubernetes.cluster.websocket import BROKEN, ExecStream, accept_of, new_key

Object = dict[str, Any]

_TIMEOUT = {"connect": 10.0, "read": 30.0, "write": 30.0, "pool": 30.0}
_WATCH_SECONDS = 300
_MOST_LINE = 16 << 20
_PROTOCOL = "v4.channel.k8s.io"
_OF_A_QUOTA = ("exceeded quota", "failed quota", "status unknown for quota")
_UNREACHABLE = (httpcore.ProtocolError, *BROKEN)


class ClusterUnreachable(Unavailable):
    """The API server does not answer; it may again in a moment."""

    code = "cluster_unreachable"


class ApiProblem(UpstreamFailed):
    """The API server refused a request: `status_code` and `reason` are its own, the message is one plain sentence."""

    code = "cluster_refused"

    def __init__(self, message: str, status_code: int, reason: str, said: str) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.reason = reason
        self.said = said
        """Its own words."""


class WatchExpired(HoldfastError):
    """What the watch was to go on from is no longer kept; list again."""

    code = "watch_expired"


class ClusterApi:
    """One API server."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=config.tls, max_connections=256, max_keepalive_connections=16, keepalive_expiry=60
        )
        self._version: tuple[int, int] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where the API server is."""
        return self._config.host, self._config.port

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.aclose()

    async def version(self) -> tuple[int, int]:
        """Which Kubernetes it is."""
        if self._version is None:
            told = await self.request("GET", "/version")
            minor = "".join(each for each in str(told["minor"]) if each.isdigit())
            self._version = (int(told["major"]), int(minor))
        return self._version

    async def request(
        self, method: str, path: str, body: Object | None = None, params: Mapping[str, str] | None = None
    ) -> Object:
        """The answer's object; ApiProblem where it is refused, ClusterUnreachable where nobody answers."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        content = None if body is None else json.dumps(body).encode()
        try:
            response = await self._pool.request(
                method,
                self._url(path, params or {}),
                headers=[*self._headers(), *([("Content-Type", kind)] if content is not None else [])],
                content=content,
                extensions={"timeout": _TIMEOUT},
            )
        except _UNREACHABLE as problem:
            raise self._unreachable(problem) from None
        return _answered(response.status, response.content, f"{method} {path}")

    async def watch(self, path: str, params: Mapping[str, str]) -> AsyncIterator[tuple[str, Object]]:
        """Changes from a `resourceVersion` on, until the server ends it; WatchExpired where they are no longer kept."""
        asked = {**params, "watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(_WATCH_SECONDS)}
        timeout = {**_TIMEOUT, "read": _WATCH_SECONDS + 30.0}
        try:
            async with self._pool.stream(
                "GET", self._url(path, asked), headers=self._headers(), extensions={"timeout": timeout}
            ) as response:
                if response.status != 200:
                    content = await response.aread()
                    if response.status == 410:
                        raise WatchExpired("The watch expired.")
                    _answered(response.status, content, f"GET {path}")
                async for line in _lines(response.aiter_stream()):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        if event["object"].get("code") == 410:
                            raise WatchExpired("The watch expired.")
                        raise _problem(int(event["object"].get("code") or 500), event["object"], f"GET {path}")
                    yield event["type"], event["object"]
        except _UNREACHABLE as problem:
            raise self._unreachable(problem) from None

    async def exec(self, namespace: str, pod: str, container: str, command: tuple[str, ...]) -> ExecStream:
        """A program in a container, with its stdin and stdout."""
        key = new_key()
        query = [("container", container), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        query += [("command", word) for word in command]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        headers = [
            *self._headers(accept="*/*"),
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", key),
            ("Sec-WebSocket-Protocol", _PROTOCOL),
        ]
        # Of its own: the pool would wait for it at its end.
        connection = httpcore.AsyncHTTPConnection(
            httpcore.Origin(b"https", self._config.host.encode(), self._config.port), ssl_context=self._config.tls
        )
        url = f"{self._url(path, {})}?{urlencode(query)}"
        request = httpcore.Request("GET", url, headers=headers, extensions={"timeout": _TIMEOUT})
        try:
            response = await connection.handle_async_request(request)
            if response.status != 101:
                content = await response.aread()
                await response.aclose()
                await connection.aclose()
                _answered(response.status, content, f"exec in {pod}")
                raise ApiProblem(f"exec in {pod} was not upgraded.", response.status, "NotUpgraded", "")
            told = {name.lower(): value for name, value in response.headers}
            if told.get(b"sec-websocket-accept") != accept_of(key):
                raise ApiProblem(f"exec in {pod} was not upgraded.", 101, "NotUpgraded", "")
        except _UNREACHABLE as problem:
            await connection.aclose()
            raise self._unreachable(problem) from None
        return ExecStream(response.extensions["network_stream"], connection)

    def _url(self, path: str, params: Mapping[str, str]) -> str:
        query = f"?{urlencode(params)}" if params else ""
        return f"https://{self._place()}{self._config.path}{quote(path)}{query}"

    def _place(self) -> str:
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        return f"{host}:{self._config.port}"

    def _headers(self, accept: str = "application/json") -> list[tuple[str, str]]:
        bearer = self._config.bearer
        shown = [("Authorization", f"Bearer {bearer}")] if bearer else []
        return [
            ("Host", self._place()),
            ("Accept", accept),
            ("User-Agent", "holdfast"),
            *shown,
        ]

    def _unreachable(self, problem: Exception) -> ClusterUnreachable:
        return ClusterUnreachable(f"The API server at {self._place()} does not answer ({type(problem).__name__}).")


def _answered(status: int, content: bytes, asked: str) -> Object:
    try:
        told = json.loads(content) if content else {}
    except ValueError:
        told = {"message": content[:300].decode("utf-8", "replace")}
    if not isinstance(told, dict):
        told = {"message": str(told)[:300]}
    if status >= 400:
        raise _problem(status, told, asked)
    return told


def _problem(status: int, told: Object, asked: str) -> ApiProblem:
    reason, said = str(told.get("reason") or ""), str(told.get("message") or "").strip()
    return ApiProblem(_sentence(status, said, asked), status, reason, said)


def _sentence(status: int, said: str, asked: str) -> str:
    if status == 403 and any(words in said for words in _OF_A_QUOTA):
        return f"The namespace's quota does not allow it: {said}"
    if status == 403 and "violates PodSecurity" in said:
        return f"The namespace's pod security does not allow it: {said}"
    if status == 403 and "being terminated" in said:
        return f"The namespace is being deleted: {said}"
    if status == 403 and said and " cannot " not in said:
        # Of an admission controller: a limit range, a policy of the cluster.
        return f"The cluster does not allow it: {said}"
    if status == 403:
        return (
            f"Holdfast's service account may not do this: {said or asked}. "
            "Apply the Role of deploy/ to the namespace, or grant what the message names."
        )
    if status == 401:
        return "The API server does not accept Holdfast's credential; renew the token or the kubeconfig."
    return f"The API server refused {asked}: {said or status}"


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    buffer = bytearray()
    async for piece in pieces:
        buffer += piece
        if len(buffer) > _MOST_LINE:
            raise UpstreamFailed("The API server sent an object without end.")
        *lines, rest = bytes(buffer).split(b"\n")
        buffer = bytearray(rest)
        for line in lines:
            if line.strip():
                yield line
        # Thousands of changes at once leave room for others.
        await asyncio.sleep(0)
