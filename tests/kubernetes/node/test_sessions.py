"""Owns the proof that sessions run as pods on a real node, and end like those of this machine's sandbox."""

import pytest

from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from tests.fakes.llm.script import Step
from tests.kubernetes.node.conftest import objects, until_none
from tests.support.execution.counting import enrolled
from tests.surfaces.agents.conftest import Agency, speaking
from tests.surfaces.agents.test_agents_of_others import GRANT


async def test_an_agent_says_something_and_completes(house: Agency) -> None:
    agent = await house.define(command=speaking("say('Hello ' + start['prompt'])", "over('That was it.')"))
    session = await house.start(agent, "world")
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    told = await house.told(session)
    assert [each["data"]["text"] for each in told if each["kind"] == "text"] == ["Hello world"]
    until_none("pods")


@pytest.mark.contract("XA-6")
@pytest.mark.contract("XA-7")
async def test_the_built_in_agent_is_refused_gets_the_right_and_leaves_its_work(house: Agency) -> None:
    services = house.server.services
    await enrolled(services, house.server.owner, house.workspace)
    await services[ToolPins].set(house.server.owner, house.workspace, "demo", "count", ToolChange(scope="demo.write"))
    script = house.model.script
    script.steps = (
        Step("emit_status", {"status": "writing"}),
        Step("count", {"name": "crane"}),
        Step("request_grant", GRANT),
        Step("count", {"name": "crane"}),
        Step("run_command", {"command": "printf turquoise > crane.txt"}),
        Step("share", {"path": "crane.txt", "title": "The crane"}),
    )
    agent = await house.define(runner="builtin", instructions="You keep the harbour.")
    attached = await house.client.put(f"/api/agents/{agent['id']}/mcp-attachments", json={"name": "demo", "env": {}})
    assert attached.status_code == 200, attached.text
    session = await house.start(agent, "Note the crane.")
    found = await house.until(session, "waiting")
    (pod,) = [each for each in objects("pods") if each["metadata"]["labels"]["holdfast.dev/kind"] == "session"]
    assert sorted(each["name"] for each in pod["spec"]["containers"]) == ["agent", "mcp-demo", "sidecar"]
    (asked,) = found["questions"]
    async with await house.server.browser(house.server.start.owner_id) as person:
        path = f"/api/sessions/{session}/questions/{asked['id']}"
        given = await person.post(path, json={"decision": "granted"})
        assert given.status_code == 200, given.text
    found = await house.until(session)
    assert found["state"] == "completed", (found["error"], script.results)
    assert script.problems == []
    assert "permission_required" in script.results[1] and "demo.write" in script.results[1]
    assert "permission_required" not in script.results[3]
    assert [each["path"] for each in found["result"]["files"]] == ["crane.txt"]
    assert found["result"]["artifacts"]
    until_none("pods")
