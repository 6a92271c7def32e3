"""Tavily's search endpoint as documented: POST /search with a bearer key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.web import serve

KEY = "tvly-test-key"
_KNOWN = {"query", "max_results", "search_depth", "include_answer", "topic", "include_raw_content", "include_domains"}


@dataclass
class FakeTavily:
    url: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)
    short_answer: str | None = None
    status: int = 200

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path != "/search" or request.method != "POST":
            return web.Response(status=404)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"detail": {"error": "Unauthorized: missing or invalid API key."}}, status=401)
        if self.status != 200:
            return web.json_response({"detail": {"error": "limit"}}, status=self.status)
        asked = await request.json()
        if not asked.get("query") or set(asked) - _KNOWN or not 0 <= asked.get("max_results", 5) <= 20:
            return web.json_response({"detail": {"error": "bad request"}}, status=400)
        found = {
            "query": asked["query"],
            "answer": self.short_answer if asked.get("include_answer") else None,
            "images": [],
            "results": self.results[: asked.get("max_results", 5)],
            "response_time": 0.1,
            "request_id": "r1",
        }
        return web.json_response(found)


@asynccontextmanager
async def tavily() -> AsyncIterator[FakeTavily]:
    made = FakeTavily()
    async with serve(made.answer) as port:
        made.url = f"http://127.0.0.1:{port}"
        yield made
