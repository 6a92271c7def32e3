"""Owns the REST operations of cases: adding, listing, reading, changing, moving, linking, remarking."""

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.model import Deadline, Model, PageQuery
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.cases.answers import CaseAnswer, CommentAnswer, case_answer
from holdfast.features.cases.model import LINK_TYPES, USUAL, CaseFilter, LinkType, NewCase, NewLink, Writing
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.states import Kind, State

_BASE = "/api/workspaces/{workspace_id}/cases"
_ONE = _BASE + "/{case_id}"

api = Operations("cases")


class CaseLinkBody(Model):
    type: LinkType
    case_id: str = Field(max_length=200)


class CaseBody(Model):
    title: str
    body: str = ""
    kind: Kind = "task"
    priority: int = Field(default=USUAL, description="0 comes first, 4 last")
    criteria: tuple[str, ...] = Field(default=(), description="What has to be shown before it is done")
    labels: tuple[str, ...] = ()
    assignee: str | None = Field(default=None, description="An id or a name; claim-next gives it to nobody else")
    due_at: Deadline = None
    repository: str | None = Field(default=None, max_length=200, description="The slug of a repository in memory")
    base_commit: str | None = Field(default=None, max_length=100, description="Where the work began; a bug shows there")
    head_commit: str | None = Field(
        default=None, max_length=100, description="Where proofs count; the repository's branch when left out"
    )
    environment: str | None = Field(default=None, max_length=200, description="The prepared environment of its proofs")
    parent: str | None = Field(default=None, max_length=200)
    links: tuple[CaseLinkBody, ...] = ()


class CaseChangeBody(Model):
    title: str | None = None
    body: str | None = None
    kind: Kind | None = None
    priority: int | None = None
    criteria: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    assignee: str | None = None
    due_at: Deadline = None
    repository: str | None = Field(default=None, max_length=200)
    base_commit: str | None = Field(default=None, max_length=100)
    head_commit: str | None = Field(default=None, max_length=100)
    environment: str | None = Field(default=None, max_length=200)
    parent: str | None = Field(default=None, max_length=200)
    expected_version: int | None = None
    fence: int | None = Field(default=None, description="Of the claim under which this is written")


class CaseQuery(PageQuery):
    state: State | None = None
    kind: Kind | None = None
    label: str | None = Field(default=None, max_length=200)
    assignee: str | None = Field(default=None, max_length=200)
    parent: str | None = Field(default=None, max_length=200)
    repository: str | None = Field(default=None, max_length=200)


class MoveBody(Model):
    state: State
    reason: str = ""
    expected_version: int | None = None
    fence: int | None = Field(default=None, description="Of the claim under which this is written")


class CommentBody(Model):
    text: str


@api.get(_BASE, READ, "List cases, newest first")
async def page(cases: CaseService, principal: Principal, workspace_id: str, query: CaseQuery) -> Page[CaseAnswer]:
    found = await cases.page(principal, workspace_id, query.into(CaseFilter), limit=query.limit, cursor=query.cursor)
    now = cases.base.clock.now()
    return found.map(lambda case: case_answer(case, case.claim(now)))


@api.post(_BASE, WRITE, "Add a case", status=201)
async def add(
    cases: CaseService, reading: CaseReading, principal: Principal, workspace_id: str, body: CaseBody
) -> CaseAnswer:
    links = tuple(each.into(NewLink) for each in body.links)
    case = await cases.add(principal, workspace_id, body.into(NewCase, links=links))
    return await reading.answer(principal, case)


@api.get(_ONE, READ, "Read a case with its criteria, links, comments and history")
async def read(reading: CaseReading, principal: Principal, workspace_id: str, case_id: str) -> CaseAnswer:
    return await reading.read(principal, workspace_id, case_id)


@api.patch(_ONE, WRITE, "Change a case; fields left out stay")
async def edit(
    cases: CaseService,
    reading: CaseReading,
    principal: Principal,
    workspace_id: str,
    case_id: str,
    body: CaseChangeBody,
) -> CaseAnswer:
    given = body.model_fields_set - {"expected_version", "fence"}
    required = {"title", "body", "kind", "priority", "criteria", "labels"}
    changes = {name: getattr(body, name) for name in given if name not in required or getattr(body, name) is not None}
    writing = Writing(body.expected_version, body.fence)
    return await reading.answer(principal, await cases.edit(principal, workspace_id, case_id, changes, writing))


@api.post(_ONE + "/move", WRITE, "Move a case one step; an illegal move names the legal ones")
async def move(
    cases: CaseService, reading: CaseReading, principal: Principal, workspace_id: str, case_id: str, body: MoveBody
) -> CaseAnswer:
    writing = Writing(body.expected_version, body.fence)
    moved = await cases.move(principal, workspace_id, case_id, body.state, reason=body.reason, writing=writing)
    return await reading.answer(principal, moved)


@api.post(_ONE + "/links", WRITE, "Tie a case to another; a circle is refused with its path")
async def link(
    cases: CaseService, reading: CaseReading, principal: Principal, workspace_id: str, case_id: str, body: CaseLinkBody
) -> CaseAnswer:
    return await reading.answer(principal, await cases.links.link(principal, workspace_id, case_id, body.into(NewLink)))


@api.delete(_ONE + "/links/{type}/{other_id}", WRITE, "Take a tie away")
async def unlink(
    cases: CaseService, principal: Principal, workspace_id: str, case_id: str, type: str, other_id: str
) -> None:
    found = next((each for each in LINK_TYPES if each == type), None)
    if found is None:
        problem = f"one of {', '.join(LINK_TYPES)}"
        raise Invalid("There is no such type of link.", fields=[FieldError("type", problem)])
    await cases.links.unlink(principal, workspace_id, case_id, NewLink(found, other_id))


@api.post(_ONE + "/comments", WRITE, "Remark on a case; names after an @ are mentions", status=201)
async def comment(
    cases: CaseService, principal: Principal, workspace_id: str, case_id: str, body: CommentBody
) -> CommentAnswer:
    return CommentAnswer.of(await cases.comment(principal, workspace_id, case_id, body.text))
