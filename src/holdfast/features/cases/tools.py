"""Owns the tools of work items: `zero_list_cases`, `zero_get_case`, and those that claim, move and prove."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from holdfast.core.access import READ, WRITE, Access
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.features.cases.answers import CaseAnswer, ProofAnswer, proof_answer
from holdfast.features.cases.model import CaseFilter, Taking, Writing
from holdfast.features.cases.proofs.model import USUAL_SECONDS, NewProof
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.states import STATES, State

MOST_LISTED = 500
_Id = Annotated[str, Field(max_length=200)]
_Fence = Annotated[int | None, Field(description="The fence of your claim: a stale one is refused.")]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ListCasesInput(BaseModel):
    # As documented, to the letter: no more keys, no descriptions.
    state_filter: Annotated[str | None, Field(max_length=100), WithJsonSchema({"type": "string"})] = None


class ListedCase(BaseModel):
    id: str
    title: str
    kind: str
    state: State
    priority: int
    holder: str | None
    uri: str


class ListCasesOutput(BaseModel):
    cases: list[ListedCase]
    truncated: bool


class CaseIdInput(BaseModel):
    case_id: _Id


class ClaimCaseInput(_Input):
    case_id: _Id | None = Field(None, description="Left out, the first that is ready in the workspace.")
    session_id: str | None = Field(None, max_length=200, description="The session that works on it.")


class MoveCaseInput(_Input):
    case_id: _Id = Field(description="The case to move.")
    state: State = Field(description="Where to; one step from where it is.")
    reason: str = Field("", description="Why; needed for BLOCKED and CANCELLED.")
    expected_version: int | None = Field(None, description="The version you read: refused where it changed since.")
    fence: _Fence = None


class AddProofInput(_Input):
    case_id: _Id = Field(description="The case that it is about.")
    kind: Literal["run", "reported"] = Field(
        "run", description="run: our runner executes command; reported: you say so."
    )
    criteria: list[str] = Field([], description="Ids of the criteria that it shows, such as c1.")
    command: str = Field("", description="What shows it, run by /bin/sh in a clean checkout at the head commit.")
    expected_exit: int = Field(0, description="The exit status that means that it is so.")
    tests: list[str] = Field([], description="Tests that must have passed, by their names in the report.")
    report: str | None = Field(None, description="Where the command writes JUnit XML.")
    is_reproduction: bool = Field(False, description="A bug's: it must fail at base_commit and pass at the head.")
    claim: str = Field("", description="What it shows, in words.")
    outcome: Literal["passed", "failed"] | None = Field(None, description="Of a reported one.")
    commit: str | None = Field(None, description="Of a reported one.")
    environment: str | None = Field(None, description="A prepared environment's name.")
    timeout_seconds: int = Field(USUAL_SECONDS, description="How long the command may take.")
    fence: _Fence = None


class RunProofInput(_Input):
    proof_id: _Id = Field(description="The proof to run.")


def case_uri(case_id: str) -> str:
    """The address of a case."""
    return f"zero://cases/{case_id}"


def proofs_uri(case_id: str) -> str:
    """The address of a case's proofs."""
    return f"zero://proofs/{case_id}"


def tools(cases: CaseService, reading: CaseReading, proofs: ProofService) -> list[AnyTool]:
    """The tools over the services, the documented ones first."""

    async def list_cases(call: ToolCall, given: ListCasesInput) -> ListCasesOutput:
        wanted = CaseFilter(state=_state(given.state_filter))
        page = await cases.page(
            call.principal, call.workspace_id, wanted, project_id=call.project_id, limit=MOST_LISTED
        )
        now = cases.base.clock.now()
        rows = [
            ListedCase(
                id=case.id,
                title=case.title,
                kind=case.kind,
                state=case.state,
                priority=case.priority,
                holder=claim.holder_name or claim.holder if (claim := case.claim(now)) else None,
                uri=case_uri(case.id),
            )
            for case in page.items
        ]
        return ListCasesOutput(cases=rows, truncated=page.next_cursor is not None)

    async def get_case(call: ToolCall, given: CaseIdInput) -> CaseAnswer:
        return await reading.read(call.principal, call.workspace_id, given.case_id)

    async def claim_case(call: ToolCall, given: ClaimCaseInput) -> CaseAnswer:
        taking = Taking(session_id=given.session_id)
        if given.case_id is None:
            return await reading.claim_next(call.principal, await _workspace(call), taking)
        case = await cases.claims.claim(call.principal, call.workspace_id, given.case_id, taking)
        return await reading.answer(call.principal, case)

    async def _workspace(call: ToolCall) -> str:
        if call.workspace_id is not None:
            return call.workspace_id
        seen = await cases.base.workspaces.seen(call.principal, call.project_id, 2)
        if len(seen) == 1:
            return seen[0].id
        problem = "name a case, or send the header X-Xerotier-Workspace"
        raise Invalid("There are several workspaces.", fields=[FieldError("case_id", problem)])

    async def move_case(call: ToolCall, given: MoveCaseInput) -> CaseAnswer:
        writing = Writing(given.expected_version, given.fence)
        case = await cases.move(
            call.principal, call.workspace_id, given.case_id, given.state, reason=given.reason, writing=writing
        )
        return await reading.answer(call.principal, case)

    async def add_proof(call: ToolCall, given: AddProofInput) -> ProofAnswer:
        said = given.model_dump(exclude={"case_id", "fence", "criteria", "tests"})
        new = NewProof(**said, criteria=tuple(given.criteria), tests=tuple(given.tests))
        found = await proofs.add(call.principal, call.workspace_id, given.case_id, new, Writing(fence=given.fence))
        return proof_answer(found)

    async def run_proof(call: ToolCall, given: RunProofInput) -> ProofAnswer:
        return proof_answer(await proofs.run(call.principal, call.workspace_id, given.proof_id))

    def tool(name: str, title: str, description: str, given: Any, gives: Any, handler: Any, access: Access) -> AnyTool:
        notes = Annotations(read_only=access is READ, idempotent=access is READ)
        return Tool(name, title, description, given, gives, handler, notes, access, consumer="zero")

    # The first two are described as documented, to the letter.
    return [
        tool(
            "zero_list_cases",
            "List cases",
            "List all Work items with their state and title",
            ListCasesInput,
            ListCasesOutput,
            list_cases,
            READ,
        ),
        tool(
            "zero_get_case",
            "Read a case",
            "Get full details of a specific Work item by ID",
            CaseIdInput,
            CaseAnswer,
            get_case,
            READ,
        ),
        tool(
            "zero_claim_case",
            "Claim a case",
            "Take a work item so that nobody else works on it; keep the fence that comes back and send it with writes.",
            ClaimCaseInput,
            CaseAnswer,
            claim_case,
            WRITE,
        ),
        tool(
            "zero_move_case",
            "Move a case",
            "Move a work item one step. DONE is refused until all criteria are proven; the error says what is missing.",
            MoveCaseInput,
            CaseAnswer,
            move_case,
            WRITE,
        ),
        tool(
            "zero_add_proof",
            "Add a proof",
            "Propose the command that shows a criterion; the server runs it in a clean checkout and judges it itself.",
            AddProofInput,
            ProofAnswer,
            add_proof,
            WRITE,
        ),
        tool(
            "zero_run_proof",
            "Run a proof again",
            "Have a proof run once more at the present head. Read it again for the verdict.",
            RunProofInput,
            ProofAnswer,
            run_proof,
            WRITE,
        ),
    ]


def _state(word: str | None) -> State | None:
    if word is None or not word.strip():
        return None
    for state in STATES:
        if word.strip().upper() == state:
            return state
    raise Invalid("No such state.", fields=[FieldError("state_filter", f"one of {', '.join(STATES)}")])
