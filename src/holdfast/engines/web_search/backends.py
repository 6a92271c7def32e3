"""Owns choosing the search back end by its name in the settings."""

from holdfast.engines.fetch.network.guard import Guard
from holdfast.engines.web_search.brave import Brave
from holdfast.engines.web_search.keyless import Keyless
from holdfast.engines.web_search.model import SearchBackend
from holdfast.engines.web_search.searxng import SearXNG
from holdfast.engines.web_search.tavily import Tavily


def backend(name: str, guard: Guard, *, url: str | None = None, key: str | None = None) -> SearchBackend:
    """`ddgs`, `searxng` (needs a URL), `brave` or `tavily` (need a key; the URL is for a proxy of theirs)."""
    if name == "searxng" and url:
        return SearXNG(guard, url)
    if name == "brave" and key:
        return Brave(guard, key, url) if url else Brave(guard, key)
    if name == "tavily" and key:
        return Tavily(guard, key, url) if url else Tavily(guard, key)
    if name == "ddgs":
        return Keyless()
    raise ValueError(f"the search back end {name!r} is unknown or lacks its URL or key")
