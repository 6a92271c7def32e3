"""Owns the Brave Search API."""

from holdfast.core.errors import HoldfastError, UpstreamFailed
from holdfast.engines.fetch.network.api import JsonApi, seconds_until, too_often
from holdfast.engines.fetch.network.guard import FetchReply, Guard
from holdfast.engines.web_search.model import WebFindings, objects, plain, result


class Brave:
    """Brave's web index, by subscription token."""

    name = "Brave Search"

    def __init__(self, guard: Guard, key: str, base_url: str = "https://api.search.brave.com") -> None:
        self._api = JsonApi(guard, base_url, name=self.name, headers={"x-subscription-token": key}, explain=_explain)

    async def search(self, query: str, count: int) -> WebFindings:
        parameters: dict[str, str | int] = {"q": query, "count": min(count, 20), "text_decorations": "false"}
        found = await self._api.get("/res/v1/web/search", parameters)
        hits = [
            result(hit.get("title"), hit.get("url"), hit.get("description")) for hit in objects(found, "web", "results")
        ]
        boxes = objects(found, "infobox", "results")
        abstract = next((plain(box.get("long_desc") or box.get("description")) for box in boxes), "")
        return WebFindings(tuple(hit for hit in hits if hit is not None), abstract=abstract)


def _explain(reply: FetchReply) -> HoldfastError | None:
    if reply.status == 429:
        return too_often(Brave.name, seconds_until(reply.headers.get("x-ratelimit-reset", "")))
    if reply.status == 422 and b"SUBSCRIPTION_TOKEN_INVALID" in reply.body:
        return UpstreamFailed("Brave Search refused our subscription token; the operator has to set it.")
    return None
