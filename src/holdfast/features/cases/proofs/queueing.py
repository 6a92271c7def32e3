"""Owns asking our runner to look: a run is written down with the job that does it, in one transaction."""

from collections.abc import Sequence

from holdfast.core.clock import Clock
from holdfast.core.ids import new_id
from holdfast.engines.jobs import JobEngine
from holdfast.features.cases.model import Case
from holdfast.features.cases.proofs import store
from holdfast.features.cases.proofs.model import RUN_KIND, Proof, ProofRun, ProvenProof, Side
from holdfast.features.cases.proofs.verdicts import judged
from holdfast.storage.database import Tx

MOST_ATTEMPTS = 20
"""How often a run is begun anew where the server that ran it was killed: that says nothing of the proof."""


class RunQueue:
    """Queues runs of proofs, and tells what they say so far."""

    def __init__(self, jobs: JobEngine, clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock

    def proven(self, tx: Tx, case: Case, *, whole: bool = True) -> list[ProvenProof]:
        """The case's proofs with what their runs say of its head; without `whole` not what the runs printed."""
        proofs = store.of_case(tx, case.id)
        head = head_of(tx, case)
        runs = store.runs(tx, [proof.id for proof in proofs], whole=whole)
        return [judged(case, head, proof, runs[proof.id]) for proof in proofs]

    def queue(self, tx: Tx, case: Case, proof: Proof, head: str, requested_by: str) -> Sequence[ProofRun]:
        """Run a proof at the head; the reproduction of a bug at its base too, unless it failed there before."""
        commits: list[tuple[Side, str]] = [("head", head)]
        if proof.is_reproduction and case.base_commit is not None:
            commits.append(("base", case.base_commit))
        waiting = store.unfinished(tx, proof.id)
        known = {(run.side, run.commit) for run in ([waiting] if waiting else [])}
        return [
            self._one(tx, case, proof, side, commit, requested_by)
            for side, commit in commits
            if (side, commit) not in known
        ]

    def freshen(self, tx: Tx, case: Case, requested_by: str) -> Sequence[ProofRun]:
        """Run what the head has moved away from, or what never ran."""
        head = head_of(tx, case)
        if head is None:
            return []
        return [
            run
            for each in self.proven(tx, case, whole=False)
            if each.proof.kind == "run" and each.verdict in ("stale", "unrun")
            for run in self.queue(tx, case, each.proof, head, requested_by)
        ]

    def _one(self, tx: Tx, case: Case, proof: Proof, side: Side, commit: str, requested_by: str) -> ProofRun:
        id = new_id("prun")
        job_id = self._jobs.enqueue(
            tx, RUN_KIND, {"run_id": id}, workspace_id=case.workspace_id, key=id, max_attempts=MOST_ATTEMPTS
        )
        run = ProofRun(
            id=id,
            proof_id=proof.id,
            case_id=case.id,
            commit=commit,
            side=side,
            outcome="queued",
            said="It waits for its turn.",
            exit_code=None,
            tests=(),
            output="",
            output_bytes=0,
            output_digest="",
            seconds=0.0,
            environment={},
            job_id=job_id,
            requested_by=requested_by,
            created_at=self._clock.now(),
            ended_at=None,
        )
        store.put_run(tx, run)
        return run


def head_of(tx: Tx, case: Case) -> str | None:
    """The commit at which proofs count: the case's own, else where its repository's branch stands."""
    if case.head_commit is not None or case.repository is None:
        return case.head_commit
    return store.repository_head(tx, case.workspace_id, case.repository)
