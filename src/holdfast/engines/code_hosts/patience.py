"""Owns asking a host for a lot: page after page, trying again what falters, waiting out limits up to a bound."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from holdfast.core.errors import RateLimited, UpstreamFailed
from holdfast.core.text.jsontext import loads_strange
from holdfast.engines.code_hosts.apis import Faltering, HostApi
from holdfast.engines.code_hosts.history import moment
from holdfast.engines.fetch.network.api import Parameters
from holdfast.engines.fetch.network.guard import FetchFailed, FetchLimits, FetchReply

PAGE = 100
# A hundred issues may have 65,536 characters each.
LISTING = FetchLimits(bytes=60_000_000, seconds=60.0)
_NEXT = re.compile(r'<([^>]*)>\s*;[^,]*\brel="?next"?')
Sleep = Callable[[float], Awaitable[None]]
Following = tuple[str, Parameters]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HostListing:
    """A list that the host sorts by change: where it is, how it is asked, and how its moments are spelled."""

    path: str
    parameters: Parameters
    since_name: str
    spell: Callable[[int], str]

    def asking(self, since: int | None) -> Following:
        """What to ask for entries that changed at a moment or later."""
        begin = {} if since is None else {self.since_name: self.spell(since)}
        return self.path, {"per_page": PAGE, **self.parameters, **begin}

    def moment(self, entry: Mapping[str, Any]) -> int:
        """When an entry changed last."""
        return moment(entry.get("updated_at")) or 0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long we go on: one wait and all waits of a request in seconds, and tries at a host that falters."""

    wait_seconds: int = 120
    tries: int = 4
    first_seconds: float = 1.0
    """Before the second try; each later one waits twice as long."""
    untold_seconds: int = 60
    """The wait for a limit that does not tell its end, as GitHub asks for."""


PATIENCE = Patience()


class PatientApi:
    """A host's API for the reader of long histories."""

    def __init__(self, host: HostApi, *, patience: Patience, sleep: Sleep = asyncio.sleep) -> None:
        self._host = host
        self._patience = patience
        self._sleep = sleep

    async def reply(self, path: str, parameters: Parameters = {}) -> FetchReply:
        """A successful answer as it came."""
        return await self._patiently(lambda: self._host.json.reply(path, parameters))

    async def get(self, path: str, parameters: Parameters = {}) -> Any:
        """The JSON at a path."""
        return _json(self._host.name, await self.reply(path, parameters))

    async def post(self, path: str, body: Mapping[str, Any], check: Callable[[Any], T]) -> T:
        """What `check` makes of the JSON that answers a body; its RateLimited is waited out like any other."""

        async def send() -> T:
            return check(await self._host.json.post(path, body))

        return await self._patiently(send)

    async def page(self, path: str, parameters: Parameters = {}) -> tuple[list[dict[str, Any]], Following | None]:
        """One page of a list, and what to ask for the next one."""
        reply = await self.reply(path, parameters)
        found = _json(self._host.name, reply)
        if not isinstance(found, list):
            raise UpstreamFailed(f"{self._host.name} answered something else than a list.")
        return [entry for entry in found if isinstance(entry, dict)], self._next(reply, path, parameters)

    async def all(self, path: str, parameters: Parameters = {}, *, most: int) -> AsyncGenerator[dict[str, Any], None]:
        """The entries of a list over all its pages, each once, up to `most`."""
        seen: set[str] = set()
        following: Following | None = (path, {"per_page": PAGE, **parameters})
        while following is not None:
            entries, following = await self.page(*following)
            fresh = [entry for entry in entries if _identity(entry) not in seen]
            for entry in fresh:
                seen.add(_identity(entry))
                yield entry
                if len(seen) >= most:
                    return
            if not fresh:
                # A page that only repeats the last ones leads nowhere.
                return

    async def changed(
        self, listing: HostListing, since: int | None
    ) -> AsyncGenerator[tuple[dict[str, Any], int], None]:
        """The entries of a list from `since` on with their moments, the longest unchanged first.

        After each page the list is asked anew from its last moment. Page numbers would lose entries: one that changes
        meanwhile moves to the end, and the next page begins one entry too late.
        """
        at, seen = since, set[tuple[str, int]]()
        numbered: int | None = None
        """From when on pages had to be taken by number after all: more entries than a page holds share a moment."""
        fresh = 0
        following: Following | None = listing.asking(at)
        while following is not None:
            entries, following = await self.page(*following)
            last = at
            for entry in entries:
                last = listing.moment(entry)
                if (key := (_identity(entry), last)) not in seen:
                    seen.add(key)
                    fresh += 1
                    yield entry, last
            if following is not None and last is not None and (at is None or last > at):
                at, following = last, listing.asking(last)
                seen = {key for key in seen if key[1] >= (last if numbered is None else numbered)}
            elif following is not None:
                numbered = at if numbered is None else numbered
            elif numbered is not None and fresh:
                # Some of them may have been lost between pages: look again until there is no news.
                at, fresh, following = numbered, 0, listing.asking(numbered)

    def _next(self, reply: FetchReply, path: str, parameters: Parameters) -> Following | None:
        if "x-next-page" in reply.headers:
            page = reply.headers["x-next-page"].strip()
            return (path, {**parameters, "page": page}) if page else None
        linked = _NEXT.search(reply.headers.get("link", ""))
        if linked is None:
            return None
        base = self._host.base_url + "/"
        if not linked.group(1).startswith(base):
            # The token goes nowhere else, whatever an answer says.
            raise UpstreamFailed(f"{self._host.name} names a next page outside of {self._host.base_url}.")
        return linked.group(1)[len(base) - 1 :], {}

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._host.json.aclose()

    async def _patiently(self, send: Callable[[], Awaitable[T]]) -> T:
        waited, tries, pause = 0, 1, self._patience.first_seconds
        untold = self._patience.untold_seconds
        while True:
            try:
                return await send()
            except RateLimited as limit:
                told = limit.headers.get("Retry-After")
                seconds = int(told) if told is not None else untold
                untold = untold if told is not None else 2 * untold
                waited += seconds
                if waited > self._patience.wait_seconds:
                    raise
                await self._sleep(seconds)
            except (Faltering, FetchFailed):
                if tries >= self._patience.tries:
                    raise
                tries += 1
                await self._sleep(pause)
                pause *= 2


def _identity(entry: dict[str, Any]) -> str:
    for name in ("id", "filename", "tag_name", "new_path"):
        if entry.get(name) is not None:
            return f"{name} {entry[name]}"
    return orjson.dumps(entry).decode()


def _json(name: str, reply: FetchReply) -> Any:
    try:
        return loads_strange(reply.body)
    except orjson.JSONDecodeError:
        raise UpstreamFailed(f"{name} answered something that is no usable JSON; is its address right?") from None
