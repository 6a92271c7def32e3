"""Owns the four ways to fetch: one page, several, several with their links, and on along those links."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.core.errors import FieldError, HoldfastError, Invalid
from holdfast.engines.fetch.network.url import Url, parse_url
from holdfast.engines.fetch.reader import Link, Reader, ReadPage

MAX_URLS = 5
MAX_FOLLOW = 3
MAX_PAGES = 8
CHARACTERS = 24_000
_SECONDS = 14.0
_MAX_LINKS = 40
_NOT_PAGES = (
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".webp",
    ".svg",
    ".ico",
    ".zip",
    ".gz",
    ".mp4",
    ".mp3",
    ".css",
    ".js",
    ".exe",
)


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """One page of the result; `content` holds the reason where `error`."""

    url: str
    content: str
    error: bool = False
    title: str = ""
    truncated: bool = False
    discovered_links: tuple[Link, ...] | None = None
    followed_from_discovery: bool = False


@dataclass(frozen=True, slots=True)
class FetchedPages:
    """All pages, in the order asked for, then the followed ones."""

    discover_links_enabled: bool
    pages: tuple[FetchedPage, ...]

    @property
    def total_pages(self) -> int:
        """How many pages there are, failed ones included."""
        return len(self.pages)


class Fetcher:
    """Fetches up to eight pages within one budget of characters and one of time."""

    def __init__(self, reader: Reader, *, characters: int = CHARACTERS, seconds: float = _SECONDS) -> None:
        self._reader = reader
        self._characters = characters
        self._seconds = seconds

    async def fetch(self, urls: Sequence[str], *, discover_links: bool = False, max_follow: int = 0) -> FetchedPages:
        """Fetch pages in parallel. A single one that fails raises; among several it becomes an error entry."""
        wanted = _wanted(urls, max_follow)
        deadline = asyncio.get_running_loop().time() + self._seconds
        if len(wanted) == 1 and not discover_links:
            only = await self._reader.read(wanted[0])
            return FetchedPages(False, self._shared([_entry(wanted[0], only)]))
        pages = await asyncio.gather(*(self._one(url, deadline) for url in wanted))
        if not discover_links:
            return FetchedPages(False, self._shared([_entry(*pair) for pair in zip(wanted, pages, strict=True)]))
        entries = [_with_links(_entry(url, page), page) for url, page in zip(wanted, pages, strict=True)]
        follow = _to_follow(wanted, pages, min(max_follow, MAX_FOLLOW, MAX_PAGES - len(wanted)))
        followed = await asyncio.gather(*(self._one(url, deadline) for url in follow))
        for url, page in zip(follow, followed, strict=True):
            entries.append(replace(_entry(url, page), followed_from_discovery=True))
        return FetchedPages(True, self._shared(entries))

    async def _one(self, url: str, deadline: float) -> ReadPage | HoldfastError:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._reader.read(url)
        except TimeoutError:
            return HoldfastError(f"{url} was not read within {self._seconds:g} seconds.")
        except HoldfastError as error:
            return error

    def _shared(self, entries: list[FetchedPage]) -> tuple[FetchedPage, ...]:
        good = sum(not entry.error for entry in entries)
        share = self._characters // max(good, 1)
        return tuple(entry if entry.error else cut(entry, share) for entry in entries)


def cut(entry: FetchedPage, share: int) -> FetchedPage:
    """The entry with no more than its share of characters."""
    if len(entry.content) <= share:
        return entry
    return replace(entry, content=entry.content[:share].rstrip(), truncated=True)


def _wanted(urls: Sequence[str], max_follow: int) -> list[str]:
    wanted = list(dict.fromkeys(str(parse_url(url)) for url in urls))
    if not wanted or len(wanted) > MAX_URLS:
        problem = f"give 1 to {MAX_URLS} URLs; there are {len(wanted)}"
        raise Invalid("The URLs to fetch are not right.", fields=[FieldError("urls", problem)])
    if not 0 <= max_follow <= MAX_FOLLOW:
        problem = f"follow 0 to {MAX_FOLLOW} links"
        raise Invalid("Too many links to follow.", fields=[FieldError("max_follow", problem)])
    return wanted


def _entry(url: str, page: ReadPage | HoldfastError) -> FetchedPage:
    if isinstance(page, HoldfastError):
        return FetchedPage(url, page.message, error=True)
    return FetchedPage(url, page.text, title=page.title, truncated=page.truncated)


def _with_links(entry: FetchedPage, page: ReadPage | HoldfastError) -> FetchedPage:
    if isinstance(page, HoldfastError):
        return entry
    inside = [link for link in page.links if _same_site(page.url, link.url)]
    outside = [link for link in page.links if not _same_site(page.url, link.url)]
    return replace(entry, discovered_links=tuple((inside + outside)[:_MAX_LINKS]))


def _to_follow(wanted: list[str], pages: Sequence[ReadPage | HoldfastError], count: int) -> list[str]:
    """The first unseen links of each page on its own site, taken from the pages in turn."""
    seen = set(wanted) | {page.url for page in pages if isinstance(page, ReadPage)}
    columns = [
        [link.url for link in page.links if _same_site(page.url, link.url) and _is_page(link.url)]
        for page in pages
        if isinstance(page, ReadPage)
    ]
    longest = max(map(len, columns), default=0)
    turns = [column[row] for row in range(longest) for column in columns if row < len(column)]
    return [url for url in dict.fromkeys(turns) if url not in seen][:count]


def _is_page(url: str) -> bool:
    return not url.partition("?")[0].lower().endswith(_NOT_PAGES)


def _same_site(page: str, link: str) -> bool:
    try:
        return _site(parse_url(page)) == _site(parse_url(link))
    except Invalid:
        return False


def _site(url: Url) -> str:
    return url.host.removeprefix("www.")
