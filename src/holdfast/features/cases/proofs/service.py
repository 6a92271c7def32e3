"""Owns the rules of proofs: adding one, asking for a run, reading what was seen, and prepared environments."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid, NotFound
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.features.cases.base import CaseChange
from holdfast.features.cases.checks import checked_commit
from holdfast.features.cases.model import Case, Writing
from holdfast.features.cases.proofs import store
from holdfast.features.cases.proofs.directories import directory, seen
from holdfast.features.cases.proofs.keys import PublicKey, SigningKeys
from holdfast.features.cases.proofs.model import (
    FINISHED,
    MAX_CLAIM,
    MAX_COMMAND,
    MAX_TEST,
    MAX_TESTS,
    MOST_SECONDS,
    Environment,
    EnvironmentNotFound,
    NewProof,
    Proof,
    ProofNotFound,
    ProvenProof,
)
from holdfast.features.cases.proofs.queueing import RunQueue, head_of
from holdfast.features.cases.proofs.statement import Envelope, statement_of
from holdfast.features.cases.proofs.verdicts import judged
from holdfast.features.cases.service import CaseService, require_person
from holdfast.features.intelligence.base import checked_text
from holdfast.features.repositories import store as repository_store
from holdfast.registry.entities import Entities
from holdfast.storage.database import Tx

_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_UNREGISTERED = "It is named, but not registered: `holdfast cases environment add NAME DIRECTORY` on the machine."


class ProofService:
    """What shows that cases are done. Agents propose commands; only our runner writes results."""

    def __init__(
        self, cases: CaseService, queue: RunQueue, keys: SigningKeys, entities: Entities, data_dir: Path
    ) -> None:
        self._cases = cases
        self._entities = entities
        self._base = cases.base
        self._queue = queue
        self._keys = keys
        self._data_dir = data_dir

    async def of_case(
        self, principal: Principal, workspace_id: str | None, case_id: str
    ) -> tuple[Case, Sequence[ProvenProof]]:
        """A case and its proofs, with what their runs say of the head."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> tuple[Case, Sequence[ProvenProof]]:
            case = self._base.kept(tx, principal, workspace_id, case_id)
            return case, self._queue.proven(tx, case)

        return await self._base.database.read(work)

    async def get(self, principal: Principal, workspace_id: str, proof_id: str) -> ProvenProof:
        """One proof, with what its runs say of the head."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> ProvenProof:
            proof, case = self._kept(tx, principal, workspace_id, proof_id)
            return judged(case, head_of(tx, case), proof, store.runs(tx, [proof.id])[proof.id])

        return await self._base.database.read(work)

    async def add(
        self,
        principal: Principal,
        workspace_id: str | None,
        case_id: str,
        new: NewProof,
        writing: Writing = Writing(),  # noqa: B008 - frozen
    ) -> ProvenProof:
        """Add a proof; one to be run is run at once where the case has a head."""

        def work(tx: Tx) -> ProvenProof:
            case = self._base.held(tx, principal, workspace_id, case_id, writing)
            proof = self._drafted(tx, principal, case, new)
            store.add(tx, proof)
            head = head_of(tx, case)
            runs = self._queue.queue(tx, case, proof, head, principal.actor) if proof.kind == "run" and head else ()
            detail = {"proof_id": proof.id, "kind": proof.kind, "criteria": list(proof.criteria)}
            self._base.note(tx, principal, case, CaseChange("prove", proof.claim[:500], detail=detail))
            return judged(case, head, proof, runs)

        return await self._base.database.write(work)

    async def run(self, principal: Principal, workspace_id: str | None, proof_id: str) -> ProvenProof:
        """Run a proof again at the present head; one that waits or runs there already is not queued twice."""
        principal.require("inference")

        def work(tx: Tx) -> ProvenProof:
            proof, case = self._kept(tx, principal, workspace_id, proof_id)
            if proof.kind != "run":
                raise Conflict(f"A proof of the kind {proof.kind!r} is not run; add one with a command.")
            head = head_of(tx, case)
            if head is None:
                problem = "name the case's repository or head_commit, and sync the repository"
                raise Invalid("There is no commit to run at.", fields=[FieldError("head_commit", problem)])
            self._queue.queue(tx, case, proof, head, principal.actor)
            self._base.note(tx, principal, case, CaseChange("run", detail={"proof_id": proof.id, "commit": head}))
            return judged(case, head, proof, store.runs(tx, [proof.id])[proof.id])

        return await self._base.database.write(work)

    async def statement(
        self, principal: Principal, workspace_id: str, proof_id: str, run_id: str | None = None
    ) -> Envelope:
        """The newest finished run of a proof at the head side, or the named one, as a signed statement."""
        found = await self.get(principal, workspace_id, proof_id)
        case = await self._cases.get(principal, workspace_id, found.proof.case_id)
        over = [each for each in found.runs if each.outcome in FINISHED]
        chosen = next((each for each in over if each.id == run_id or (run_id is None and each.side == "head")), None)
        if chosen is None and run_id is not None:
            raise NotFound("run", run_id)
        if chosen is None:
            raise Conflict("Nothing was run that a statement could be about; run the proof first.", code="not_run")
        return (await self._keys.current()).sign(statement_of(case, found.proof, chosen))

    async def public_keys(self) -> Sequence[PublicKey]:
        """What statements of this installation can be checked with, newest first."""
        await self._keys.current()
        return await self._keys.public()

    # Prepared environments.

    async def environments(self, principal: Principal, workspace_id: str) -> Sequence[Environment]:
        """What is registered in a workspace, and what repositories and cases name without its being so."""
        principal.require_any("read", "inference", "management")

        def work(tx: Tx) -> list[Environment]:
            workspace = self._base.enter(tx, principal, workspace_id)
            found = {each.name: each for each in store.environments(tx, workspace)}
            declared, naming = store.declarations(tx, workspace), store.naming(tx, workspace)
            for name in declared.keys() | naming.keys():
                missing = Environment(workspace, name, "", "", 0, problem=_UNREGISTERED)
                found[name] = replace(
                    found.get(name, missing), repositories=tuple(declared.get(name, ())), cases=naming.get(name, 0)
                )
            return [found[name] for name in sorted(found)]

        return await self._base.database.read(work)

    async def register(self, principal: Principal, workspace_id: str, name: str, path: str) -> Environment:
        """Let runs of a workspace see a directory of this machine, read-only. Only who is at the machine may."""
        if principal.proof != "local":
            # Any directory can be named, and whoever runs proofs then reads it.
            raise Forbidden("Environments are registered on the server's machine: `holdfast cases environment add`.")
        if _NAME.fullmatch(name) is None:
            problem = "a lower-case letter, then up to 63 letters, digits, '_', '-' and '.'"
            raise Invalid("The name cannot be used.", fields=[FieldError("name", problem)])
        kept = str(await asyncio.to_thread(directory, path, self._data_dir))
        digest, problem = await asyncio.to_thread(seen, kept)

        def work(tx: Tx) -> Environment:
            workspace, now = self._base.enter(tx, principal, workspace_id), self._base.clock.now()
            new = Environment(workspace, name, kept, principal.actor, now, digest, now, problem)
            store.put_environment(tx, new)
            return new

        return await self._base.database.write(work)

    async def look(self, principal: Principal, workspace_id: str, name: str) -> Environment:
        """Look at an environment that was prepared again, or that may be gone: its digest, and what is wrong."""
        principal.require("management")

        def known(tx: Tx) -> Environment:
            place = self._base.workspaces.administered(tx, principal, workspace_id)
            found = store.get_environment(tx, place.id, name)
            if found is None:
                raise EnvironmentNotFound(name)
            return found

        at = (await self._base.database.read(known)).path
        digest, problem = await asyncio.to_thread(seen, at)

        def work(tx: Tx) -> Environment:
            found = known(tx)
            if found.path == at:
                # Another directory that was registered meanwhile was looked at by that.
                found = replace(found, digest=digest, checked_at=self._base.clock.now(), problem=problem)
                store.put_environment(tx, found)
            return found

        return await self._base.database.write(work)

    async def unregister(self, principal: Principal, workspace_id: str, name: str) -> None:
        """Forget a directory; runs that name it say so."""
        principal.require("management")

        def work(tx: Tx) -> None:
            workspace = self._base.workspaces.administered(tx, principal, workspace_id).id
            if not store.remove_environment(tx, workspace, name):
                raise EnvironmentNotFound(name)
            store.declare_environment(tx, workspace, name, ())

        await self._base.database.write(work)

    async def declare(
        self, principal: Principal, workspace_id: str, name: str, repositories: Sequence[str]
    ) -> Environment:
        """Let the proofs of these repositories, and of no others, see an environment where nothing else is named."""
        principal.require("management")

        def work(tx: Tx) -> Environment:
            place = self._base.workspaces.administered(tx, principal, workspace_id)
            for number, slug in enumerate(repositories):
                if repository_store.find(tx, place.organization_id, slug) is None:
                    problem = "no such repository; `holdfast repos list` names those that there are"
                    raise Invalid(
                        f"There is no repository {slug[:100]!r}.",
                        fields=[FieldError(f"repositories[{number}]", problem)],
                    )
            if store.get_environment(tx, place.id, name) is None:
                raise EnvironmentNotFound(name)
            store.declare_environment(tx, place.id, name, list(dict.fromkeys(repositories)))
            found = store.get_environment(tx, place.id, name)
            assert found is not None
            return found

        return await self._base.database.write(work)

    # Within.

    def _kept(self, tx: Tx, principal: Principal, workspace_id: str | None, proof_id: str) -> tuple[Proof, Case]:
        workspace = self._base.entered(tx, principal, workspace_id, proof_id, store.place, ProofNotFound)
        proof = store.get(tx, workspace, proof_id)
        if proof is None:
            raise ProofNotFound(proof_id)
        return proof, self._base.kept(tx, principal, proof.workspace_id, proof.case_id)

    def _drafted(self, tx: Tx, principal: Principal, case: Case, new: NewProof) -> Proof:
        _check_kind(principal, case, new)
        known = {each.id for each in case.criteria}
        unknown = [each for each in new.criteria if each not in known]
        if unknown or (new.kind != "word" and known and not new.criteria and not new.is_reproduction):
            names = ", ".join(f"{each.id} ({each.text[:60]})" for each in case.criteria) or "the case has none"
            problem = f"name which of the case's criteria it shows: {names}"
            raise Invalid("Which criteria?", fields=[FieldError("criteria", problem)])
        if new.artifact_id is not None:
            title = self._entities.titles["artifact"](tx, case.workspace_id, new.artifact_id)
            if title is None:
                raise NotFound("artifact", new.artifact_id)
        if new.environment is not None and store.get_environment(tx, case.workspace_id, new.environment) is None:
            raise Invalid(
                "The environment is not known.", fields=[FieldError("environment", "register it on the machine first")]
            )
        return Proof(
            id=new_id("prf"),
            workspace_id=case.workspace_id,
            case_id=case.id,
            kind=new.kind,
            claim=checked_text(new.claim, "claim", MAX_CLAIM, required=new.kind == "word"),
            criteria=tuple(dict.fromkeys(new.criteria)),
            command=checked_text(new.command, "command", MAX_COMMAND),
            expected_exit=new.expected_exit,
            tests=tuple(dict.fromkeys(new.tests)),
            report=new.report,
            is_reproduction=new.is_reproduction,
            environment=new.environment,
            timeout_seconds=new.timeout_seconds,
            commit=checked_commit(new.commit, "commit") if new.kind == "reported" else head_of(tx, case),
            outcome=new.outcome,
            artifact_id=new.artifact_id,
            author=principal.actor,
            author_name=principal.name,
            created_at=self._base.clock.now(),
        )


def _check_kind(principal: Principal, case: Case, new: NewProof) -> None:
    """Invalid for what a proof of its kind cannot have; Forbidden for a word that is no person's."""
    problems: list[FieldError] = []
    if new.kind == "word":
        require_person(principal)
    if new.kind == "run":
        if not new.command.strip():
            problems.append(FieldError("command", "give the command that shows it"))
        if case.repository is None:
            problems.append(FieldError("repository", "the case names no repository to check out; set it first"))
        if new.outcome is not None:
            problems.append(FieldError("outcome", "only our runner writes results; leave it out"))
    elif new.command.strip() and new.kind == "word":
        problems.append(FieldError("command", "a word has none"))
    if new.kind == "reported" and new.outcome is None:
        problems.append(FieldError("outcome", "passed or failed, as it was seen"))
    if new.is_reproduction and (case.kind != "bug" or new.kind != "run"):
        problems.append(FieldError("is_reproduction", "only a run of a bug reproduces it"))
    if new.is_reproduction and case.base_commit is None:
        problems.append(FieldError("base_commit", "the case names no commit at which the bug shows; set it first"))
    problems += out_of_bounds(new)
    if problems:
        raise Invalid(f"The proof cannot be taken: {problems[0].field}: {problems[0].message}.", fields=problems)


def out_of_bounds(new: NewProof | Proof) -> list[FieldError]:
    """What no proof has, of whichever kind."""
    problems: list[FieldError] = []
    if not 0 <= new.expected_exit <= 255:
        problems.append(FieldError("expected_exit", "from 0 to 255"))
    if not 1 <= new.timeout_seconds <= MOST_SECONDS:
        problems.append(FieldError("timeout_seconds", f"from 1 to {MOST_SECONDS}"))
    if len(new.tests) > MAX_TESTS or any(not each.strip() or len(each) > MAX_TEST for each in new.tests):
        problems.append(FieldError("tests", f"at most {MAX_TESTS}, each of 1 to {MAX_TEST} characters"))
    if new.tests and not new.report:
        problems.append(FieldError("report", "say where the command writes JUnit XML, such as report.xml"))
    if new.report is not None and not _is_below(new.report):
        problems.append(FieldError("report", "a path below the checkout, without '..'"))
    return problems


def _is_below(path: str) -> bool:
    parts = Path(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\0" not in path and len(path) <= 500
