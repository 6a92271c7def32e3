"""Owns the research tools of chats: web_search, fetch_url, code_search, gitlab_code_search and calculator."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines import calculator
from holdfast.engines.code_hosts.engine import MAX_QUERY as MAX_CODE_QUERY
from holdfast.engines.code_hosts.engine import RESULTS, CodeRequest, CodeSearch
from holdfast.engines.code_hosts.model import MAX_PATHS, Hits, Overview
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.fetch.pages import CHARACTERS, MAX_FOLLOW, MAX_URLS, FetchedPage, Fetcher, cut
from holdfast.engines.llm.model import Json, LoopTool, Outcome
from holdfast.engines.web import WebAccess
from holdfast.engines.web_search.engine import MAX_QUERY, WebSearch
from holdfast.features.server_tools.chat_adapter import ChatInput, adapted, json_text
from holdfast.features.server_tools.chat_gate import ResearchGate
from holdfast.features.server_tools.chat_selection import ContextSize

CODE_CHARACTERS = 60_000
"""What the files of one answer share."""

_HITS: dict[ContextSize, int] = {"low": 5, "medium": 8, "high": 12}
_Url = Annotated[str, Field(max_length=2_048)]
_Path = Annotated[str, Field(max_length=1_000)]


class WebSearchInput(ChatInput):
    query: str = Field(max_length=MAX_QUERY, description="What to look for, as one would type it into a search engine.")


class FetchInput(ChatInput):
    url: _Url | None = Field(None, description="One page to read; http or https.")
    urls: list[_Url] | None = Field(None, description=f"Several pages at once, at most {MAX_URLS}.")
    discover_links: bool = Field(False, description="Also list the links of each page.")
    max_follow: int = Field(
        0, ge=0, le=MAX_FOLLOW, description="With discover_links: how many links on the same site to read as well."
    )


class CodeInput(ChatInput):
    query: str | None = Field(None, max_length=MAX_CODE_QUERY, description="Words in the code. This or repository.")
    repository: str | None = Field(None, max_length=500, description="owner/name or its address, to review or browse.")
    path: _Path | None = Field(None, description="A file or directory of the repository.")
    paths: list[_Path] | None = Field(None, description=f"Several of them, at most {MAX_PATHS}.")
    language: str | None = Field(None, max_length=50, description="With query: only this language, such as python.")
    max_results: int = Field(RESULTS, ge=1, le=30, description="With query: how many files at most.")


class GitLabInput(CodeInput):
    max_results: int = Field(RESULTS, ge=1, le=20, description="With query: how many files at most.")


class CalculatorInput(ChatInput):
    expression: str = Field(description="For example 10000 * (1 + 0.05)^3; at most 1,000 characters.")


class ResearchTools:
    """The five tools over the engines that their MCP twins use, each call through the gate."""

    def __init__(self, web: WebAccess, gate: ResearchGate) -> None:
        self._web = web
        self._gate = gate

    def tools(self, project_id: str, names: Iterable[str], *, context_size: ContextSize = "medium") -> list[LoopTool]:
        """Those that are named, for one project's budget."""
        made = {
            "web_search": lambda: self._web_search(project_id, self._web.search, _HITS[context_size]),
            "fetch_url": lambda: self._fetch_url(project_id, self._web.fetcher),
            "code_search": lambda: self._code(project_id, "code_search", "GitHub", self._web.github),
            "gitlab_code_search": lambda: self._code(project_id, "gitlab_code_search", "GitLab", self._web.gitlab),
            "calculator": lambda: self._calculator(project_id),
        }
        return [made[name]() for name in names if name in made]

    def _web_search(self, project_id: str, engine: WebSearch, count: int) -> LoopTool:
        async def search(given: WebSearchInput) -> Outcome:
            query = " ".join(given.query.split())

            async def work() -> Outcome:
                found = await engine.search(query, count=count)
                pages = [
                    ("fetch_url", {"url": str(parse_url(page.url))}, _page_text(page)) for page in found.whole_pages
                ]
                await self._gate.keep(project_id, pages)
                answer = {
                    "answer": found.answer,
                    "abstract": found.abstract,
                    "results": [asdict(hit) for hit in found.results],
                    "fetched_pages": [{"url": page.url, "content": page.content} for page in found.fetched_pages],
                }
                return Outcome(json_text(answer), sources=len(found.results), untrusted=True)

            return await self._gate.run(project_id, "web_search", {"query": query, "count": count}, work)

        return adapted(
            "web_search",
            "Search the public web for current facts, documentation or news. Gives hits with title, URL and snippet, "
            "and the text of the best two pages.",
            WebSearchInput,
            search,
            event="x_research.searching",
            research=True,
        )

    def _fetch_url(self, project_id: str, fetcher: Fetcher) -> LoopTool:
        async def fetch(given: FetchInput) -> Outcome:
            urls = _urls(given)
            follow = given.max_follow if given.discover_links else 0
            # One url is answered with its text, as it is; several, and links, with JSON.
            single = given.urls is None and not given.discover_links
            key: Json = {"url": urls[0]}
            if not single:
                key = {"urls": urls, "discover_links": given.discover_links, "max_follow": follow}

            async def work() -> Outcome:
                found = await fetcher.fetch(urls, discover_links=given.discover_links, max_follow=follow)
                if single:
                    return _page_text(found.pages[0])
                answer = {
                    "discover_links_enabled": found.discover_links_enabled,
                    "total_pages": found.total_pages,
                    "pages": [_page(page) for page in found.pages],
                }
                read = sum(not page.error for page in found.pages)
                return Outcome(json_text(answer), sources=read, untrusted=True)

            return await self._gate.run(project_id, "fetch_url", key, work)

        return adapted(
            "fetch_url",
            f"Read web pages and PDFs as text: one url, or up to {MAX_URLS} urls at once. discover_links lists their "
            f"links, and max_follow reads up to {MAX_FOLLOW} of those on the same site.",
            FetchInput,
            fetch,
            event="x_research.reading",
            research=True,
        )

    def _code(self, project_id: str, name: str, host: str, engine: CodeSearch) -> LoopTool:
        async def search(given: CodeInput) -> Outcome:
            asked = CodeRequest(
                query=given.query,
                repository=given.repository,
                path=given.path,
                paths=tuple(given.paths or ()),
                language=given.language,
                max_results=given.max_results,
            )

            async def work() -> Outcome:
                found = await engine.run(asked)
                answer, sources = _code_answer(asked, found)
                return Outcome(json_text(answer), sources=sources, untrusted=True)

            return await self._gate.run(project_id, name, asdict(asked), work)

        qualifiers = " GitHub's qualifiers work: repo:, org:, path:, filename:, extension:." if host == "GitHub" else ""
        return adapted(
            name,
            f"Use code on {host}: query searches it, repository alone gives an overview (languages, README, tree, "
            f"commits), repository with path or paths reads files and directories.{qualifiers}",
            CodeInput if host == "GitHub" else GitLabInput,
            search,
            event="x_research.code_searching",
            research=True,
        )

    def _calculator(self, project_id: str) -> LoopTool:
        async def calculate(given: CalculatorInput) -> Outcome:
            async def work() -> Outcome:
                answer = calculator.evaluate(given.expression)
                told: Json = {"expression": answer.expression, "result": answer.result}
                return Outcome(json_text(told if answer.exact is None else {**told, "exact": answer.exact}))

            return await self._gate.run(project_id, "calculator", {"expression": given.expression}, work)

        return adapted(
            "calculator",
            "Compute an expression instead of guessing: + - * / ^ ( ), sqrt, log (base 10), ln, sin, cos, tan, abs, "
            "floor, ceil, round, min, max, pi, e.",
            CalculatorInput,
            calculate,
            event="x_research.calculating",
            research=True,
        )


def _urls(given: FetchInput) -> list[str]:
    urls = [*([given.url] if given.url else []), *(given.urls or [])]
    if not urls:
        raise Invalid("Nothing to fetch.", fields=[FieldError("url", "give a url, or several as urls")])
    return list(dict.fromkeys(str(parse_url(url)) for url in urls))


def _page_text(page: FetchedPage) -> Outcome:
    return Outcome(cut(page, CHARACTERS).content, sources=1, untrusted=True)


def _page(page: FetchedPage) -> Json:
    told: Json = {"url": page.url, "content": page.content, "error": page.error}
    if page.followed_from_discovery:
        return {**told, "followed_from_discovery": True}
    if page.discovered_links is not None:
        told["discovered_links"] = [asdict(link) for link in page.discovered_links]
    return told


def _code_answer(asked: CodeRequest, found: Hits | Overview | list[Any]) -> tuple[Json, int]:
    if isinstance(found, Overview):
        return asdict(found), 1
    if isinstance(found, Hits):
        hits = _sharing([asdict(hit) for hit in found.results])
        return {"total": found.total, "results": hits}, len(hits)
    files = _sharing([asdict(read) for read in found])
    return {"repository": asked.repository, "files": files}, sum(file["kind"] != "error" for file in files)


def _sharing(files: list[Json]) -> list[Json]:
    """The files with equal shares of what one answer may hold."""
    share = CODE_CHARACTERS // max(1, sum(bool(file.get("content")) for file in files))
    for file in files:
        content = file.get("content") or ""
        if len(content) > share:
            file |= {"content": content[:share], "truncated": True}
    return files
