"""Owns what the research and code tools answer."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from holdfast.engines.site.model import Swatch


class WebResult(BaseModel):
    title: str
    url: str
    snippet: str


class WebPage(BaseModel):
    url: str
    content: str


class WebSearchOutput(BaseModel):
    answer: str
    abstract: str
    results: list[WebResult]
    fetched_pages: list[WebPage]
    whole_pages: list[WebPage] = Field(default_factory=list, exclude=True)
    """The same pages before they were cut to their shares: they need not be fetched again."""


class LinkOutput(BaseModel):
    url: str
    text: str


class PageOutput(BaseModel):
    url: str
    content: str = Field(description="The text, or why there is none.")
    error: bool
    title: str = ""
    truncated: bool = False
    discovered_links: list[LinkOutput] | None = None
    followed_from_discovery: bool = False


class FetchOutput(BaseModel):
    discover_links_enabled: bool
    total_pages: int
    pages: list[PageOutput]


class InspectOutput(BaseModel):
    """`SiteReport` as agents get it: the inner shapes are told by the data, not by the schema."""

    url: str
    palette: list[Swatch]
    typography: dict[str, Any]
    layout: dict[str, Any]
    meta: dict[str, Any]
    stylesheets: list[dict[str, Any]]


class HitOutput(BaseModel):
    repository: str
    path: str
    url: str
    snippets: list[str]
    content: str | None = None
    truncated: bool = False


class CodeSearchOutput(BaseModel):
    total: int | None
    results: list[HitOutput]


class EntryOutput(BaseModel):
    path: str
    kind: Literal["file", "directory", "other"]
    size: int | None = None


class OverviewOutput(BaseModel):
    repository: str
    url: str
    description: str
    default_branch: str
    stars: int
    forks: int
    open_issues: int
    license: str
    topics: list[str]
    archived: bool
    updated_at: str
    languages: dict[str, float]
    readme: str
    tree: list[EntryOutput]
    tree_truncated: bool
    recent_commits: list[dict[str, str]] = Field(description="sha, message, author and date of each.")


class FileOutput(BaseModel):
    path: str
    kind: Literal["file", "directory", "error"]
    content: str = ""
    entries: list[EntryOutput] = Field(default_factory=list)
    truncated: bool = False


class ReadOutput(BaseModel):
    repository: str
    files: list[FileOutput]
