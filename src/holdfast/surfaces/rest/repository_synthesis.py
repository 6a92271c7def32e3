"""Owns the REST operations of synthesis: what was found in a repository, and looking again."""

from typing import Literal

from pydantic import Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.clock import iso
from holdfast.core.model import Model
from holdfast.core.operations import Call, Operation
from holdfast.features.synthesis.model import Citation, Finding, FindingKind, FindingState, TargetType
from holdfast.features.synthesis.service import Synthesis
from holdfast.surfaces.rest.repositories import ONE, TAG, Gate, RepositoryAnswer, repository_answer


class FindingQuery(Model):
    kind: FindingKind | None = Field(default=None, description="Only findings of this kind")


class SourceAnswer(Model):
    type: Literal["file", "commit", "pull_request", "issue", "release", "discussion", "tag"]
    id: str = Field(description="A path, a commit's hash, a number, a tag's name")
    start_line: int | None
    end_line: int | None
    label: str = Field(description="As it is written in the text")


class FindingAnswer(Model):
    kind: FindingKind
    title: str
    body: str
    citations: list[SourceAnswer]
    target_type: TargetType = Field(description="What it was written as")
    target_id: str
    state: FindingState = Field(description="Ours still, edited by a person and never overwritten, or dismissed")
    updated_at: str


class FindingsAnswer(Model):
    findings: list[FindingAnswer]


def operations(synthesis: Synthesis, gate: Gate) -> list[Operation]:
    """Everything about what synthesis makes."""

    async def findings(call: Call) -> FindingsAnswer:
        asked: FindingQuery = call.query
        found = await synthesis.findings(call.principal, (await gate.find(call)).slug, asked.kind)
        return FindingsAnswer(findings=[_finding_answer(each) for each in found])

    async def again(call: Call) -> RepositoryAnswer:
        return repository_answer(await synthesis.start(call.principal, (await gate.find(call)).slug), call.principal)

    return [
        Operation(
            method="GET",
            path=ONE + "/findings",
            handler=findings,
            summary="What was read out of a repository: architecture, decisions, hot spots, owners, glossary",
            tag=TAG,
            access=READ_INTEL,
            query=FindingQuery,
            answer=FindingsAnswer,
        ),
        Operation(
            method="POST",
            path=ONE + "/synthesis",
            handler=again,
            summary="Sum a repository up again; what people edited stays theirs",
            tag=TAG,
            access=WRITE_INTEL,
            answer=RepositoryAnswer,
            status=202,
        ),
    ]


def _finding_answer(finding: Finding) -> FindingAnswer:
    return FindingAnswer(
        kind=finding.kind,
        title=finding.title,
        body=finding.body,
        citations=[_source_answer(each) for each in finding.citations],
        target_type=finding.target_type,
        target_id=finding.target_id,
        state=finding.state,
        updated_at=iso(finding.updated_at),
    )


def _source_answer(citation: Citation) -> SourceAnswer:
    return SourceAnswer(
        type=citation.type,
        id=citation.id,
        start_line=citation.start_line,
        end_line=citation.end_line,
        label=citation.label,
    )
