"""Owns what every search back end returns, whatever its own format."""

import html
import re
from dataclasses import dataclass
from typing import Any, Protocol

_TAG = re.compile(r"<[^<>]{1,100}>")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class WebHit:
    """One hit: a page and what the engine quotes of it."""

    title: str
    url: str
    snippet: str


@dataclass(frozen=True, slots=True)
class WebFindings:
    """All hits, best first; `answer` and `abstract` where the engine gives them."""

    results: tuple[WebHit, ...]
    answer: str = ""
    abstract: str = ""


class SearchBackend(Protocol):
    """A web search engine."""

    name: str

    async def search(self, query: str, count: int) -> WebFindings:
        """Up to `count` hits; UpstreamFailed or RateLimited when the engine does not answer."""
        ...


def result(title: object, url: object, snippet: object) -> WebHit | None:
    """A hit from whatever a provider sent; None unless it has a web address."""
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return None
    return WebHit(plain(title)[:300] or url, url, plain(snippet)[:1_000])


def plain(text: object) -> str:
    """Text without markup and entities, on one line."""
    return _SPACE.sub(" ", html.unescape(_TAG.sub("", str(text or "")))).strip()


def objects(value: Any, *path: str) -> list[dict[str, Any]]:
    """The JSON objects in a list below `path`; nothing where the provider sent another shape."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
