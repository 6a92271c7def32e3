"""Owns the default back end, which needs no key: public engines asked through the ddgs library."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ddgs import DDGS
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

from holdfast.core.errors import RateLimited, UpstreamFailed
from holdfast.engines.web_search.model import WebFindings, result

_SECONDS = 8


class Keyless:
    """Whatever public search engines answer today. Good for a start, not for a team's daily load."""

    name = "the keyless search"

    def __init__(self, threads: int = 4) -> None:
        # Threads of its own: a search that hangs must not hold up others.
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="ddgs")

    async def search(self, query: str, count: int) -> WebFindings:
        try:
            async with asyncio.timeout(_SECONDS + 4):
                hits = await asyncio.get_running_loop().run_in_executor(self._threads, _ask, query, count)
        except RatelimitException:
            raise RateLimited("The public search engines ask us to slow down. Try again in a minute.") from None
        except (TimeoutException, TimeoutError):
            raise _failed("they did not answer in time") from None
        except DDGSException as error:
            if "no results" in str(error).lower() and not _is_network(error):
                return WebFindings(())
            raise _failed("they could not be reached") from None
        found = [result(hit.get("title"), hit.get("href"), hit.get("body")) for hit in hits]
        return WebFindings(tuple(hit for hit in found if hit is not None))


def _ask(query: str, count: int) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = DDGS(timeout=_SECONDS).text(query, max_results=count)
    return hits


def _is_network(error: Exception) -> bool:
    words = str(error).lower()
    return any(word in words for word in ("connect", "dns", "resolve", "timeout", "tls", "network"))


def _failed(why: str) -> UpstreamFailed:
    return UpstreamFailed(
        f"The public search engines gave nothing: {why}. The operator can configure SearXNG, Brave or Tavily instead."
    )
