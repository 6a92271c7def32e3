"""Owns the Tavily search API."""

from holdfast.core.errors import HoldfastError
from holdfast.engines.fetch.network.api import JsonApi, too_often
from holdfast.engines.fetch.network.guard import FetchReply, Guard
from holdfast.engines.web_search.model import WebFindings, objects, plain, result


class Tavily:
    """Tavily's index, by API key; it also writes a short answer."""

    name = "Tavily"

    def __init__(self, guard: Guard, key: str, base_url: str = "https://api.tavily.com") -> None:
        headers = {"authorization": f"Bearer {key}"}
        self._api = JsonApi(guard, base_url, name=self.name, headers=headers, explain=_explain)

    async def search(self, query: str, count: int) -> WebFindings:
        asked = {"query": query, "max_results": min(count, 20), "search_depth": "basic", "include_answer": True}
        found = await self._api.post("/search", asked)
        hits = [result(hit.get("title"), hit.get("url"), hit.get("content")) for hit in objects(found, "results")]
        return WebFindings(tuple(hit for hit in hits if hit is not None), answer=plain(found.get("answer")))


def _explain(reply: FetchReply) -> HoldfastError | None:
    # 432 and 433 are Tavily's own: the plan's or the pay-as-you-go limit.
    return too_often(Tavily.name, None) if reply.status in (432, 433) else None
