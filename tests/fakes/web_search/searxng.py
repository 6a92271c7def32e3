"""A SearXNG instance as its API documentation describes it: GET /search with format=json."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.web import serve


@dataclass
class FakeSearXNG:
    """`results` are answered to every query; `formats` is what settings.yml allows."""

    url: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    infoboxes: list[dict[str, Any]] = field(default_factory=list)
    formats: tuple[str, ...] = ("html", "json")
    queries: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path not in ("/search", "/"):
            return web.Response(status=404)
        query = request.query.get("q", "")
        if not query:
            return web.Response(status=400, text="No query")
        if request.query.get("format", "html") not in self.formats:
            return web.Response(status=403, text="Forbidden")
        self.queries.append(query)
        return web.json_response(
            {
                "query": query,
                "number_of_results": len(self.results),
                "results": self.results,
                "answers": self.answers,
                "corrections": [],
                "infoboxes": self.infoboxes,
                "suggestions": [],
                "unresponsive_engines": [],
            }
        )


@asynccontextmanager
async def searxng() -> AsyncIterator[FakeSearXNG]:
    made = FakeSearXNG()
    async with serve(made.answer) as port:
        made.url = f"http://127.0.0.1:{port}"
        yield made


def hit(title: str, url: str, content: str = "") -> dict[str, Any]:
    """One result with the fields that SearXNG really sends."""
    return {
        "url": url,
        "title": title,
        "content": content,
        "engine": "duckduckgo",
        "engines": ["duckduckgo"],
        "score": 1.0,
    }
