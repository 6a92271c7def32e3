"""The Brave Search API as documented: token in a header, count at most 20, rate limits in headers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.web import serve

TOKEN = "BSA-test-token"


@dataclass
class FakeBrave:
    url: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)
    left: int = 1_000

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path != "/res/v1/web/search" or request.method != "GET":
            return web.Response(status=404)
        if request.headers.get("X-Subscription-Token") != TOKEN:
            error = {"code": "SUBSCRIPTION_TOKEN_INVALID", "detail": "The provided token is invalid.", "status": 422}
            return web.json_response({"type": "ErrorResponse", "error": error}, status=422)
        if self.left == 0:
            limits = {"X-RateLimit-Limit": "1, 2000", "X-RateLimit-Remaining": "0, 12", "X-RateLimit-Reset": "1, 90000"}
            return web.json_response({"type": "ErrorResponse"}, status=429, headers=limits)
        self.left -= 1
        query, count = request.query.get("q", ""), int(request.query.get("count", "20"))
        if not 1 <= len(query) <= 400 or not 1 <= count <= 20:
            return web.json_response({"type": "ErrorResponse", "error": {"code": "VALIDATION"}}, status=422)
        found = {"type": "search", "results": self.results[:count], "family_friendly": True}
        return web.json_response({"type": "search", "query": {"original": query}, "web": found})


@asynccontextmanager
async def brave() -> AsyncIterator[FakeBrave]:
    made = FakeBrave()
    async with serve(made.answer) as port:
        made.url = f"http://127.0.0.1:{port}"
        yield made
