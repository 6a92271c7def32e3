"""Owns the REST operations that find something in repositories: passages, and files that work is likely to touch."""

from pydantic import Field, field_validator

from holdfast.core.access import READ
from holdfast.core.model import Answer, Model, Text, Time, Words
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.model import ENTRY_TYPES, Match
from holdfast.features.repositories.operations.named import BASE, TAG, chosen
from holdfast.features.repositories.service import MAX_REPOSITORIES_ASKED, Repositories
from holdfast.features.workspaces.service import Workspaces

MAX_MATCHES = 50
MAX_QUERY = 4000

api = Operations(TAG)


class RepositoryFilesQuery(Model):
    q: Text = Field(min_length=1, max_length=MAX_QUERY, description="What is to be done, in plain words")
    slugs: Words = Field(
        default_factory=list,
        max_length=MAX_REPOSITORIES_ASKED,
        description="Only these repositories, repeated or separated by commas; all of the workspace's when left out",
    )
    limit: int = Field(default=10, ge=1, le=MAX_MATCHES, description="How many files at most")


class RepositorySearchQuery(RepositoryFilesQuery):
    q: Text = Field(min_length=1, max_length=MAX_QUERY, description="Words, a symbol, a path, a commit or #number")
    types: Words = Field(
        default_factory=list,
        description=f"Only these, repeated or separated by commas: {', '.join(ENTRY_TYPES)}",
    )
    limit: int = Field(default=12, ge=1, le=MAX_MATCHES, description="How many matches at most")
    least: float = Field(default=0.3, ge=0, le=1, description="The least similarity of what is not named exactly")

    @field_validator("types")
    @classmethod
    def _known(cls, value: list[str]) -> list[str]:
        unknown = next((word for word in value if word not in ENTRY_TYPES), None)
        if unknown is not None:
            raise ValueError(f"{unknown[:60]!r} is none of {', '.join(ENTRY_TYPES)}")
        return value


class MatchAnswer(Answer):
    repository: str
    type: str
    source_id: str
    title: str
    content: str
    similarity: float
    exact: bool = Field(description="Whether it is what the query names: a symbol, a path, a commit, a number")
    occurred_at: Time | None
    author: str
    path: str
    start_line: int | None
    end_line: int | None
    commit: str
    number: str
    url: str


def match_answer(match: Match) -> MatchAnswer:
    """A match as REST and the command line show it."""
    return MatchAnswer.of(match, repository=match.repository.slug, similarity=round(match.similarity, 4))


class FileMatchAnswer(Answer):
    repository: str
    path: str
    score: float = Field(description="0 to 1; compares the files of one answer")
    reasons: list[str] = Field(description="What spoke for it, strongest first: named, passages, past, activity")
    past: list[str] = Field(description="Similar commits, and pull requests as `pr:12`, that changed it")


@api.get(
    BASE + "/search",
    READ,
    "Find passages of commits, files, pull requests and issues; names are found exactly and first",
)
async def search(
    repositories: Repositories,
    workspaces: Workspaces,
    finding: RepositoryFinding,
    principal: Principal,
    workspace_id: str,
    query: RepositorySearchQuery,
) -> Page[MatchAnswer]:
    slugs = await chosen(repositories, workspaces, principal, workspace_id, query.slugs)
    if not slugs:
        return Page([])
    types = frozenset(query.types) or None
    found = await finding.search(principal, slugs, query.q, limit=query.limit, least=query.least, types=types)
    return Page([match_answer(each) for each in found])


@api.get(BASE + "/files", READ, "Find the files that a piece of work is likely to touch, likeliest first")
async def files(
    repositories: Repositories,
    workspaces: Workspaces,
    finding: RepositoryFinding,
    principal: Principal,
    workspace_id: str,
    query: RepositoryFilesQuery,
) -> Page[FileMatchAnswer]:
    slugs = await chosen(repositories, workspaces, principal, workspace_id, query.slugs)
    found = await finding.files(principal, slugs, query.q, limit=query.limit) if slugs else []
    return Page(
        [FileMatchAnswer.of(each, repository=each.repository.slug, score=round(each.score, 4)) for each in found]
    )
