"""Owns the names by which chats call the tools that look things up and compute."""

from typing import Annotated, Any

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.tools.alias import Alias, AliasInput, AliasTarget, AnyAlias, json_text
from holdfast.core.tools.outcome import AnsweredCall, Json, Outcome
from holdfast.engines.code_hosts.engine import MAX_QUERY as MAX_CODE_QUERY
from holdfast.engines.code_hosts.engine import RESULTS as CODE_RESULTS
from holdfast.engines.code_hosts.model import MAX_PATHS
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.fetch.pages import CHARACTERS, MAX_FOLLOW, MAX_URLS
from holdfast.engines.web_search.engine import MAX_QUERY, MAX_RESULTS, RESULTS
from holdfast.features.server_tools.budget import ResearchBudget
from holdfast.features.server_tools.calc import EvaluateOutput
from holdfast.features.server_tools.code import GITHUB, GITLAB, Host
from holdfast.features.server_tools.domains import UrlNotAllowed, hinted, is_allowed
from holdfast.features.server_tools.model import (
    CodeSearchOutput,
    FetchOutput,
    OverviewOutput,
    PageOutput,
    WebPage,
    WebResult,
    WebSearchOutput,
)

CODE_CHARACTERS = 60_000
"""What the files of one answer share."""

_Url = Annotated[str, Field(max_length=2_048)]
# A turn sets it, and no model sees it.
_Set = SkipJsonSchema[list[str]]
_Path = Annotated[str, Field(max_length=1_000)]


class WebSearchInput(AliasInput):
    query: str = Field(max_length=MAX_QUERY, description="What to look for, as one would type it into a search engine.")
    max_results: int = Field(RESULTS, description="How many hits at most; a turn sets it by its context size.")
    allowed_domains: _Set = Field([], description="Only hits of these places.")
    blocked_domains: _Set = Field([], description="No hits of these places.")


class FetchInput(AliasInput):
    url: _Url | None = Field(None, description="One page to read; http or https.")
    urls: list[_Url] | None = Field(None, description=f"Several pages at once, at most {MAX_URLS}.")
    discover_links: bool = Field(False, description="Also list the links of each page.")
    max_follow: int = Field(
        0, ge=0, le=MAX_FOLLOW, description="With discover_links: how many links on the same site to read as well."
    )
    allowed_domains: _Set = Field([], description="Only pages of these places.")
    blocked_domains: _Set = Field([], description="No pages of these places.")

    @property
    def is_single(self) -> bool:
        """One url is answered with its text, as it is; several, and links, with JSON."""
        return self.urls is None and not self.discover_links


class CodeInput(AliasInput):
    query: str | None = Field(None, max_length=MAX_CODE_QUERY, description="Words in the code. This or repository.")
    repository: str | None = Field(None, max_length=500, description="owner/name or its address, to review or browse.")
    path: _Path | None = Field(None, description="A file or directory of the repository.")
    paths: list[_Path] | None = Field(None, description=f"Several of them, at most {MAX_PATHS}.")
    language: str | None = Field(None, max_length=50, description="With query: only this language, such as python.")
    max_results: int = Field(CODE_RESULTS, ge=1, le=30, description="With query: how many files at most.")


class GitLabInput(CodeInput):
    max_results: int = Field(CODE_RESULTS, ge=1, le=20, description="With query: how many files at most.")


class CalculatorInput(AliasInput):
    expression: str = Field(description="For example 10000 * (1 + 0.05)^3; at most 1,000 characters.")


def aliases(budget: ResearchBudget) -> list[AnyAlias]:
    """The five, each call within the project's budget."""
    return [
        Alias(
            name="web_search",
            consumer="chat",
            description="Search the public web for current facts, documentation or news. Gives hits with title, URL "
            "and snippet, and the text of the best two pages.",
            tools=("xerotier.research.web_search",),
            input=WebSearchInput,
            target=_search,
            show=_found,
            around=budget.run,
            event="x_research.searching",
            research=True,
        ),
        Alias(
            name="fetch_url",
            consumer="chat",
            description=f"Read web pages and PDFs as text: one url, or up to {MAX_URLS} urls at once. discover_links "
            f"lists their links, and max_follow reads up to {MAX_FOLLOW} of those on the same site.",
            tools=("xerotier.research.fetch_url",),
            input=FetchInput,
            target=_fetch,
            show=_fetched,
            around=budget.run,
            event="x_research.reading",
            research=True,
        ),
        _code(
            "code_search",
            GITHUB,
            CodeInput,
            budget,
            " GitHub's qualifiers work: repo:, org:, path:, filename:, extension:.",
        ),
        _code("gitlab_code_search", GITLAB, GitLabInput, budget),
        Alias(
            name="calculator",
            consumer="chat",
            description="Compute an expression instead of guessing: + - * / ^ ( ), sqrt, log (base 10), ln, sin, cos, "
            "tan, abs, floor, ceil, round, min, max, pi, e.",
            tools=("xerotier.calc.evaluate",),
            input=CalculatorInput,
            target=lambda given: AliasTarget("xerotier.calc.evaluate", {"expression": given.expression}),
            show=_calculated,
            around=budget.run,
            event="x_research.calculating",
            research=True,
        ),
    ]


def _search(given: WebSearchInput) -> AliasTarget:
    query = " ".join(given.query.split())
    most = given.max_results
    if given.allowed_domains or given.blocked_domains:
        # Some of the hits are left out afterwards.
        query, most = hinted(query, given.allowed_domains, given.blocked_domains), MAX_RESULTS
    return AliasTarget("xerotier.research.web_search", {"query": query, "max_results": most})


def _found(given: WebSearchInput, output: WebSearchOutput) -> Outcome:
    if given.allowed_domains or given.blocked_domains:
        output = _within(given, output)
    pages = [
        AnsweredCall("fetch_url", {"url": str(parse_url(page.url))}, _page_text(page)) for page in output.whole_pages
    ]
    text = json_text(output.model_dump(mode="json"))
    return Outcome(text, sources=len(output.results), untrusted=True, also=pages)


def _within(given: WebSearchInput, output: WebSearchOutput) -> WebSearchOutput:
    """What may be seen of it. A summary of an engine's own does not say where it is from."""

    def keep(found: WebResult | WebPage) -> bool:
        return is_allowed(found.url, given.allowed_domains, given.blocked_domains)

    return WebSearchOutput(
        answer="",
        abstract="",
        results=list(filter(keep, output.results))[: given.max_results],
        fetched_pages=list(filter(keep, output.fetched_pages)),
        whole_pages=list(filter(keep, output.whole_pages)),
    )


def _fetch(given: FetchInput) -> AliasTarget:
    urls = [*([given.url] if given.url else []), *(given.urls or [])]
    if not urls:
        raise Invalid("Nothing to fetch.", fields=[FieldError("url", "give a url, or several as urls")])
    wanted = list(dict.fromkeys(str(parse_url(url)) for url in urls))
    for url in wanted:
        if not is_allowed(url, given.allowed_domains, given.blocked_domains):
            raise UrlNotAllowed(url)
    if given.is_single:
        return AliasTarget("xerotier.research.fetch_url", {"url": wanted[0]})
    follow = given.max_follow if given.discover_links else 0
    arguments = {"urls": wanted, "discover_links": given.discover_links, "max_follow": follow}
    return AliasTarget("xerotier.research.fetch_url", arguments)


def _fetched(given: FetchInput, output: FetchOutput) -> Outcome:
    if given.is_single:
        return _page_text(output.pages[0])
    answer = {
        "discover_links_enabled": output.discover_links_enabled,
        "total_pages": output.total_pages,
        "pages": [_page(page) for page in output.pages],
    }
    return Outcome(json_text(answer), sources=sum(not page.error for page in output.pages), untrusted=True)


def _page_text(page: WebPage | PageOutput) -> Outcome:
    text = page.content if len(page.content) <= CHARACTERS else page.content[:CHARACTERS].rstrip()
    return Outcome(text, sources=1, untrusted=True)


def _page(page: PageOutput) -> Json:
    told: Json = {"url": page.url, "content": page.content, "error": page.error}
    if page.followed_from_discovery:
        return {**told, "followed_from_discovery": True}
    if page.discovered_links is not None:
        told["discovered_links"] = [link.model_dump() for link in page.discovered_links]
    return told


def _code(name: str, host: Host, input: type[CodeInput], budget: ResearchBudget, more: str = "") -> AnyAlias:
    return Alias(
        name=name,
        consumer="chat",
        description=f"Use code on {host.name}: query searches it, repository alone gives an overview (languages, "
        f"README, tree, commits), repository with path or paths reads files and directories.{more}",
        tools=(host.search, host.overview, host.read),
        input=input,
        target=lambda given: _code_target(host, given),
        show=_code_shown,
        around=budget.run,
        event="x_research.code_searching",
        research=True,
    )


def _code_target(host: Host, given: CodeInput) -> AliasTarget:
    if bool(given.query) == bool(given.repository):
        problem = "give either a query or a repository"
        raise Invalid("The request is not right.", fields=[FieldError("query", problem)])
    if given.query:
        asked = {"query": given.query, "language": given.language, "max_results": given.max_results}
        return AliasTarget(host.search, asked)
    paths = [*([given.path] if given.path is not None else []), *(given.paths or [])]
    if not paths:
        return AliasTarget(host.overview, {"repository": given.repository})
    return AliasTarget(host.read, {"repository": given.repository, "paths": paths})


def _code_shown(given: CodeInput, output: BaseModel) -> Outcome:
    answer: Json = output.model_dump(mode="json")
    if isinstance(output, OverviewOutput):
        return Outcome(json_text(answer), sources=1, untrusted=True)
    if isinstance(output, CodeSearchOutput):
        answer["results"] = _sharing(answer["results"])
        return Outcome(json_text(answer), sources=len(output.results), untrusted=True)
    answer["files"] = _sharing(answer["files"])
    read = sum(file["kind"] != "error" for file in answer["files"])
    return Outcome(json_text(answer), sources=read, untrusted=True)


def _sharing(files: list[Json]) -> list[Json]:
    """The files with equal shares of what one answer may hold."""
    share = CODE_CHARACTERS // max(1, sum(bool(file.get("content")) for file in files))
    for file in files:
        content = file.get("content") or ""
        if len(content) > share:
            file |= {"content": content[:share], "truncated": True}
    return files


def _calculated(given: CalculatorInput, output: EvaluateOutput) -> Outcome:
    # Always with a point, as documented: 20.0. What a double would round has all its digits in `exact`.
    told: dict[str, Any] = {"expression": output.expression, "result": float(output.result)}
    return Outcome(json_text(told if output.exact is None else {**told, "exact": output.exact}))
