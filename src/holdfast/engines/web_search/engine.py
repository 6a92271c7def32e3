"""Owns a web search as an agent wants it: the hits, and the text of the best two pages."""

import asyncio
from dataclasses import dataclass

from holdfast.core.errors import FieldError, HoldfastError, Invalid
from holdfast.engines.fetch.pages import FetchedPage, cut
from holdfast.engines.fetch.reader import Reader
from holdfast.engines.web_search.model import SearchBackend, WebFindings, WebHit

MAX_QUERY = 400
MAX_RESULTS = 20
RESULTS = 8
PAGES = 2
CHARACTERS = 12_000
_PAGE_SECONDS = 7.0


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What the engine found and what its best pages say."""

    query: str
    backend: str
    results: tuple[WebHit, ...]
    answer: str
    abstract: str
    fetched_pages: tuple[FetchedPage, ...]
    whole_pages: tuple[FetchedPage, ...] = ()
    """The same pages before they were cut to their shares."""


class WebSearch:
    """Searches by the configured back end and reads the top pages through the guard."""

    def __init__(self, backend: SearchBackend, reader: Reader, *, page_seconds: float = _PAGE_SECONDS) -> None:
        self._backend = backend
        self._reader = reader
        self._page_seconds = page_seconds

    async def search(self, query: str, *, count: int = RESULTS, pages: int = PAGES) -> SearchAnswer:
        """Search, then read the first `pages` hits in parallel; a page that can't be read is left out."""
        asked = " ".join(query.split())
        if not 1 <= len(asked) <= MAX_QUERY:
            problem = f"a query has 1 to {MAX_QUERY} characters; this one has {len(asked)}"
            raise Invalid("The search query is not right.", fields=[FieldError("query", problem)])
        found: WebFindings = await self._backend.search(asked, min(max(count, 1), MAX_RESULTS))
        results = _distinct(found.results)[:count]
        read = await asyncio.gather(*(self._page(hit.url) for hit in results[:pages]))
        fetched = [page for page in read if page is not None]
        share = CHARACTERS // max(len(fetched), 1)
        return SearchAnswer(
            asked,
            self._backend.name,
            results,
            found.answer,
            found.abstract,
            tuple(cut(page, share) for page in fetched),
            tuple(fetched),
        )

    async def _page(self, url: str) -> FetchedPage | None:
        try:
            async with asyncio.timeout(self._page_seconds):
                page = await self._reader.read(url)
        except (HoldfastError, TimeoutError):
            # The hit itself stays in the list; only its text is missing, which the agent can see and fetch.
            return None
        return FetchedPage(url, page.text, title=page.title, truncated=page.truncated) if page.text else None


def _distinct(results: tuple[WebHit, ...]) -> tuple[WebHit, ...]:
    seen: dict[str, WebHit] = {}
    for hit in results:
        seen.setdefault(hit.url.partition("#")[0].rstrip("/"), hit)
    return tuple(seen.values())
