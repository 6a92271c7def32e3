"""Owns the proof that one case is given to one at a time: leases, fences, and many who claim at once."""

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest

from holdfast.core.errors import Conflict, Invalid
from holdfast.features.cases.model import Held, NewLink, NothingReady, Taking, Writing
from holdfast.features.cases.queue.claims import SESSION_SECONDS, USUAL_SECONDS
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.cases import CaseStage, case_stage


@pytest.fixture
async def at(database: Database, clock: MovableClock) -> CaseStage:
    return await case_stage(database, clock)


async def test_a_claimed_case_is_nobody_elses_and_the_refusal_says_whose(at: CaseStage) -> None:
    case = await at.add()
    held = await at.claim(case.id)
    assert held.last_claim is not None and held.last_claim.expires_at == at.clock.now() + USUAL_SECONDS * 1000
    with pytest.raises(Held, match=r"held by Agent One \(key_1\) until .*fence 1"):
        await at.claim(case.id, by=at.another(2))
    # The same key may be two agents: the second does not get it either.
    with pytest.raises(Held):
        await at.claim(case.id)
    assert await at.ready() == []


async def test_a_session_has_a_short_lease_and_may_claim_again(at: CaseStage) -> None:
    case = await at.add()
    held = await at.claim(case.id, session_id="ses_1")
    assert held.last_claim is not None and held.last_claim.expires_at == at.clock.now() + SESSION_SECONDS * 1000
    assert (await at.claim(case.id, session_id="ses_1")).fence == held.fence
    with pytest.raises(Held, match="session ses_1"):
        await at.claim(case.id, session_id="ses_2")


async def test_a_lease_that_ran_out_gives_the_case_back_and_the_old_fence_is_refused(at: CaseStage) -> None:
    case = await at.add()
    old = await at.claim(case.id)
    at.clock.advance(seconds=USUAL_SECONDS)
    assert await at.ready() == [case.id]
    with pytest.raises(Held, match="Nobody holds the case now"):
        await at.move(case.id, "PLANNING", by=at.agent, fence=old.fence)
    new = await at.claim(case.id, by=at.another(2))
    assert new.fence == old.fence + 1
    with pytest.raises(Held, match=r"fence 1 is no longer good.*held by agent 2"):
        await at.move(case.id, "PLANNING", by=at.agent, fence=old.fence)
    with pytest.raises(Held, match="agent 2"):
        await at.move(case.id, "PLANNING", by=at.agent)
    with pytest.raises(Held):
        await at.cases.claims.renew(at.agent, at.workspace, case.id, old.fence, Taking())
    moved = await at.move(case.id, "PLANNING", by=at.another(2), fence=new.fence)
    assert moved.state == "PLANNING"


async def test_somebody_elses_fence_opens_nothing(at: CaseStage) -> None:
    case = await at.add()
    held = await at.claim(case.id)
    with pytest.raises(Held):
        await at.move(case.id, "PLANNING", by=at.another(2), fence=held.fence)
    with pytest.raises(Held):
        await at.cases.claims.release(at.another(2), at.workspace, case.id, held.fence)


async def test_renewing_prolongs_and_releasing_gives_back(at: CaseStage) -> None:
    case = await at.add()
    held = await at.claim(case.id, session_id="ses_1")
    at.clock.advance(seconds=SESSION_SECONDS - 1)
    kept = await at.cases.claims.renew(at.agent, at.workspace, case.id, held.fence, Taking())
    assert kept.last_claim is not None and kept.last_claim.expires_at == at.clock.now() + SESSION_SECONDS * 1000
    await at.cases.claims.release(at.agent, at.workspace, case.id, held.fence)
    assert await at.ready() == [case.id]
    with pytest.raises(Held):
        await at.cases.claims.release(at.agent, at.workspace, case.id, held.fence)


async def test_a_person_moves_and_frees_what_an_agent_holds(at: CaseStage) -> None:
    case = await at.add()
    await at.claim(case.id)
    assert (await at.move(case.id, "PLANNING")).last_claim is not None
    freed = await at.cases.claims.release(at.ada, at.workspace, case.id, None)
    assert freed.last_claim is None
    assert await at.cases.claims.release(at.ada, at.workspace, case.id, None) == freed
    history = (await at.cases.detail(at.ada, at.workspace, case.id)).history
    assert [entry.action for entry in history].count("release") == 1


async def test_what_is_over_or_blocked_is_not_claimed_and_its_claim_ends(at: CaseStage) -> None:
    case = await at.add()
    await at.claim(case.id)
    blocked = await at.move(case.id, "BLOCKED", by=at.agent, reason="no paint")
    assert blocked.last_claim is None
    with pytest.raises(Conflict, match="BLOCKED"):
        await at.claim(case.id)


async def test_claim_next_gives_what_is_meant_for_others_to_nobody_else(at: CaseStage) -> None:
    mine, theirs = await at.add("mine", priority=1, assignee="Agent One"), await at.add("theirs", assignee="bob")
    got = await at.cases.claims.claim_next(at.agent, at.workspace, Taking())
    assert got.id == mine.id
    with pytest.raises(NothingReady):
        await at.cases.claims.claim_next(at.agent, at.workspace, Taking())
    bob = replace(at.agent, actor="key_9", name="bob")
    assert (await at.cases.claims.claim_next(bob, at.workspace, Taking())).id == theirs.id


@pytest.mark.parametrize("seconds", [-5, 0, 86_401])
async def test_a_lease_beyond_a_day_is_refused(at: CaseStage, seconds: int) -> None:
    case = await at.add()
    with pytest.raises(Invalid, match="lease"):
        await at.claim(case.id, lease_seconds=seconds)


async def test_fifty_who_claim_at_once_never_get_the_same_case(at: CaseStage) -> None:
    ids = [(await at.add(f"case {number}", priority=number % 5)).id for number in range(60)]
    took = await asyncio.gather(
        *(at.cases.claims.claim_next(at.another(number), at.workspace, Taking()) for number in range(50))
    )
    assert len({case.id for case in took}) == 50
    assert {case.id for case in took} <= set(ids)


@pytest.mark.slow
async def test_a_thousand_cases_and_fifty_claimers_with_kills_and_clock_jumps(at: CaseStage) -> None:
    """Claimers that vanish, clocks that jump both ways: each fence of a case is given out once, and all get done."""
    for number in range(1_000):
        await at.add(f"case {number}", priority=number % 5)
    chance = random.Random(7)
    fences: Counter[tuple[str, int]] = Counter()
    finished: set[str] = set()

    async def work(number: int) -> None:
        agent = at.another(number)
        while True:
            try:
                case = await at.cases.claims.claim_next(agent, at.workspace, Taking(lease_seconds=60))
            except NothingReady:
                return
            fences[case.id, case.fence] += 1
            what = chance.random()
            if what < 0.05:
                continue  # It was killed: nobody releases the case, its lease has to run out.
            if what < 0.07:
                at.clock.advance(seconds=chance.choice((-30, 61, 120)))
            try:
                await at.cases.move(
                    agent, at.workspace, case.id, "CANCELLED", reason="done", writing=Writing(fence=case.fence)
                )
            except Held:
                continue  # The clock jumped past its lease.
            assert case.id not in finished
            finished.add(case.id)

    for _ in range(200):
        await asyncio.gather(*(work(number) for number in range(50)))
        if len(finished) == 1_000:
            break
        at.clock.advance(seconds=61)
    assert len(finished) == 1_000
    assert max(fences.values()) == 1
    assert await at.ready() == []


async def test_ready_is_always_what_the_ties_and_states_say(at: CaseStage) -> None:
    """Ties and moves at random, several at once: the queue agrees with a look at every blocker."""
    chance = random.Random(3)
    ids = [(await at.add(f"case {number}")).id for number in range(14)]

    async def change() -> None:
        one, two = chance.sample(ids, 2)
        what = chance.random()
        try:
            if what < 0.5:
                await at.cases.links.link(at.ada, at.workspace, one, NewLink("blocks", two))
            elif what < 0.65:
                await at.cases.links.unlink(at.ada, at.workspace, one, NewLink("blocks", two))
            elif what < 0.8:
                await at.move(one, "PLANNING", "IMPLEMENTING", "VERIFYING")
                await at.prove(one, by=at.ada, kind="word", claim="seen")
                await at.move(one, "DONE")
            else:
                await at.move(one, "OPEN")
        except (Conflict, Invalid):
            pass  # A circle, a tie that is not there, a move that is not legal: nothing changes.

    for _ in range(40):
        await asyncio.gather(*(change() for _ in range(4)))
        expected = []
        for id in ids:
            shown = await at.reading.read(at.ada, at.workspace, id)
            if shown.state not in ("DONE", "CANCELLED", "BLOCKED") and not shown.blocked_by:
                expected.append(id)
        assert await at.ready() == expected
