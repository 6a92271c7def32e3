"""Owns reading one page: robots, fetch, then text by what the page is."""

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from holdfast.core.errors import RateLimited
from holdfast.engines.fetch.charset import decode
from holdfast.engines.fetch.markdown import MAX_TEXT
from holdfast.engines.fetch.network.guard import FetchFailed, FetchLimits, FetchReply, Guard
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.fetch.robots import Robots
from holdfast.engines.fetch.workers import Workers

JOBS = "holdfast.engines.fetch.reading"
_ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,application/json;q=0.8,*/*;q=0.1"
_MAX_HTML = 2_000_000
_MAX_PDF = 20_000_000
_PAGE = FetchLimits(bytes=_MAX_HTML, bytes_of_type={"application/pdf": _MAX_PDF, "application/octet-stream": _MAX_PDF})
_TEXTUAL = ("json", "xml", "yaml", "javascript", "toml", "csv", "x-sh", "sql", "graphql")
_KEPT_SECONDS = 300.0
_KEPT_PAGES = 64


@dataclass(frozen=True, slots=True)
class Link:
    """Where a page points to, and the words it uses."""

    url: str
    text: str


@dataclass(frozen=True, slots=True)
class ReadPage:
    """What a URL says, for reading. `url` is where the redirects ended."""

    url: str
    title: str
    text: str
    kind: Literal["html", "pdf", "text"]
    links: tuple[Link, ...] = ()
    description: str = ""
    truncated: bool = False


class Reader:
    """Reads pages and keeps them for five minutes, so that a searched page is free to fetch."""

    def __init__(self, guard: Guard, *, honour_robots: bool = True) -> None:
        self.guard = guard
        self._workers = Workers(JOBS)
        self._robots = Robots(guard, self._workers) if honour_robots else None
        self._pages: OrderedDict[str, tuple[float, ReadPage]] = OrderedDict()

    async def read(self, url: str) -> ReadPage:
        """The page behind a URL; BadUrl, Blocked, RobotsDisallow, FetchFailed or ContentUnreadable otherwise."""
        parsed = parse_url(url)
        kept = self._pages.get(str(parsed))
        if kept is not None and kept[0] > time.monotonic():
            return kept[1]
        page = await self._page(await self.fetch(url))
        self._pages[str(parsed)] = (time.monotonic() + _KEPT_SECONDS, page)
        self._pages.move_to_end(str(parsed))
        while len(self._pages) > _KEPT_PAGES:
            self._pages.popitem(last=False)
        return page

    async def fetch(self, url: str, *, limits: FetchLimits = _PAGE) -> FetchReply:
        """The successful answer for a URL, robots.txt honoured on every hop."""
        admit = self._robots.admit if self._robots else None
        reply = await self.guard.get(parse_url(url), headers={"accept": _ACCEPT}, limits=limits, before_hop=admit)
        if reply.status == 429:
            after = reply.headers.get("retry-after", "")
            wait = f" and asks to wait {after} seconds" if after.isdecimal() else ""
            raise RateLimited(f"{reply.url.host} says that it was asked too often{wait}.")
        if not 200 <= reply.status < 300:
            raise FetchFailed(f"{reply.url} answered {reply.status}.")
        return reply

    async def aclose(self) -> None:
        """End the worker processes."""
        await self._workers.aclose()

    async def _page(self, reply: FetchReply) -> ReadPage:
        kind = _kind(reply)
        if kind == "pdf":
            if reply.truncated:
                raise FetchFailed(f"{reply.url} is a PDF of more than {_MAX_PDF // 1_000_000} MB.")
            found = await self._workers.run("pdf", {}, [reply.body], seconds=10)
            return ReadPage(
                str(reply.url), found["title"], found["text"], "pdf", truncated=len(found["text"]) >= MAX_TEXT
            )
        charset = reply.charset
        if kind == "text":
            text = decode(reply.body[: MAX_TEXT * 4], charset)
            return ReadPage(
                str(reply.url), "", text[:MAX_TEXT], "text", truncated=reply.truncated or len(text) > MAX_TEXT
            )
        found = await self._workers.run("html", {"url": str(reply.url), "charset": charset}, [reply.body], seconds=6)
        return ReadPage(
            str(reply.url),
            found["title"],
            found["text"],
            "html",
            links=tuple(Link(link["url"], link["text"]) for link in found["links"]),
            description=found["description"],
            truncated=reply.truncated or len(found["text"]) >= MAX_TEXT,
        )


def _kind(reply: FetchReply) -> Literal["html", "pdf", "text"]:
    declared, start = reply.content_type, reply.body[:1_024].lstrip()
    if start.startswith(b"%PDF-"):
        return "pdf"
    if declared in ("text/html", "application/xhtml+xml"):
        return "html"
    if b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FetchFailed(f"{reply.url} is {declared or 'binary'}; only web pages, PDF and text are read.")
    if declared.startswith("text/") or any(word in declared for word in _TEXTUAL):
        return "text"
    if declared in ("", "application/octet-stream"):
        return "html" if start[:200].lower().startswith((b"<!doctype html", b"<html")) else "text"
    raise FetchFailed(f"{reply.url} is {declared}; only web pages, PDF and text are read.")
