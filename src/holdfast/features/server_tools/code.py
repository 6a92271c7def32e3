"""Owns the tools that read code elsewhere: `xerotier.code.search`, `repo_overview` and `repo_read`, and GitLab's."""

from dataclasses import asdict, dataclass, replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.access import RUN_INTEL
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.engines.code_hosts.engine import MAX_QUERY, RESULTS, CodeSearch
from holdfast.engines.code_hosts.model import MAX_PATHS
from holdfast.features.server_tools import rendering
from holdfast.features.server_tools.model import (
    CodeSearchOutput,
    FileOutput,
    HitOutput,
    OverviewOutput,
    ReadOutput,
)

_Path = Annotated[str, Field(max_length=1_000)]
_READS_CODE = Annotations(read_only=True, idempotent=True, open_world=True)
_REPOSITORY = "owner/repo, or its address on GitHub."


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchInput(_Input):
    query: str = Field(
        max_length=MAX_QUERY,
        description="Words in the code, with GitHub's qualifiers: repo:owner/name, org:, path:, filename:, extension:.",
    )
    language: str | None = Field(None, max_length=50, description="Only this language, for example python.")
    max_results: int = Field(RESULTS, ge=1, le=30, description="How many files at most.")


class OverviewInput(_Input):
    repository: str = Field(max_length=500, description=_REPOSITORY)


class ReadInput(_Input):
    repository: str = Field(max_length=500, description=_REPOSITORY)
    path: _Path | None = Field(None, description="A file, or a directory to list; the root when left out.")
    paths: list[_Path] | None = Field(None, description=f"Several of them, at most {MAX_PATHS}.")
    ref: str | None = Field(
        None, max_length=250, description="A branch, tag or commit; the default branch when left out."
    )


@dataclass(frozen=True, slots=True)
class Host:
    """A code host, and how its three tools are called."""

    name: str
    search: str
    overview: str
    read: str


GITHUB = Host("GitHub", "xerotier.code.search", "xerotier.code.repo_overview", "xerotier.code.repo_read")
GITLAB = Host("GitLab", "gitlab.search", "gitlab.repo_overview", "gitlab.repo_read")


def tools(github: CodeSearch, gitlab: CodeSearch) -> list[AnyTool]:
    """The code tools over two hosts. GitLab's have no names of their own outside: chats call them by an alias."""
    others = [replace(tool, consumer=None) for tool in _tools(GITLAB, gitlab)]
    return [*_tools(GITHUB, github), *others]


def _tools(host: Host, code: CodeSearch) -> list[AnyTool]:
    return [_search_tool(host, code), _overview_tool(host, code), _read_tool(host, code)]


def _search_tool(host: Host, code: CodeSearch) -> AnyTool:
    async def search(call: ToolCall, given: SearchInput) -> CodeSearchOutput:
        found = await code.search(given.query, language=given.language, max_results=given.max_results)
        return CodeSearchOutput(
            total=found.total, results=[HitOutput.model_validate(asdict(hit)) for hit in found.results]
        )

    return Tool(
        name=host.search,
        title=f"Search code on {host.name}",
        description=(
            "Find how others use an API or solved a problem in public code. Returns matching files with fragments, the "
            'first three whole. Example: {"query": "def retry repo:encode/httpx", "language": "python"}.'
        ),
        input=SearchInput,
        output=CodeSearchOutput,
        handler=search,
        annotations=_READS_CODE,
        access=RUN_INTEL,
        text=rendering.code_search,
    )


def _overview_tool(host: Host, code: CodeSearch) -> AnyTool:
    async def overview(call: ToolCall, given: OverviewInput) -> OverviewOutput:
        return OverviewOutput.model_validate(asdict(await code.overview(given.repository)))

    return Tool(
        name=host.overview,
        title=f"Look over a {host.name} repository",
        description=(
            "Get to know a repository before reading it: description, licence, languages, README, file tree and recent "
            'commits in one call. Example: {"repository": "pallets/click"}.'
        ),
        input=OverviewInput,
        output=OverviewOutput,
        handler=overview,
        annotations=_READS_CODE,
        access=RUN_INTEL,
        text=rendering.overview,
    )


def _read_tool(host: Host, code: CodeSearch) -> AnyTool:
    async def read(call: ToolCall, given: ReadInput) -> ReadOutput:
        paths = tuple(dict.fromkeys([*([given.path] if given.path is not None else []), *(given.paths or [])]))
        if given.ref is not None and not given.ref.strip():
            raise Invalid("The ref is not right.", fields=[FieldError("ref", "name a branch, tag or commit")])
        found = await code.read(given.repository, paths or ("",), ref=given.ref)
        return ReadOutput(
            repository=given.repository, files=[FileOutput.model_validate(asdict(read)) for read in found]
        )

    return Tool(
        name=host.read,
        title=f"Read files of a {host.name} repository",
        description=(
            "Read up to ten files of a repository, or list its directories. A missing path fails alone. "
            'Example: {"repository": "pallets/click", "paths": ["src/click/core.py", "docs"]}.'
        ),
        input=ReadInput,
        output=ReadOutput,
        handler=read,
        annotations=_READS_CODE,
        access=RUN_INTEL,
        text=rendering.files,
    )
