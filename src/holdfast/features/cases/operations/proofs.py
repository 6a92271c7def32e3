"""Owns the REST operations of proofs: adding, reading and running them, statements, keys and environments."""

from typing import Literal

import orjson
from pydantic import Field

from holdfast.core.access import ADMINISTER, READ, WRITE, Access
from holdfast.core.model import Model
from holdfast.core.operations import Download, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.cases.answers import EnvironmentAnswer, ProofAnswer, ProofKeyAnswer, proof_answer
from holdfast.features.cases.model import Writing
from holdfast.features.cases.proofs.model import USUAL_SECONDS, NewProof, ProofKind
from holdfast.features.cases.proofs.service import ProofService

_BASE = "/api/workspaces/{workspace_id}/cases"
_ONE = _BASE + "/proofs/{proof_id}"
_ENVIRONMENTS = "/api/workspaces/{workspace_id}/proof-environments"
KNOWN = Access("self", SCOPES)
"""Anybody with a credential: public keys are for everybody, and nobody's."""
ENVELOPE = "application/vnd.dsse.envelope.v1+json"

api = Operations("proofs")


class ProofBody(Model):
    kind: ProofKind = "run"
    claim: str = Field(default="", description="What it shows, in words")
    criteria: tuple[str, ...] = Field(default=(), description="Ids of the case's criteria, such as c1")
    command: str = Field(default="", description="What our runner executes in a clean checkout, by /bin/sh")
    expected_exit: int = 0
    tests: tuple[str, ...] = Field(default=(), description="Tests that must have passed, by their names in the report")
    report: str | None = Field(default=None, description="Where the command writes JUnit XML")
    is_reproduction: bool = Field(default=False, description="A bug's: it has to fail at base_commit, too")
    environment: str | None = Field(default=None, max_length=200)
    timeout_seconds: int = USUAL_SECONDS
    commit: str | None = Field(default=None, max_length=100, description="Where something was seen, as reported")
    outcome: Literal["passed", "failed"] | None = Field(default=None, description="What was seen, as reported")
    artifact_id: str | None = Field(default=None, max_length=200)
    fence: int | None = Field(default=None, description="Of the claim under which this is written")


class RepositoriesBody(Model):
    repositories: list[str] = Field(max_length=1_000, description="Slugs; all that have it, in place of those before")


class StatementQuery(Model):
    run_id: str | None = Field(default=None, max_length=200, description="The newest finished run when left out")


@api.get(_BASE + "/{case_id}/proofs", READ, "List a case's proofs with their runs")
async def listed(proofs: ProofService, principal: Principal, workspace_id: str, case_id: str) -> Page[ProofAnswer]:
    _, found = await proofs.of_case(principal, workspace_id, case_id)
    return Page([proof_answer(each) for each in found])


@api.post(_BASE + "/{case_id}/proofs", WRITE, "Add a proof; a command is run at once", status=201)
async def add(
    proofs: ProofService, principal: Principal, workspace_id: str, case_id: str, body: ProofBody
) -> ProofAnswer:
    writing = Writing(fence=body.fence)
    return proof_answer(await proofs.add(principal, workspace_id, case_id, body.into(NewProof), writing))


@api.get(_ONE, READ, "Read a proof with its runs")
async def read(proofs: ProofService, principal: Principal, workspace_id: str, proof_id: str) -> ProofAnswer:
    return proof_answer(await proofs.get(principal, workspace_id, proof_id))


@api.post(_ONE + "/run", WRITE, "Run a proof again at the present head")
async def run(proofs: ProofService, principal: Principal, workspace_id: str, proof_id: str) -> ProofAnswer:
    return proof_answer(await proofs.run(principal, workspace_id, proof_id))


@api.get(_ONE + "/statement", READ, "The signed in-toto statement of a run", produces=ENVELOPE)
async def statement(
    proofs: ProofService, principal: Principal, workspace_id: str, proof_id: str, query: StatementQuery
) -> Download:
    envelope = await proofs.statement(principal, workspace_id, proof_id, query.run_id)
    return Download(orjson.dumps(envelope.as_json()), ENVELOPE, f"{proof_id}.intoto.json")


@api.get("/api/proof-keys", KNOWN, "The public keys that statements of this server are checked with")
async def keys(proofs: ProofService, principal: Principal) -> Page[ProofKeyAnswer]:
    return Page([ProofKeyAnswer.of(each) for each in await proofs.public_keys()])


@api.get(_ENVIRONMENTS, READ, "List prepared environments; an operator registers them on the machine")
async def environments(proofs: ProofService, principal: Principal, workspace_id: str) -> Page[EnvironmentAnswer]:
    return Page([EnvironmentAnswer.of(each) for each in await proofs.environments(principal, workspace_id)])


@api.put(_ENVIRONMENTS + "/{name}/repositories", ADMINISTER, "Set whose proofs see an environment by themselves")
async def declare(
    proofs: ProofService, principal: Principal, workspace_id: str, name: str, body: RepositoriesBody
) -> EnvironmentAnswer:
    return EnvironmentAnswer.of(await proofs.declare(principal, workspace_id, name, body.repositories))


@api.post(_ENVIRONMENTS + "/{name}/look", ADMINISTER, "Look at a prepared environment again: its digest, its problems")
async def look(proofs: ProofService, principal: Principal, workspace_id: str, name: str) -> EnvironmentAnswer:
    return EnvironmentAnswer.of(await proofs.look(principal, workspace_id, name))


@api.delete(_ENVIRONMENTS + "/{name}", ADMINISTER, "Forget a prepared environment")
async def unregister(proofs: ProofService, principal: Principal, workspace_id: str, name: str) -> None:
    await proofs.unregister(principal, workspace_id, name)
