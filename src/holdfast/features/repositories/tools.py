"""Owns the four tools that agents know a project's memory by: which projects there are, asking, searching, status."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast.core.access import READ, RUN
from holdfast.core.clock import iso_or_none
from holdfast.core.errors import FieldError, NotFound
from holdfast.core.principal import Principal
from holdfast.core.text import jsontext
from holdfast.core.text.slugs import is_slug
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.engines.search.model import VectorCount
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.model import Breakdown, Match, Repository, RepositoryNotFound
from holdfast.features.repositories.service import MAX_REPOSITORIES_ASKED, Repositories

MAX_QUESTION = 4_000
PAGE = 200
SOURCE = "mcp"

_READ = Annotations(read_only=True, idempotent=True)
_Found = TypeVar("_Found")


class MarkdownAnswer(Protocol):
    """An answer in Markdown, with its sources cited in it."""

    @property
    def markdown(self) -> str: ...


class Answers(Protocol):
    """Answers questions about repositories; the service that does stands above this feature."""

    async def ask(
        self, principal: Principal, slugs: Sequence[str], question: str, *, source: str
    ) -> MarkdownAnswer: ...


class ProjectNotFound(NotFound):
    """No project of that slug for this caller; says which argument named it and how to find the right one."""

    def __init__(self, slug: str, field: str) -> None:
        super().__init__("project", slug[:80])
        self.message += " Call list_projects to see the slugs of the projects there are."
        self.args = (self.message,)
        self.fields = (FieldError(field, f"{slug[:80]!r} is the slug of no project here"),)


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, str_strip_whitespace=True)


class _Out(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ListProjectsInput(_In):
    pass


class AskInput(_In):
    project_slugs: list[str] = Field(
        min_length=1,
        max_length=MAX_REPOSITORIES_ASKED,
        description="Slugs of the projects to ask, as list_projects gives them; several to ask across them",
    )
    question: str = Field(min_length=1, max_length=MAX_QUESTION, description="The question, in plain words")


class SearchMemoryInput(_In):
    project_slugs: list[str] = Field(
        min_length=1,
        max_length=MAX_REPOSITORIES_ASKED,
        description="Slugs of the projects to search, as list_projects gives them",
    )
    query: str = Field(
        min_length=1,
        max_length=MAX_QUESTION,
        description="What to look for: plain words, or the name of a symbol, a path, a commit hash or #number",
    )


class ProjectStatusInput(_In):
    project_slug: str = Field(min_length=1, description="The project's slug, as list_projects gives it")


class ProjectOut(_Out):
    slug: str
    name: str
    github_full_name: str | None
    synthesis_status: str
    last_synced_at: str | None


class ProjectsOut(_Out):
    projects: list[ProjectOut]


class AnswerOut(_Out):
    answer: str


class MatchOut(_Out):
    repo: str
    source_id: str
    content: str
    metadata: dict[str, Any]
    similarity: float


class MatchesOut(_Out):
    matches: list[MatchOut]


class BreakdownOut(_Out):
    total: int
    ingestion: int
    synthesis: int
    coverage: int
    freshness: int
    keystone_folder: int


class KeystoneFolderOut(_Out):
    detected: bool
    file_count: int


class ProjectStatusOut(_Out):
    slug: str
    github_full_name: str | None
    memory_score: int
    breakdown: BreakdownOut
    synthesis_status: str
    synthesis_progress: int
    last_synced_at: str | None
    ingestion_completed: bool
    embedding_count: int
    keystone_folder: KeystoneFolderOut


def tools(repositories: Repositories, finding: RepositoryFinding, asking: Answers) -> list[AnyTool]:
    """list_projects, ask, search_memory and get_project_status."""

    async def list_projects(call: ToolCall, given: ListProjectsInput) -> ProjectsOut:
        found: list[ProjectOut] = []
        cursor: str | None = None
        while True:
            page = await repositories.list(call.principal, limit=PAGE, cursor=cursor)
            found += [_project(repository) for repository in page.items]
            cursor = page.next_cursor
            if cursor is None:
                return ProjectsOut(projects=found)

    async def ask(call: ToolCall, given: AskInput) -> AnswerOut:
        answered = await _of_projects(
            given.project_slugs, lambda slugs: asking.ask(call.principal, slugs, given.question, source=SOURCE)
        )
        return AnswerOut(answer=answered.markdown)

    async def search_memory(call: ToolCall, given: SearchMemoryInput) -> MatchesOut:
        matches = await _of_projects(
            given.project_slugs, lambda slugs: finding.search(call.principal, slugs, given.query)
        )
        return MatchesOut(matches=[_match(match) for match in matches])

    async def get_project_status(call: ToolCall, given: ProjectStatusInput) -> ProjectStatusOut:
        slug = given.project_slug
        try:
            repository, score, vectors = await repositories.status(call.principal, _checked(slug))
        except RepositoryNotFound:
            raise ProjectNotFound(slug, "projectSlug") from None
        return status_output(repository, score, vectors)

    return [
        Tool(
            "list_projects",
            "List projects",
            "List the projects whose repositories are remembered here, with their slugs and how far their memory is. "
            "Call it once at the start: the other tools take slugs from it.",
            ListProjectsInput,
            ProjectsOut,
            list_projects,
            _READ,
            READ,
            text=lambda found: _text(found.projects),
            consumer="keystone",
        ),
        Tool(
            "ask",
            "Ask a project's memory",
            "Ask why something was done, by whom, where it is or what broke it before, about one or more projects. "
            "Answers in Markdown, from commits, pull requests, issues, docs and the files as they are, each claim with "
            "its source. Ask before you change code that you do not know; it takes a while and spends a weekly budget. "
            'Example: {"projectSlugs": ["my-api"], "question": "Why are sessions kept in the database?"}',
            AskInput,
            AnswerOut,
            ask,
            Annotations(read_only=True),
            RUN,
            text=lambda found: found.answer,
            consumer="keystone",
        ),
        Tool(
            "search_memory",
            "Search a project's memory",
            "Find passages of commits, pull requests, issues, docs and files in one or more projects, best first, "
            "without any model. A symbol, path, commit hash or #number is found exactly. Quick and free: use it when "
            'you want to read the sources yourself. Example: {"projectSlugs": ["my-api"], "query": "retry policy"}',
            SearchMemoryInput,
            MatchesOut,
            search_memory,
            _READ,
            READ,
            text=lambda found: _text(found.matches),
            consumer="keystone",
        ),
        Tool(
            "get_project_status",
            "Status of a project's memory",
            "How good a project's memory is, in a hundred points, and how far syncing and synthesis are. Look here "
            'when answers seem thin or old. Example: {"projectSlug": "my-api"}',
            ProjectStatusInput,
            ProjectStatusOut,
            get_project_status,
            _READ,
            READ,
            consumer="keystone",
        ),
    ]


async def _of_projects(slugs: Sequence[str], work: Callable[[Sequence[str]], Awaitable[_Found]]) -> _Found:
    """What the work gives; where a slug is not the caller's, the error says which argument it was."""
    try:
        return await work([_checked(slug) for slug in slugs])
    except RepositoryNotFound as problem:
        field = f"projectSlugs[{slugs.index(problem.slug)}]" if problem.slug in slugs else "projectSlugs"
        raise ProjectNotFound(problem.slug, field) from None


def _checked(slug: str) -> str:
    """A slug that may be somebody's; whatever else an agent sends need not trouble the store."""
    if not is_slug(slug):
        raise RepositoryNotFound(slug)
    return slug


def _text(rows: Sequence[BaseModel]) -> str:
    """The bare array that is documented; JSON of a whole result has to be an object."""
    return jsontext.dumps([row.model_dump(mode="json", by_alias=True) for row in rows]).decode()


def _project(repository: Repository) -> ProjectOut:
    return ProjectOut(
        slug=repository.slug,
        name=repository.name,
        github_full_name=repository.full_name or None,
        synthesis_status=repository.synthesis_status,
        last_synced_at=iso_or_none(repository.last_synced_at),
    )


def _match(match: Match) -> MatchOut:
    facts: dict[str, Any] = {
        "type": match.type,
        "title": match.title,
        "author": match.author,
        "occurredAt": iso_or_none(match.occurred_at),
        "path": match.path,
        "startLine": match.start_line,
        "endLine": match.end_line,
        "commit": match.commit,
        "number": match.number,
        "url": match.url,
        "exact": match.exact,
    }
    return MatchOut(
        repo=match.repository.slug,
        source_id=match.source_id,
        content=match.content,
        metadata={name: value for name, value in facts.items() if value not in ("", None, False)},
        similarity=round(match.similarity, 4),
    )


def status_output(repository: Repository, score: Breakdown, vectors: VectorCount) -> ProjectStatusOut:
    """How good a repository's memory is, as agents and scripts read it."""
    return ProjectStatusOut(
        slug=repository.slug,
        github_full_name=repository.full_name or None,
        memory_score=score.total,
        breakdown=BreakdownOut(
            total=score.total,
            ingestion=score.ingestion,
            synthesis=score.synthesis,
            coverage=score.coverage,
            freshness=score.freshness,
            keystone_folder=score.keystone_folder,
        ),
        synthesis_status=repository.synthesis_status,
        synthesis_progress=repository.synthesis_progress,
        last_synced_at=iso_or_none(repository.last_synced_at),
        ingestion_completed=repository.ingested,
        embedding_count=vectors.vectors,
        keystone_folder=KeystoneFolderOut(detected=repository.keystone_files > 0, file_count=repository.keystone_files),
    )
