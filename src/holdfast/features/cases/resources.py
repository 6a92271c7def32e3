"""Owns what agents read of cases at an address: `zero://cases/{id}` and `zero://proofs/{case_id}`."""

import json

from holdfast.core.access import READ
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.cases.answers import proof_answer
from holdfast.features.cases.model import Case
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.tools import case_uri
from holdfast.registry.content import Content
from holdfast.registry.resources import Arguments, ListedResource, ResourceTemplate

JSON = "application/json"
_MOST_TOLD = 100


def zero_resources(cases: CaseService, reading: CaseReading, proofs: ProofService) -> list[ResourceTemplate]:
    """The two kinds; without a workspace they are about all that the reader sees in the project."""

    async def page(principal: Principal, place: str, limit: int, cursor: str | None) -> Page[ListedResource]:
        found = await cases.page(principal, place or None, project_id=principal.project_id, limit=limit, cursor=cursor)
        return found.map(listed)

    async def read_case(principal: Principal, place: str, named: Arguments) -> Content:
        found = await reading.read(principal, place or None, named["id"])
        return Content(found.model_dump_json(), JSON)

    async def read_proofs(principal: Principal, place: str, named: Arguments) -> Content:
        case, found = await proofs.of_case(principal, place or None, named["case_id"])
        rows = [proof_answer(each).model_dump(mode="json") for each in found]
        return Content(json.dumps({"case_id": case.id, "proofs": rows}, ensure_ascii=False), JSON)

    return [
        ResourceTemplate(
            uri_template="zero://cases/{id}",
            name="case",
            title="A case",
            description="A work item with its criteria, what DONE still needs, claim, links, comments and history.",
            access=READ,
            read=read_case,
            mime_type=JSON,
            page=page,
        ),
        ResourceTemplate(
            uri_template="zero://proofs/{case_id}",
            name="proofs",
            title="A case's proofs",
            description="What shows that a work item is done: commands, runs, verdicts.",
            access=READ,
            read=read_proofs,
            mime_type=JSON,
        ),
    ]


def listed(case: Case) -> ListedResource:
    """A case in the list of resources: its state, and what it is about."""
    about = (case.reason if case.state == "BLOCKED" else "") or case.body or case.title
    first = " ".join(about.split())
    told = first if len(first) <= _MOST_TOLD else first[: _MOST_TOLD - 2].rsplit(" ", 1)[0] + " …"
    return ListedResource(uri=case_uri(case.id), name=case.title, description=f"{case.state} — {told}", mime_type=JSON)
