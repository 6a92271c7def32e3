"""Owns the ways out to the web as one thing: search, pages, sites and code hosts, all through one guard."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.engines.code_hosts.engine import CodeSearch
from holdfast.engines.code_hosts.github import GitHub
from holdfast.engines.code_hosts.gitlab import GitLab
from holdfast.engines.fetch.network.guard import Guard
from holdfast.engines.fetch.pages import Fetcher
from holdfast.engines.fetch.reader import Reader
from holdfast.engines.site.inspector import SiteInspector
from holdfast.engines.web_search.backends import backend
from holdfast.engines.web_search.engine import WebSearch


@dataclass(frozen=True, slots=True)
class WebAccess:
    """What the research and code tools are made of."""

    guard: Guard
    reader: Reader
    fetcher: Fetcher
    inspector: SiteInspector
    search: WebSearch
    github: CodeSearch
    gitlab: CodeSearch

    async def close(self) -> None:
        """End workers and connections."""
        await self.inspector.aclose()
        await self.reader.aclose()
        await self.guard.aclose()


def web_access(
    *,
    search_backend: str,
    search_url: str | None,
    search_key: str | None,
    allow_private: Sequence[str],
    github_url: str,
    github_token: str | None,
    gitlab_url: str,
    gitlab_token: str | None,
) -> WebAccess:
    """Everything on one guard, so that one list says which private hosts may be reached."""
    guard = Guard(allow_private=allow_private)
    reader = Reader(guard)
    return WebAccess(
        guard=guard,
        reader=reader,
        fetcher=Fetcher(reader),
        inspector=SiteInspector(reader),
        search=WebSearch(backend(search_backend, guard, url=search_url, key=search_key), reader),
        github=CodeSearch(GitHub(guard, token=github_token, base_url=github_url)),
        gitlab=CodeSearch(GitLab(guard, token=gitlab_token, base_url=gitlab_url)),
    )
