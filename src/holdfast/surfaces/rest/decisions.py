"""Owns the REST operations of decisions."""

from pydantic import Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.clock import iso, iso_or_none, parse_time
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Operation
from holdfast.core.paging import Page
from holdfast.features.intelligence.model import Decision, DecisionEdit, DecisionFilter, Found, NewDecision, Status
from holdfast.features.intelligence.service import IntelligenceService

_BASE = "/api/workspaces/{workspace_id}/decisions"
_ONE = _BASE + "/{decision_id}"
_TAG = "decisions"


class DecisionBody(Model):
    title: str = Field(description="What was decided, or has to be")
    rationale: str = Field(default="", description="Why")
    alternatives: list[str] = Field(default=[], description="What else was considered")
    status: Status | None = Field(default=None, description="accepted when left out; open when it is blocking")
    blocking: bool = Field(default=False, description="Whether work waits for it")
    supersedes: str | None = Field(default=None, description="Id of the decision that this one replaces")
    decided_at: str | None = Field(default=None, description="ISO 8601; now when left out")


class DecisionChange(Model):
    title: str | None = None
    rationale: str | None = None
    alternatives: list[str] | None = None
    status: Status | None = Field(default=None, description="Another status puts a superseded decision in force again")
    blocking: bool | None = None
    decided_at: str | None = None


class DecisionQuery(PageQuery):
    q: str = Field(default="", max_length=2000, description="Search by meaning and words, best first")
    status: Status | None = None
    blocking: bool | None = None
    since: str | None = Field(default=None, description="Decided at or after this moment")
    until: str | None = Field(default=None, description="Decided at or before this moment")
    as_of: str | None = Field(default=None, description="As it stood at this moment")


class DecisionAnswer(Model):
    id: str
    workspace_id: str
    title: str
    rationale: str
    alternatives: list[str]
    status: Status
    blocking: bool
    decided_at: str
    supersedes: str | None
    superseded_by: str | None
    superseded_at: str | None
    author: str
    author_name: str
    created_at: str
    updated_at: str
    score: float | None = Field(default=None, description="0 to 1 where there was a query")
    snippet: str | None = Field(default=None, description="The passage that matched")


def decision_answer(decision: Decision, score: float | None = None, snippet: str | None = None) -> DecisionAnswer:
    """A decision as REST shows it."""
    return DecisionAnswer(
        id=decision.id,
        workspace_id=decision.workspace_id,
        title=decision.title,
        rationale=decision.rationale,
        alternatives=list(decision.alternatives),
        status=decision.status,
        blocking=decision.blocking,
        decided_at=iso(decision.decided_at),
        supersedes=decision.supersedes,
        superseded_by=decision.superseded_by,
        superseded_at=iso_or_none(decision.superseded_at),
        author=decision.author,
        author_name=decision.author_name,
        created_at=iso(decision.created_at),
        updated_at=iso(decision.updated_at),
        score=score,
        snippet=snippet,
    )


def operations(service: IntelligenceService) -> list[Operation]:
    """Every operation of decisions."""

    async def track(call: Call) -> DecisionAnswer:
        given: DecisionBody = call.body
        new = NewDecision(
            title=given.title,
            rationale=given.rationale,
            alternatives=tuple(given.alternatives),
            status=given.status,
            blocking=given.blocking,
            supersedes=given.supersedes,
            decided_at=_moment(given.decided_at, "decided_at"),
        )
        return decision_answer(await service.decisions.track(call.principal, call.path["workspace_id"], new))

    async def page(call: Call) -> Page[DecisionAnswer]:
        asked: DecisionQuery = call.query
        wanted = DecisionFilter(
            asked.status,
            asked.blocking,
            _moment(asked.since, "since"),
            _moment(asked.until, "until"),
            _moment(asked.as_of, "as_of"),
        )
        workspace_id = call.path["workspace_id"]
        if asked.q.strip():
            found = await service.decisions.search(call.principal, workspace_id, asked.q, wanted, limit=asked.limit)
            return Page([_found_answer(each) for each in found])
        listed = await service.decisions.page(
            call.principal, workspace_id, wanted, limit=asked.limit, cursor=asked.cursor
        )
        return listed.map(decision_answer)

    async def read(call: Call) -> DecisionAnswer:
        return decision_answer(
            await service.decisions.get(call.principal, call.path["workspace_id"], call.path["decision_id"])
        )

    async def edit(call: Call) -> DecisionAnswer:
        given: DecisionChange = call.body
        change = DecisionEdit(
            title=given.title,
            rationale=given.rationale,
            alternatives=None if given.alternatives is None else tuple(given.alternatives),
            status=given.status,
            blocking=given.blocking,
            decided_at=_moment(given.decided_at, "decided_at"),
        )
        return decision_answer(
            await service.decisions.edit(call.principal, call.path["workspace_id"], call.path["decision_id"], change)
        )

    return [
        Operation(
            method="GET",
            path=_BASE,
            handler=page,
            summary="List decisions, newest first, or search them",
            tag=_TAG,
            access=READ_INTEL,
            query=DecisionQuery,
            answer=DecisionAnswer,
            paged=True,
        ),
        Operation(
            method="POST",
            path=_BASE,
            handler=track,
            summary="Track a decision",
            tag=_TAG,
            access=WRITE_INTEL,
            body=DecisionBody,
            answer=DecisionAnswer,
            status=201,
        ),
        Operation(
            method="GET",
            path=_ONE,
            handler=read,
            summary="Read a decision",
            tag=_TAG,
            access=READ_INTEL,
            answer=DecisionAnswer,
        ),
        Operation(
            method="PATCH",
            path=_ONE,
            handler=edit,
            summary="Edit a decision; fields left out stay",
            tag=_TAG,
            access=WRITE_INTEL,
            body=DecisionChange,
            answer=DecisionAnswer,
        ),
    ]


def _found_answer(found: Found) -> DecisionAnswer:
    return decision_answer(found.decision, found.score, found.snippet)


def _moment(text: str | None, field: str) -> int | None:
    return None if text is None else parse_time(text, field)
