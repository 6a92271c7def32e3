"""Sessions that start each other: as deep as allowed and no deeper, on one budget, heard by whoever started them."""

from typing import Any

import pytest

from tests.surfaces.agents.conftest import Agency, speaking
from tests.surfaces.agents.test_people import CALL

pytestmark = pytest.mark.slow

# Each starts another of its own kind, waits until that one is over, and tells how it went.
DESCENDING = """
said = call("spawn_session", child_agent_id="digger", prompt="dig on")
say(said)
if "ses_" in said:
    child = said[said.index("ses_"):].split('"')[0].split()[0].strip(".,)}")
    while True:
        output = call("read_child_output", child_session_id=child)
        if any(state in output for state in ("completed", "failed", "cancelled")): break
        time.sleep(0.1)
"""


async def grant(house: Agency, **more: Any) -> None:
    async with await house.server.browser(house.server.start.owner_id) as person:
        body = {"workspace": house.workspace, "grant_type": "spawn", "scope": "persistent", **more}
        given = await person.post("/grants", json=body)
        assert given.is_success, given.text


@pytest.mark.contract("XA-11")
async def test_a_tree_grows_three_deep_and_no_deeper(house: Agency) -> None:
    agent = await house.define("Digger", command=speaking(CALL, DESCENDING, "over()"))
    await grant(house, subject={"type": "agent", "id": "digger"}, details={"agent": "digger"})
    session = await house.start(agent)
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    assert [each["depth"] for each in found["tree"]] == [0, 1, 2, 3]
    assert {each["state"] for each in found["tree"]} == {"completed"}
    deepest = found["tree"][-1]["session_id"]
    assert "at most 3 deep" in (await house.told(deepest, "text"))[0]["data"]["text"]


@pytest.mark.contract("XA-11")
async def test_a_child_reports_to_its_parent_and_hears_its_answer(house: Agency) -> None:
    await house.define(
        "Child",
        command=speaking(CALL, "say(call('message_caller', summary='Left or right?', needs_response=True))", "over()"),
    )
    lines = (
        CALL,
        "said = call('spawn_session', child_agent_id='child', prompt='ask me')",
        "child = said[said.index('ses_'):].split('\"')[0].split()[0].strip('.,)}')",
        "say(heard()['text'])",
        "call('inject_message', child_session_id=child, text='Left.')",
        "while 'completed' not in call('read_child_output', child_session_id=child): time.sleep(0.1)",
        "over()",
    )
    parent = await house.define("Parent", command=speaking(*lines))
    await grant(house, subject={"type": "agent", "id": "parent"}, details={"agent": "child"})
    session = await house.start(parent)
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    assert "Left or right?" in (await house.told(session, "text"))[0]["data"]["text"]
    child = found["tree"][1]["session_id"]
    assert "Left." in (await house.told(child, "text"))[0]["data"]["text"]


@pytest.mark.contract("XA-11")
async def test_a_stop_reaches_a_whole_tree_at_once_and_the_grants_are_told(house: Agency) -> None:
    lines = (
        CALL,
        "said = call('spawn_session', child_agent_id='deaf', prompt='go on')",
        "say(said)",
        "time.sleep(600)",
    )
    agent = await house.define("Deaf", command=speaking(*lines))
    await grant(house, subject={"type": "agent", "id": "deaf"}, details={"agent": "deaf"})
    session = await house.start(agent)
    below = session
    for _ in range(3):
        below = (await house.until_told(below, "spawned"))["data"]["session_id"]
    await house.until_told(below, "text")
    await house.client.post(f"/api/sessions/{session}/stop")
    ended = [await house.until(each["session_id"]) for each in (await house.get(session))["tree"]]
    assert len(ended) == 4 and {each["state"] for each in ended} == {"cancelled"}
    # Each was asked by whoever stopped the tree, not by the end of the one above it.
    assert len({each["error"]["message"] for each in ended}) == 1, [each["error"] for each in ended]
    assert [len(each["result"]["grants"]) for each in ended] == [1, 1, 1, 0]
