"""Owns asking a site's robots.txt before a page of it is read."""

import asyncio
import time
from collections import OrderedDict

from holdfast.engines.fetch.network.guard import AGENT, FetchFailed, FetchLimits, Guard
from holdfast.engines.fetch.network.url import Url, parse_url
from holdfast.engines.fetch.workers import Workers

_LIMITS = FetchLimits(bytes=500_000, seconds=5.0)
_KEPT_SECONDS = 3_600.0
_KEPT_SITES = 256


class RobotsDisallow(FetchFailed):
    """The site asks robots to stay away from this page."""

    code = "robots_disallowed"

    def __init__(self, url: Url, why: str) -> None:
        super().__init__(f"{url} is not read: {why}.")


class Robots:
    """Remembers each site's rules for an hour."""

    def __init__(self, guard: Guard, workers: Workers) -> None:
        self._guard = guard
        self._workers = workers
        self._sites: OrderedDict[str, tuple[float, bytes | None]] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def admit(self, url: Url) -> None:
        """Return when the page may be read; RobotsDisallow otherwise."""
        rules = await self._rules(url)
        if rules is None:
            raise RobotsDisallow(url, f"{url.origin}/robots.txt could not be had (RFC 9309 then asks to stay away)")
        if not rules:
            return
        allowed = await self._workers.run("robots", {"url": str(url), "agent": AGENT}, [rules], seconds=3)
        if not allowed:
            raise RobotsDisallow(url, "the site's robots.txt disallows it")

    async def _rules(self, url: Url) -> bytes | None:
        origin = url.origin
        try:
            async with self._locks.setdefault(origin, asyncio.Lock()):
                kept = self._sites.get(origin)
                if kept is None or kept[0] < time.monotonic():
                    rules = await self._fetch(origin)
                    # A site that was down gets asked again soon.
                    kept = (time.monotonic() + (_KEPT_SECONDS if rules is not None else 30.0), rules)
                    self._sites[origin] = kept
                self._sites.move_to_end(origin)
        finally:
            while len(self._sites) > _KEPT_SITES:
                self._locks.pop(self._sites.popitem(last=False)[0], None)
            if origin not in self._sites:
                self._locks.pop(origin, None)
        return kept[1]

    async def _fetch(self, origin: str) -> bytes | None:
        try:
            reply = await self._guard.get(parse_url(f"{origin}/robots.txt"), limits=_LIMITS)
        except FetchFailed:
            return None
        if reply.status >= 500:
            return None
        return reply.body if reply.status < 400 else b""
