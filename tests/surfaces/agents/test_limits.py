"""Limits of sessions that go by the clock or by the kernel, and the claim of a case that is held while they last."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.features.agents.runs.finishing import RENEW_MILLIS
from holdfast.storage.database import Database
from tests.fakes.llm.script import Script
from tests.support.clock import MovableClock
from tests.surfaces.agents.conftest import Agency, agency, speaking
from tests.surfaces.agents.test_cases import _case, _now
from tests.surfaces.agents.test_people import CALL

LEASE_SECONDS = 900
pytestmark = [pytest.mark.slow, pytest.mark.contract("XA-6")]


async def claimed(house: Agency, case: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (await _now(house, case))["claim"]
    return found


async def test_minutes_of_work_end_a_session_and_waiting_for_people_costs_none(
    database: Database, tmp_path: Path, clock: MovableClock
) -> None:
    async with agency(database, tmp_path, Script([]), clock=clock) as house:
        ask = "call('request_input', question='Go on?', request_id='q1')"
        agent = await house.define(command=speaking(CALL, ask, "say('on')", "time.sleep(600)"), limits={"minutes": 2})
        session = await house.start(agent)
        waiting = await house.until(session, "waiting")
        clock.advance(seconds=3_600)
        question = waiting["questions"][0]["id"]
        answered = await house.client.post(f"/api/sessions/{session}/questions/{question}", json={"answer": "Yes."})
        assert answered.is_success, answered.text
        await house.until_told(session, "text")
        clock.advance(seconds=115)
        assert (await house.get(session))["state"] == "running"
        clock.advance(seconds=10)
        found = await house.until(session)
    assert (found["state"], found["error"]["code"]) == ("failed", "limit_reached"), found["error"]
    assert (found["error"]["limit"], found["error"]["message"]) == (
        "minutes",
        "It worked for 2 minutes, all that it may.",
    )
    assert 115 <= found["seconds"] < 150


async def test_what_a_session_rested_before_it_goes_on_costs_no_minutes(
    database: Database, tmp_path: Path, clock: MovableClock
) -> None:
    async with agency(database, tmp_path, Script([]), clock=clock) as house:
        lines = ("tell(type='can_resume', token='t1')", "say(start['prompt'])", "over()")
        agent = await house.define(command=speaking(*lines), limits={"minutes": 2})
        session = await house.start(agent)
        assert (await house.until(session))["resumable"]
        clock.advance(seconds=3_600)
        resumed = await house.client.post(f"/api/sessions/{session}/resume", json={"prompt": "And now?"})
        assert resumed.is_success, resumed.text
        found = await house.until(session)
    assert (found["state"], found["error"]) == ("completed", None)
    assert found["seconds"] < 120


async def test_more_processes_than_allowed_end_a_session_and_are_named(house: Agency) -> None:
    bomb = "try: [subprocess.Popen(['sleep', '600']) for _ in range(64)]\nexcept OSError: time.sleep(600)"
    agent = await house.define(command=speaking(bomb), limits={"processes": 16})
    session = await house.start(agent)
    found = await house.until(session)
    assert found["state"] == "failed", found
    assert (found["error"]["code"], found["error"].get("limit")) == ("limit_reached", "processes"), found["error"]


DEEP = """
for _ in range(30):
    os.mkdir("d" * 200); os.chdir("d" * 200)
open("f", "wb").write(bytes(1000))
time.sleep(600)
"""
TALKATIVE = "for _ in range(1000): say('x' * 100_000)\ntime.sleep(600)"
INDUSTRIOUS = """
for number in range(100):
    call("emit_artifact", artifact_type="other", title=str(number), content="x" * 1_000_000)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((DEEP,), "It wrote more than 16 MiB, all that it may, or hides how much."),
        ((TALKATIVE,), "It told and made more than 16 MiB, all that it may keep."),
        ((CALL, INDUSTRIOUS), "It told and made more than 16 MiB, all that it may keep."),
    ],
    ids=["hidden in a path too long to be looked at", "told", "made"],
)
async def test_what_a_session_has_us_keep_is_limited_wherever_it_lies(
    house: Agency, lines: tuple[str, ...], said: str
) -> None:
    agent = await house.define(command=speaking(*lines), limits={"disk_mb": 16})
    found = await house.until(await house.start(agent))
    assert (found["error"]["limit"], found["error"]["message"]) == ("disk_mb", said)


async def test_an_empty_directory_that_stays_empty_is_no_work(house: Agency) -> None:
    found = await house.until(await house.start(await house.define(command=speaking("over()"))))
    assert (found["result"]["commits"], found["result"]["files"]) == ([], [])


@pytest.mark.contract("ZE-3")
async def test_the_claim_of_a_case_is_renewed_while_its_session_works(
    database: Database, tmp_path: Path, clock: MovableClock
) -> None:
    async with agency(database, tmp_path, Script([]), clock=clock) as house:
        agent = await house.define(command=speaking("say('on')", "heard()", "over('No.', 'error')"))
        case = await _case(house)
        session = await house.start(agent, case_id=case["id"])
        await house.until_told(session, "text")
        began = await claimed(house, case)
        for _ in range(4):
            # Together longer than a lease.
            before = (await claimed(house, case))["expires_at"]
            clock.advance(seconds=RENEW_MILLIS / 1000 + 1)
            async with asyncio.timeout(60):
                while (await claimed(house, case))["expires_at"] == before:
                    await asyncio.sleep(0.1)
        held = await claimed(house, case)
        assert (held["session_id"], held["fence"]) == (session, began["fence"])
        # At the end it is given back, with the reason.
        await house.client.post(f"/api/sessions/{session}/messages", json={"text": "Well?"})
        assert (await house.until(session))["state"] == "failed"
        back = await _now(house, case)
    assert back["claim"] is None
    assert any("handed the case back: No." in each["text"] for each in back["comments"])


@pytest.mark.contract("ZE-3")
async def test_a_case_that_somebody_else_took_meanwhile_is_told_and_left_to_them(
    database: Database, tmp_path: Path, clock: MovableClock
) -> None:
    async with agency(database, tmp_path, Script([]), clock=clock) as house:
        agent = await house.define(command=speaking("say('on')", "heard()", "over()"))
        case = await _case(house)
        session = await house.start(agent, case_id=case["id"])
        await house.until_told(session, "text")
        path = f"/api/workspaces/{house.workspace}/cases/{case['id']}"
        async with await house.server.browser(house.server.start.owner_id) as person:
            # The machine slept for longer than a lease; whoever comes first has it.
            async with asyncio.timeout(60):
                clock.advance(seconds=LEASE_SECONDS + 1)
                while not (await person.post(f"{path}/claim", json={})).is_success:
                    clock.advance(seconds=LEASE_SECONDS + 1)
        clock.advance(seconds=RENEW_MILLIS / 1000 + 1)
        told = await house.until_told(session, "error")
        assert told["data"]["message"].startswith("Its case is no longer its own")
        await house.client.post(f"/api/sessions/{session}/messages", json={"text": "Well?"})
        found = await house.until(session)
        kept = await claimed(house, case)
    assert found["result"]["case"]["problem"], found["result"]
    assert kept["session_id"] is None
