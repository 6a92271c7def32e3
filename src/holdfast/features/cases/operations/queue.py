"""Owns the REST operations of the queue: what is ready, and who has what."""

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.cases.answers import CaseAnswer, case_answer
from holdfast.features.cases.model import Taking
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService

_BASE = "/api/workspaces/{workspace_id}/cases"
_ONE = _BASE + "/{case_id}"

api = Operations("cases")


class ClaimBody(Model):
    session_id: str | None = Field(default=None, description="The session that works on it; its lease is 15 minutes")
    lease_seconds: int | None = Field(default=None, description="4 hours, or 15 minutes for a session, when left out")


class RenewBody(Model):
    fence: int
    lease_seconds: int | None = None


class ReleaseBody(Model):
    fence: int | None = Field(default=None, description="Of the claim; a person may leave it out")


@api.get(_BASE + "/ready", READ, "What nothing blocks and nobody holds, by priority, then age")
async def ready(cases: CaseService, principal: Principal, workspace_id: str, query: PageQuery) -> Page[CaseAnswer]:
    found = await cases.claims.ready_page(principal, workspace_id, limit=query.limit, cursor=query.cursor)
    return found.map(lambda case: case_answer(case, None))


@api.post(_BASE + "/claim-next", WRITE, "Take the first that is ready; 404 nothing_ready where there is none")
async def claim_next(reading: CaseReading, principal: Principal, workspace_id: str, body: ClaimBody) -> CaseAnswer:
    return await reading.claim_next(principal, workspace_id, body.into(Taking))


@api.post(_ONE + "/claim", WRITE, "Take a case; 409 names whoever holds it")
async def claim(
    cases: CaseService, reading: CaseReading, principal: Principal, workspace_id: str, case_id: str, body: ClaimBody
) -> CaseAnswer:
    return await reading.answer(
        principal, await cases.claims.claim(principal, workspace_id, case_id, body.into(Taking))
    )


@api.post(_ONE + "/renew", WRITE, "Hold a case for longer; 409 once the fence is stale")
async def renew(
    cases: CaseService, reading: CaseReading, principal: Principal, workspace_id: str, case_id: str, body: RenewBody
) -> CaseAnswer:
    taking = Taking(lease_seconds=body.lease_seconds)
    return await reading.answer(
        principal, await cases.claims.renew(principal, workspace_id, case_id, body.fence, taking)
    )


@api.post(_ONE + "/release", WRITE, "Give a case back")
async def release(
    cases: CaseService, reading: CaseReading, principal: Principal, workspace_id: str, case_id: str, body: ReleaseBody
) -> CaseAnswer:
    return await reading.answer(principal, await cases.claims.release(principal, workspace_id, case_id, body.fence))
