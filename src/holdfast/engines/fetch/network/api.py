"""Owns talking JSON to a service that the operator configured, through the guard like everything else."""

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import orjson

from holdfast.core.errors import HoldfastError, RateLimited, UpstreamFailed
from holdfast.core.text.jsontext import loads_strange
from holdfast.engines.fetch.network.guard import FetchLimits, FetchReply, Guard, Request
from holdfast.engines.fetch.network.url import Url, parse_url

_LIMITS = FetchLimits(bytes=10_000_000, seconds=12.0)

Parameters = Mapping[str, str | int]
Explain = Callable[[FetchReply], HoldfastError | None]
"""A service's own reading of an answer that is not a success; None leaves it to the usual one."""


class CredentialRefused(UpstreamFailed):
    """The service does not take our key or token."""


class JsonApi:
    """One service: its base URL, its name in messages, and the headers that every request carries."""

    def __init__(
        self,
        guard: Guard,
        base_url: str,
        *,
        name: str,
        headers: Mapping[str, str] = {},
        explain: Explain = lambda reply: None,
        limits: FetchLimits = _LIMITS,
    ) -> None:
        self._base = str(parse_url(base_url)).rstrip("/")
        self._guard = guard.trusting(base_url)
        self._name = name
        self._headers = {"accept": "application/json", **headers}
        self._explain = explain
        self._limits = limits

    async def get(self, path: str, parameters: Parameters = {}) -> Any:
        """The JSON at a path below the base URL."""
        return _parsed(self._name, await self.reply(path, parameters))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that answers a JSON body."""
        headers = {**self._headers, "content-type": "application/json"}
        return _parsed(self._name, await self._send(Request(self._url(path), "POST", headers, orjson.dumps(body))))

    async def reply(self, path: str, parameters: Parameters = {}, *, accept: str | None = None) -> FetchReply:
        """A successful answer as it came, for those who need its headers or raw body."""
        headers = self._headers if accept is None else {**self._headers, "accept": accept}
        return await self._send(Request(self._url(path, parameters), headers=headers))

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._guard.aclose()

    def _url(self, path: str, parameters: Parameters = {}) -> Url:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return parse_url(f"{self._base}{path}{query}")

    async def _send(self, request: Request) -> FetchReply:
        reply = await self._guard.send(request, limits=self._limits)
        if 200 <= reply.status < 300:
            if reply.truncated:
                raise UpstreamFailed(f"{self._name} answered more than {self._limits.bytes // 1_000_000} MB.")
            return reply
        raise self._explain(reply) or self._usual(reply)

    def _usual(self, reply: FetchReply) -> HoldfastError:
        if reply.status == 429:
            return too_often(self._name, seconds_until(reply.headers.get("retry-after", "")))
        if reply.status in (401, 403):
            return CredentialRefused(
                f"{self._name} refused our credential ({reply.status}); the operator has to set it."
            )
        return UpstreamFailed(f"{self._name} answered {reply.status}.")


def too_often(name: str, seconds: int | None) -> RateLimited:
    """The error for a service that wants us to wait."""
    when = f"Try again in {seconds} seconds" if seconds is not None else "Try again later"
    headers = {} if seconds is None else {"Retry-After": str(seconds)}
    return RateLimited(f"The rate limit of {name} is used up. {when}.", headers=headers)


def seconds_until(text: str) -> int | None:
    """Seconds from a `Retry-After` or a reset moment in epoch seconds."""
    first = text.partition(",")[0].strip()
    if not first.isdecimal():
        return None
    number = int(first)
    return max(1, number - int(time.time())) if number > 1_000_000_000 else max(1, number)


def _parsed(name: str, reply: FetchReply) -> Any:
    try:
        return loads_strange(reply.body)
    except orjson.JSONDecodeError:
        raise UpstreamFailed(f"{name} answered something that is no usable JSON; is its address right?") from None
