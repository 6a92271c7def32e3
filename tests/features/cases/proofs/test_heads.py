"""Owns the proof that cases being verified follow their repository's branch: what it makes stale is run anew."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.engines.jobs.engine import EVERY
from holdfast.features.cases.proofs.model import HEADS_KIND, ProvenProof
from holdfast.storage.database import Database, Tx
from tests.support.clock import MovableClock
from tests.support.features.cases import ProofStage, proving

pytestmark = pytest.mark.slow
_NEVER = 9_000_000_000_000
COMMAND = "grep -q right calc.py"


@pytest.fixture
async def at(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[ProofStage]:
    async with proving(database, clock, tmp_path) as stage:
        jobs = stage.stage.services.jobs
        # The server queues the first turn as it starts; whichever of the two comes second finds it waiting.
        await stage.stage.services.database.write(lambda tx: jobs.enqueue(tx, HEADS_KIND, key=EVERY, delay_seconds=30))
        # Turns come when a test says so, however long the rest takes.
        await _turn(stage, _NEVER)
        yield stage


async def _turn(at: ProofStage, run_at: int) -> str:
    """Say when the periodic job that waits is due; its id."""

    def work(tx: Tx) -> str:
        (waiting,) = tx.all(
            "SELECT id FROM job WHERE kind = :kind AND key = :key AND state = 'queued'",
            {"kind": HEADS_KIND, "key": EVERY},
        )
        tx.execute("UPDATE job SET run_at = :run_at WHERE id = :id", {"run_at": run_at, "id": waiting["id"]})
        return str(waiting["id"])

    return await at.stage.services.database.write(work)


async def _follow(at: ProofStage) -> object:
    """Let the periodic job look once; what it says it did. It waits for its next turn afterwards."""
    ended = await at.stage.services.jobs.wait(await _turn(at, 0), timeout_seconds=120)
    assert ended.state == "succeeded", ended.error
    await _turn(at, _NEVER)
    return ended.result


async def _verdict(at: ProofStage, proof: ProvenProof) -> str:
    return (await at.stage.proofs.get(at.stage.ada, at.stage.workspace, proof.proof.id)).verdict


async def test_a_head_that_moves_makes_proofs_stale_until_the_periodic_job_has_run_them(
    at: ProofStage, clock: MovableClock
) -> None:
    first = at.commit(calc_py="right")
    await at.known()
    verified, planned = await at.case(), await at.case()
    await at.stage.move(verified.id, "PLANNING", "IMPLEMENTING", "VERIFYING")
    proof, other = [await at.proven(await at.stage.prove(case.id, command=COMMAND)) for case in (verified, planned)]
    assert (proof.verdict, proof.runs[0].commit, other.verdict) == ("passed", first, "passed")
    assert await _follow(at) == {"queued": 0}

    clock.advance(seconds=60)
    second = at.commit(calc_py="wrong")
    await at.known()
    assert [await _verdict(at, each) for each in (proof, other)] == ["stale", "stale"]
    assert await _follow(at) == {"queued": 1}
    anew = await at.proven(proof)
    assert (anew.verdict, anew.runs[0].commit, anew.runs[0].requested_by) == ("failed", second, "system")
    assert anew.runs[0].created_at == clock.now()
    # What nobody verifies yet is not run for every commit.
    assert await _verdict(at, other) == "stale"

    at.commit(calc_py="right again")
    await at.known()
    assert await _follow(at) == {"queued": 1}
    assert (await at.proven(proof)).verdict == "passed"
    assert await _follow(at) == {"queued": 0}


async def test_a_case_with_a_head_of_its_own_does_not_follow_the_branch(at: ProofStage) -> None:
    first = at.commit(calc_py="right")
    await at.known()
    case = await at.case(head_commit=first)
    await at.stage.move(case.id, "PLANNING", "IMPLEMENTING", "VERIFYING")
    proof = await at.proven(await at.stage.prove(case.id, command=COMMAND))
    at.commit(calc_py="wrong")
    await at.known()
    assert await _follow(at) == {"queued": 0}
    assert await _verdict(at, proof) == "passed"


def test_the_branch_is_looked_at_twice_a_minute(at: ProofStage) -> None:
    assert at.stage.services.jobs.kinds[HEADS_KIND].every_seconds == 30
