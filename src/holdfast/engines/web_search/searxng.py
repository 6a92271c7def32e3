"""Owns SearXNG, the metasearch engine that people host themselves."""

from typing import Any

from holdfast.core.errors import HoldfastError, UpstreamFailed
from holdfast.engines.fetch.network.api import JsonApi
from holdfast.engines.fetch.network.guard import FetchReply, Guard
from holdfast.engines.web_search.model import WebFindings, objects, plain, result


class SearXNG:
    """An instance at `base_url`, with `json` among its `search.formats`."""

    name = "SearXNG"

    def __init__(self, guard: Guard, base_url: str) -> None:
        self._api = JsonApi(guard, base_url, name=self.name, explain=_explain)

    async def search(self, query: str, count: int) -> WebFindings:
        found = await self._api.get("/search", {"q": query, "format": "json"})
        hits = [result(hit.get("title"), hit.get("url"), hit.get("content")) for hit in objects(found, "results")]
        return WebFindings(tuple(hit for hit in hits if hit is not None)[:count], _answer(found), _abstract(found))


def _answer(found: dict[str, Any]) -> str:
    # Answers were strings until 2024 and are objects since.
    for answer in found.get("answers", []):
        return plain(answer.get("answer") if isinstance(answer, dict) else answer)
    return ""


def _abstract(found: dict[str, Any]) -> str:
    return next((plain(box.get("content")) for box in objects(found, "infoboxes") if box.get("content")), "")


def _explain(reply: FetchReply) -> HoldfastError | None:
    if reply.status == 403:
        return UpstreamFailed("SearXNG refused JSON; its settings.yml needs `json` under search.formats.")
    return None
