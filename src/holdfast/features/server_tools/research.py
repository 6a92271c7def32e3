"""Owns the tools `xerotier.research.web_search`, `fetch_url` and `inspect_site`."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.access import RUN
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.engines.fetch.pages import MAX_FOLLOW, MAX_URLS, FetchedPage, Fetcher
from holdfast.engines.site.inspector import SiteInspector
from holdfast.engines.site.model import SiteReport
from holdfast.engines.web_search.engine import MAX_QUERY, MAX_RESULTS, RESULTS, WebSearch
from holdfast.features.server_tools import rendering
from holdfast.features.server_tools.model import (
    FetchOutput,
    InspectOutput,
    LinkOutput,
    PageOutput,
    WebPage,
    WebResult,
    WebSearchOutput,
)

_Url = Annotated[str, Field(max_length=2_048)]
_READS_THE_WEB = Annotations(read_only=True, idempotent=True, open_world=True)


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class WebSearchInput(_Input):
    query: str = Field(max_length=MAX_QUERY, description="What to look for, as you would type it into a search engine.")
    max_results: int = Field(RESULTS, ge=1, le=MAX_RESULTS, description="How many hits at most.")


class FetchInput(_Input):
    url: _Url | None = Field(None, description="The page to read; http or https.")
    urls: list[_Url] | None = Field(None, description=f"Several pages at once, at most {MAX_URLS}.")
    discover_links: bool = Field(False, description="Also list the links on each page.")
    max_follow: int = Field(
        0, ge=0, le=MAX_FOLLOW, description="With discover_links: how many links on the same site to read as well."
    )


class InspectInput(_Input):
    url: _Url = Field(description="The page to inspect; http or https.")


def tools(web_search: WebSearch, fetcher: Fetcher, inspector: SiteInspector) -> list[AnyTool]:
    """The research tools over the engines that the operator configured."""
    return [_search_tool(web_search), _fetch_tool(fetcher), _inspect_tool(inspector)]


def _search_tool(web_search: WebSearch) -> AnyTool:
    async def search(call: ToolCall, given: WebSearchInput) -> WebSearchOutput:
        found = await web_search.search(given.query, count=given.max_results)
        return WebSearchOutput(
            answer=found.answer,
            abstract=found.abstract,
            results=[WebResult(title=hit.title, url=hit.url, snippet=hit.snippet) for hit in found.results],
            fetched_pages=[WebPage(url=page.url, content=page.content) for page in found.fetched_pages],
            whole_pages=[WebPage(url=page.url, content=page.content) for page in found.whole_pages],
        )

    return Tool(
        name="xerotier.research.web_search",
        title="Search the web",
        description=(
            "Find current facts, documentation, releases or news on the public web. Returns hits with title, URL and "
            "snippet, plus the text of the top two pages. "
            'Example: {"query": "postgres 18 release notes"}.'
        ),
        input=WebSearchInput,
        output=WebSearchOutput,
        handler=search,
        annotations=_READS_THE_WEB,
        access=RUN,
        text=rendering.web_search,
    )


def _fetch_tool(fetcher: Fetcher) -> AnyTool:
    async def fetch(call: ToolCall, given: FetchInput) -> FetchOutput:
        urls = [*([given.url] if given.url else []), *(given.urls or [])]
        if not urls:
            raise Invalid("Nothing to fetch.", fields=[FieldError("url", "give a url, or several as urls")])
        if given.max_follow and not given.discover_links:
            problem = "following links needs discover_links: true"
            raise Invalid("The links to follow are not known.", fields=[FieldError("max_follow", problem)])
        found = await fetcher.fetch(urls, discover_links=given.discover_links, max_follow=given.max_follow)
        return FetchOutput(
            discover_links_enabled=found.discover_links_enabled,
            total_pages=found.total_pages,
            pages=[_page(page) for page in found.pages],
        )

    return Tool(
        name="xerotier.research.fetch_url",
        title="Read web pages",
        description=(
            "Read web pages and PDFs as text: one url, or up to five urls in parallel. discover_links also lists each "
            "page's links, and max_follow reads up to three of them on the same site. At most 24,000 characters; "
            'honours robots.txt. Example: {"url": "https://docs.python.org/3/", "discover_links": true}.'
        ),
        input=FetchInput,
        output=FetchOutput,
        handler=fetch,
        annotations=_READS_THE_WEB,
        access=RUN,
        text=rendering.pages,
    )


def _page(page: FetchedPage) -> PageOutput:
    links = page.discovered_links
    return PageOutput(
        url=page.url,
        content=page.content,
        error=page.error,
        title=page.title,
        truncated=page.truncated,
        discovered_links=None if links is None else [LinkOutput(url=link.url, text=link.text) for link in links],
        followed_from_discovery=page.followed_from_discovery,
    )


def _inspect_tool(inspector: SiteInspector) -> AnyTool:
    async def inspect(call: ToolCall, given: InspectInput) -> InspectOutput:
        return InspectOutput.model_validate((await inspector.inspect(given.url)).model_dump())

    return Tool(
        name="xerotier.research.inspect_site",
        title="Inspect a site's design",
        description=(
            "See how a page is designed before matching or reviewing it: colour palette with shares, fonts and sizes, "
            "landmarks and headings, breakpoints, metadata. Read from HTML and CSS; what scripts add is "
            'missing. Example: {"url": "https://example.com/"}.'
        ),
        input=InspectInput,
        output=InspectOutput,
        handler=inspect,
        annotations=_READS_THE_WEB,
        access=RUN,
        text=lambda output: rendering.site(SiteReport.model_validate(output.model_dump())),
    )
