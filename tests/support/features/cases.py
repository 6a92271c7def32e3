"""Owns what the tests of cases stand on: a workspace with people and agents, and short ways to say common things."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.core.errors import NotFound
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import Runtime
from holdfast.features.cases.model import Case, NewCase, Taking, Writing
from holdfast.features.cases.proofs.model import NewProof, Proof, ProofRun, ProvenProof, TestResult
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.states import State
from holdfast.features.identity.service import local_principal
from holdfast.features.repositories.model import NewRepository
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, background, build_services, first_start


@dataclass(frozen=True, slots=True)
class CaseStage:
    """Everything a test needs."""

    services: Services
    clock: MovableClock
    ada: Principal
    """A person."""
    agent: Principal
    workspace: str

    @property
    def cases(self) -> CaseService:
        return self.services[CaseService]

    @property
    def proofs(self) -> ProofService:
        return self.services[ProofService]

    @property
    def reading(self) -> CaseReading:
        return self.services[CaseReading]

    def another(self, number: int) -> Principal:
        """One of many agents."""
        return replace(self.agent, actor=f"key_{number}", name=f"agent {number}")

    async def add(self, title: str = "Mend the fence", **fields: Any) -> Case:
        return await self.cases.add(self.ada, self.workspace, NewCase(title=title, **fields))

    async def move(self, id: str, *states: State, by: Principal | None = None, **more: Any) -> Case:
        reason = more.pop("reason", "")
        moved: Case | None = None
        for state in states:
            writing = Writing(**more)
            moved = await self.cases.move(by or self.ada, self.workspace, id, state, reason=reason, writing=writing)
        assert moved is not None
        return moved

    async def claim(self, id: str, by: Principal | None = None, **more: Any) -> Case:
        return await self.cases.claims.claim(by or self.agent, self.workspace, id, Taking(**more))

    async def prove(self, id: str, by: Principal | None = None, **fields: Any) -> ProvenProof:
        return await self.proofs.add(by or self.agent, self.workspace, id, NewProof(**fields))

    async def ready(self) -> list[str]:
        return [case.id for case in await self.cases.claims.ready(self.ada, self.workspace)]


async def case_stage(database: Database, clock: MovableClock, data_dir: Path = NOWHERE) -> CaseStage:
    """A founded organization, a person and an agent."""
    settings = Settings(data_dir=data_dir, secrets_master_key=MASTER_KEY)
    services = build_services(settings, database, clock, WordEmbedder())
    start = await first_start(services)
    owner = local_principal(start.organization_id)
    agent = replace(owner, actor="key_1", proof="key", is_person=False, role="member", name="Agent One")
    return CaseStage(services, clock, replace(owner, actor="usr_1", name="Ada"), agent, start.workspace_id)


@asynccontextmanager
async def proving(database: Database, clock: MovableClock, place: Path) -> AsyncIterator["ProofStage"]:
    """The same with a repository, and with everything running that runs proofs, in the real sandbox."""
    stage = await case_stage(database, clock, place / "data")
    repo = GitRepo(place / "repo")
    async with background(stage.services):
        try:
            yield ProofStage(stage, repo)
        finally:
            await stage.services[Runtime].close()
            await stage.services.git.close()


@dataclass(frozen=True, slots=True)
class ProofStage:
    """A repository, and cases about it."""

    stage: CaseStage
    repo: GitRepo

    def commit(self, **files: str) -> str:
        """A commit with these files, `calc_py` for `calc.py`; its hash."""
        for name, content in files.items():
            self.repo.write(name.replace("_py", ".py"), content)
        self.repo.commit("change")
        return self.repo.head

    async def known(self) -> None:
        """Have the server read the repository as it is now."""
        services, ada = self.stage.services, self.stage.ada
        try:
            found = await services.repositories.sync(ada, "calc")
        except NotFound:
            new = NewRepository(location=str(self.repo.path), slug="calc")
            found = await services.repositories.add(ada, self.stage.workspace, new)
        assert found.job_id is not None
        await services.jobs.wait(found.job_id, timeout_seconds=120)

    async def proven(self, proof: ProvenProof) -> ProvenProof:
        """A proof once everything that was queued of it has ended."""
        stage = self.stage
        found = await stage.proofs.get(stage.ada, stage.workspace, proof.proof.id)
        for run in found.runs:
            if run.job_id is not None:
                await stage.services.jobs.wait(run.job_id, timeout_seconds=120)
        return await stage.proofs.get(stage.ada, stage.workspace, proof.proof.id)

    async def case(self, **fields: Any) -> Case:
        return await self.stage.add(repository="calc", **fields)

    async def run(self, command: str, **fields: Any) -> ProvenProof:
        """What a command shows, as the one proof of a new case."""
        case = await self.case()
        return await self.proven(await self.stage.prove(case.id, command=command, **fields))


def seen_to_pass(case: Case, commit: str) -> tuple[Proof, ProofRun]:
    """A proof, and a run of it that passed, as our runner would have kept them."""
    proof = Proof(
        id=new_id("prf"),
        workspace_id=case.workspace_id,
        case_id=case.id,
        kind="run",
        claim="",
        criteria=("c1",),
        command="pytest -q --junitxml=report.xml",
        expected_exit=0,
        tests=("test_sum",),
        report="report.xml",
        is_reproduction=False,
        environment=None,
        timeout_seconds=60,
        commit=commit,
        outcome=None,
        artifact_id=None,
        author="key_1",
        author_name="Agent",
        created_at=case.created_at,
    )
    run = ProofRun(
        id=new_id("prun"),
        proof_id=proof.id,
        case_id=case.id,
        commit=commit,
        side="head",
        outcome="passed",
        said="It passed.",
        exit_code=0,
        tests=(TestResult("test_sum", "passed"),),
        output="1 passed",
        output_bytes=8,
        output_digest="0" * 64,
        seconds=1.5,
        environment={"network": "none"},
        job_id=None,
        requested_by="key_1",
        created_at=case.created_at,
        ended_at=case.created_at,
    )
    return proof, run
