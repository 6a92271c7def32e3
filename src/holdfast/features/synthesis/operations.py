"""Owns the REST operations of synthesis: what was found in a repository, and looking again."""

from typing import Literal

from pydantic import Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.model import Answer, Model, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.repositories.operations.named import ONE, TAG, check_within
from holdfast.features.repositories.operations.repositories import RepositoryAnswer, repository_answer
from holdfast.features.repositories.service import Repositories
from holdfast.features.synthesis.model import FindingKind, FindingState, TargetType, WrittenKind, kind_of
from holdfast.features.synthesis.service import Synthesis
from holdfast.features.workspaces.service import Workspaces

api = Operations(TAG)


class FindingQuery(Model):
    kind: WrittenKind | None = Field(default=None, description="Only findings of this kind")


class SourceAnswer(Answer):
    type: Literal["file", "commit", "pull_request", "issue", "release", "discussion", "tag"]
    id: str = Field(description="A path, a commit's hash, a number, a tag's name")
    start_line: int | None
    end_line: int | None
    label: str = Field(description="As it is written in the text")


class FindingAnswer(Answer):
    kind: FindingKind
    title: str
    body: str
    citations: list[SourceAnswer]
    target_type: TargetType = Field(description="What it was written as")
    target_id: str
    state: FindingState = Field(description="Ours still, edited by a person and never overwritten, or dismissed")
    updated_at: Time


@api.get(
    ONE + "/findings",
    READ_INTEL,
    "What was read out of a repository: architecture, decisions, hot spots, owners, glossary",
)
async def findings(
    repositories: Repositories,
    workspaces: Workspaces,
    synthesis: Synthesis,
    principal: Principal,
    workspace_id: str,
    slug: str,
    query: FindingQuery,
) -> Page[FindingAnswer]:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    return Page(await synthesis.findings(principal, slug, kind_of(query.kind))).map(FindingAnswer.of)


@api.post(ONE + "/synthesis", WRITE_INTEL, "Sum a repository up again; what people edited stays theirs", status=202)
async def again(
    repositories: Repositories,
    workspaces: Workspaces,
    synthesis: Synthesis,
    principal: Principal,
    workspace_id: str,
    slug: str,
) -> RepositoryAnswer:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    return repository_answer(await synthesis.start(principal, slug), principal)
