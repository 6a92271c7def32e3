"""Sessions that go on: one that said how long it would be quiet, and one that has ended and is taken up again."""

from pathlib import Path

import pytest

from holdfast.storage.database import Database
from tests.fakes.llm.script import Script
from tests.surfaces.agents.conftest import Agency, agency, speaking
from tests.surfaces.agents.test_people import CALL

pytestmark = pytest.mark.slow


@pytest.mark.contract("XA-1")
async def test_the_watchdog_leaves_an_agent_alone_that_said_it_would_be_quiet(
    database: Database, tmp_path: Path
) -> None:
    async with agency(database, tmp_path, Script([]), agent_quiet_seconds=1) as house:
        lines = (CALL, "call('expect_quiet_for', seconds=120, reason='a long build')", "time.sleep(4)", "over('built')")
        agent = await house.define(command=speaking(*lines))
        found = await house.until(await house.start(agent))
    assert (found["state"], found["error"]) == ("completed", None)


@pytest.mark.contract("XA-6")
async def test_a_session_that_has_ended_is_taken_up_with_its_conversation_and_files(
    database: Database, tmp_path: Path
) -> None:
    script = Script([])
    async with agency(database, tmp_path, script) as house:
        session = await _ended(house, "Remember the turquoise crane.")
        again = await house.client.post(f"/api/sessions/{session}/resume", json={"prompt": "What do you remember?"})
        assert again.status_code == 200, again.text
        found = await house.until(session)
        assert found["state"] == "completed", found["error"]
        assert "turquoise crane" in script.texts[-1] and "What do you remember?" in script.texts[-1]
        # One key for each time that it ran, and none is left.
        running = await house.client.post(f"/api/sessions/{session}/messages", json={"text": "Too late."})
        assert running.status_code == 409


async def _ended(house: Agency, prompt: str) -> str:
    agent = await house.define("Builtin")
    session = await house.start(agent, prompt)
    found = await house.until(session)
    assert (found["state"], found["resumable"]) == ("completed", True), found
    return session
