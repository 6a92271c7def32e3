"""Owns the REST operations of decisions."""

from pydantic import Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.model import Answer, Model, Moment, PageQuery, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.intelligence.model import DecisionEdit, DecisionFilter, NewDecision, Status
from holdfast.features.intelligence.service import IntelligenceService

_BASE = "/api/workspaces/{workspace_id}/decisions"
_ONE = _BASE + "/{decision_id}"

api = Operations("decisions")


class DecisionBody(Model):
    title: str = Field(description="What was decided, or has to be")
    rationale: str = Field(default="", description="Why")
    alternatives: tuple[str, ...] = Field(default=(), description="What else was considered")
    status: Status | None = Field(default=None, description="accepted when left out; open when it is blocking")
    blocking: bool = Field(default=False, description="Whether work waits for it")
    supersedes: str | None = Field(default=None, description="Id of the decision that this one replaces")
    decided_at: Moment = Field(default=None, description="ISO 8601; now when left out")


class DecisionChangeBody(Model):
    title: str | None = None
    rationale: str | None = None
    alternatives: tuple[str, ...] | None = None
    status: Status | None = Field(default=None, description="Another status puts a superseded decision in force again")
    blocking: bool | None = None
    decided_at: Moment = None


class DecisionQuery(PageQuery):
    q: str = Field(default="", max_length=2000, description="Search by meaning and words, best first")
    status: Status | None = None
    blocking: bool | None = None
    since: Moment = Field(default=None, description="Decided at or after this moment")
    until: Moment = Field(default=None, description="Decided at or before this moment")
    as_of: Moment = Field(default=None, description="As it stood at this moment")


class DecisionAnswer(Answer):
    id: str
    workspace_id: str
    title: str
    rationale: str
    alternatives: list[str]
    status: Status
    blocking: bool
    decided_at: Time
    supersedes: str | None
    superseded_by: str | None
    superseded_at: Time | None
    author: str
    author_name: str
    created_at: Time
    updated_at: Time
    score: float | None = Field(default=None, description="0 to 1 where there was a query")
    snippet: str | None = Field(default=None, description="The passage that matched")


@api.get(_BASE, READ_INTEL, "List decisions, newest first, or search them")
async def page(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, query: DecisionQuery
) -> Page[DecisionAnswer]:
    decisions, wanted = intelligence.decisions, query.into(DecisionFilter)
    if query.q.strip():
        found = await decisions.search(principal, workspace_id, query.q, wanted, limit=query.limit)
        return Page([DecisionAnswer.of(each.decision, score=each.score, snippet=each.snippet) for each in found])
    listed = await decisions.page(principal, workspace_id, wanted, limit=query.limit, cursor=query.cursor)
    return listed.map(DecisionAnswer.of)


@api.post(_BASE, WRITE_INTEL, "Track a decision", status=201)
async def track(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, body: DecisionBody
) -> DecisionAnswer:
    return DecisionAnswer.of(await intelligence.decisions.track(principal, workspace_id, body.into(NewDecision)))


@api.get(_ONE, READ_INTEL, "Read a decision")
async def read(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, decision_id: str
) -> DecisionAnswer:
    return DecisionAnswer.of(await intelligence.decisions.get(principal, workspace_id, decision_id))


@api.patch(_ONE, WRITE_INTEL, "Edit a decision; fields left out stay")
async def edit(
    intelligence: IntelligenceService,
    principal: Principal,
    workspace_id: str,
    decision_id: str,
    body: DecisionChangeBody,
) -> DecisionAnswer:
    change = body.into(DecisionEdit)
    return DecisionAnswer.of(await intelligence.decisions.edit(principal, workspace_id, decision_id, change))
