"""Owns inspecting a page: it and its stylesheets come through the guard, the report from a worker process."""

import asyncio
import re

from holdfast.core.errors import HoldfastError
from holdfast.engines.fetch.network.guard import FetchFailed, FetchLimits, FetchReply
from holdfast.engines.fetch.network.url import BadUrl
from holdfast.engines.fetch.reader import Reader
from holdfast.engines.fetch.workers import Workers
from holdfast.engines.site.model import SiteReport, Stylesheet

JOBS = "holdfast.engines.site.analysis"
_PAGE = FetchLimits(bytes=2_000_000)
_SHEET = FetchLimits(bytes=400_000, seconds=6.0)
_MAX_SHEETS = 8
_MAX_IMPORTS = 4
_MAX_CSS = 800_000
_SECONDS = 25.0
_IMPORT = re.compile(rb"""@import\s+(?:url\(\s*)?["']?([^"')\s;]{1,500})""")


class SiteInspector:
    """Reads one page's HTML and CSS, and nothing that a browser would have to run."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._workers = Workers(JOBS, size=1)

    async def inspect(self, url: str) -> SiteReport:
        """The report on a page; the errors of a fetch where it can't be had."""
        page = await self._reader.fetch(url, limits=_PAGE)
        if page.content_type not in ("text/html", "application/xhtml+xml", ""):
            raise FetchFailed(f"{page.url} is {page.content_type}; only web pages are inspected.")
        params = {"url": str(page.url), "charset": page.charset}
        linked = await self._workers.run("links", params, [page.body], seconds=_SECONDS)
        sheets = await self._sheets(linked[:_MAX_SHEETS])
        sheets += await self._sheets(_imports(sheets)[:_MAX_IMPORTS])
        bodies = _within_budget([reply.body for _, reply in sheets if isinstance(reply, FetchReply)])
        report = await self._workers.run("report", params, [page.body, *bodies], seconds=_SECONDS)
        return SiteReport.model_validate({**report, "stylesheets": [_listed(sheet, reply) for sheet, reply in sheets]})

    async def aclose(self) -> None:
        """End the worker process."""
        await self._workers.aclose()

    async def _sheets(self, urls: list[str]) -> list[tuple[str, FetchReply | HoldfastError]]:
        return list(zip(urls, await asyncio.gather(*(self._sheet(url) for url in urls)), strict=True))

    async def _sheet(self, url: str) -> FetchReply | HoldfastError:
        try:
            return await self._reader.fetch(url, limits=_SHEET)
        except HoldfastError as error:
            return error


def _imports(sheets: list[tuple[str, FetchReply | HoldfastError]]) -> list[str]:
    found: list[str] = []
    for _, reply in sheets:
        if isinstance(reply, FetchReply):
            for reference in _IMPORT.findall(reply.body[:5_000]):
                try:
                    found.append(str(reply.url.join(reference.decode("utf-8", "replace"))))
                except BadUrl:
                    continue
    return list(dict.fromkeys(found))


def _within_budget(bodies: list[bytes]) -> list[bytes]:
    left = _MAX_CSS
    kept = []
    for body in bodies:
        kept.append(body[:left])
        left -= len(kept[-1])
    return kept


def _listed(url: str, reply: FetchReply | HoldfastError) -> Stylesheet:
    if isinstance(reply, HoldfastError):
        return Stylesheet(url=url, error=reply.message)
    return Stylesheet(url=url, bytes=len(reply.body))
