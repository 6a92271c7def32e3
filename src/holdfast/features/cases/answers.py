"""Owns what REST, MCP and the command line show of cases and proofs."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from holdfast.core.model import Answer, Time
from holdfast.features.cases.model import Case, CaseClaim, CaseDetail, CaseLink, LinkType
from holdfast.features.cases.proofs.model import Outcome, ProofKind, ProvenProof, Side, TestOutcome, Verdict
from holdfast.features.cases.proofs.verdicts import covered, missing
from holdfast.features.cases.states import Kind, State, moves


class CriterionAnswer(Answer):
    id: str
    text: str
    verdict: Verdict | None = Field(default=None, description="What its proofs say; null in lists, and without proofs")


class ClaimAnswer(Answer):
    holder: str
    holder_name: str
    session_id: str | None
    expires_at: Time
    fence: int


class CaseLinkAnswer(Answer):
    type: LinkType
    case_id: str


class HistoryAnswer(Answer):
    version: int
    at: Time
    actor: str
    actor_name: str
    action: str
    from_state: State | None
    to_state: State | None
    reason: str
    detail: dict[str, Any]


class CommentAnswer(Answer):
    id: str
    case_id: str
    at: Time
    author: str
    author_name: str
    text: str
    mentions: list[str]


class CaseAnswer(Answer):
    id: str
    workspace_id: str
    title: str
    body: str
    kind: Kind
    state: State
    reason: str = Field(description="Why it is blocked or cancelled")
    priority: int = Field(description="0 comes first, 4 last")
    criteria: list[CriterionAnswer]
    labels: list[str]
    assignee: str | None
    due_at: Time | None
    repository: str | None
    base_commit: str | None
    head_commit: str | None
    environment: str | None
    parent: str | None
    source: str | None
    claim: ClaimAnswer | None = None
    links: list[CaseLinkAnswer] = Field(default=[], description="Read with one case; lists leave them out")
    blocked_by: list[str] = Field(default=[], description="Cases that it waits for; read with one case")
    children: list[str] = Field(default=[], description="Its parts; read with one case")
    moves: list[State] = Field(description="Where it can go next")
    missing: list[str] = Field(default=[], description="What DONE still needs; read with one case")
    version: int
    author: str
    author_name: str
    created_at: Time
    updated_at: Time
    comments: list[CommentAnswer] = Field(default=[], description="Read with one case")
    history: list[HistoryAnswer] = Field(default=[], description="Read with one case")


class TestAnswer(Answer):
    __test__ = False
    name: str
    outcome: TestOutcome


class ProofRunAnswer(Answer):
    id: str
    commit: str
    side: Side
    outcome: Outcome
    said: str
    exit_code: int | None
    tests: list[TestAnswer]
    output: str = Field(description="The beginning and the end of it; the digest is of all")
    output_bytes: int
    output_digest: str
    seconds: float
    environment: dict[str, Any]
    job_id: str | None
    requested_by: str
    created_at: Time
    ended_at: Time | None


class ProofAnswer(Answer):
    id: str
    case_id: str
    kind: ProofKind
    claim: str
    criteria: list[str]
    command: str
    expected_exit: int
    tests: list[str]
    report: str | None
    is_reproduction: bool
    environment: str | None
    timeout_seconds: int
    commit: str | None
    outcome: str | None
    artifact_id: str | None
    author: str
    author_name: str
    created_at: Time
    verdict: Verdict
    why: str
    runs: list[ProofRunAnswer]


class EnvironmentAnswer(Answer):
    name: str
    path: str = Field(description="Empty where it is named but not registered")
    repositories: list[str]
    cases: int = Field(description="How many open cases name it")
    digest: str = Field(description="Of names, sizes and moments of change, when somebody last looked")
    checked_at: Time | None
    problem: str = Field(description="Why runs cannot use it; empty where nothing is known against it")
    created_by: str
    created_at: Time


class ProofKeyAnswer(Answer):
    id: str
    pem: str
    created_at: Time


def case_answer(case: Case, claim: CaseClaim | None) -> CaseAnswer:
    """A case as lists show it."""
    return CaseAnswer.of(
        case,
        claim=None if claim is None else ClaimAnswer.of(claim),
        links=[],
        blocked_by=[],
        children=[],
        moves=list(moves(case.kind, case.state, case.blocked_from)),
        missing=[],
        comments=[],
        history=[],
    )


def detail_answer(detail: CaseDetail, proofs: Sequence[ProvenProof]) -> CaseAnswer:
    """A case with all that belongs to it."""
    case = detail.case
    verdicts = covered(case, proofs)
    return CaseAnswer.of(
        case,
        criteria=[CriterionAnswer(id=each.id, text=each.text, verdict=verdicts[each.id]) for each in case.criteria],
        claim=None if detail.claim is None else ClaimAnswer.of(detail.claim),
        links=_links(case.id, detail.links),
        blocked_by=list(detail.blocked_by),
        children=list(detail.children),
        moves=list(moves(case.kind, case.state, case.blocked_from)),
        missing=[] if case.state in ("DONE", "CANCELLED") else missing(case, proofs),
        comments=[CommentAnswer.of(each) for each in detail.comments],
        history=[HistoryAnswer.of(each) for each in detail.history],
    )


def proof_answer(proven: ProvenProof) -> ProofAnswer:
    """A proof with its runs, newest first."""
    return ProofAnswer.of(proven.proof, verdict=proven.verdict, why=proven.why, runs=list(proven.runs))


def _links(id: str, links: Sequence[CaseLink]) -> list[CaseLinkAnswer]:
    """A case's own ties; what is related is so from either end."""
    return [
        CaseLinkAnswer(type=each.type, case_id=each.to_id if each.from_id == id else each.from_id)
        for each in links
        if each.from_id == id or each.type == "related"
    ]
