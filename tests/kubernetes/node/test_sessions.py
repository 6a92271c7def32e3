"""Owns the proof that sessions run as pods on a real node, and end like those of this machine's sandbox."""

import logging
import subprocess
from pathlib import Path

import pytest

from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.secrets.service import Secrets
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm.script import Script, Step
from tests.kubernetes.node.conftest import (
    PATIENCE_SECONDS,
    SETTINGS,
    STATE,
    objects,
    session_pods,
    stored,
    until_no_secret,
    until_no_session_pod,
)
from tests.support.agents.installed import installed_runner
from tests.support.execution.counting import enrolled
from tests.surfaces.agents.conftest import Agency, agency, speaking
from tests.surfaces.agents.secrets.test_canary import CANARY, THIEF
from tests.surfaces.agents.test_agents_of_others import GRANT, HANDS
from tests.surfaces.agents.test_people import CALL
from tests.surfaces.agents.test_sessions import work_in_a_repository


async def test_an_agent_says_something_and_completes(house: Agency) -> None:
    agent = await house.define(command=speaking("say('Hello ' + start['prompt'])", "over('That was it.')"))
    session = await house.start(agent, "world")
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    told = await house.told(session)
    assert [each["data"]["text"] for each in told if each["kind"] == "text"] == ["Hello world"]
    await until_no_session_pod()


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
    (pod,) = session_pods()
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
    await until_no_session_pod()


async def test_eight_at_once_all_complete_and_leave_nothing(house: Agency) -> None:
    agent = await house.define(command=speaking("over('Done.')"), limits={"memory_mb": 128})
    started = [await house.start(agent) for _ in range(8)]
    found = [await house.until(each) for each in started]
    assert [each["state"] for each in found] == ["completed"] * 8, [each["error"] for each in found]
    await until_no_session_pod()
    await until_no_secret()


async def test_a_real_agent_works_in_a_pod(sqlite_database: SqliteDatabase, tmp_path: Path, program: None) -> None:
    script = Script((Step("emit_status", {"status": "writing"}), HANDS["goose"].does("printf blue > crane.txt")))
    installed_runner("goose", tmp_path / "data" / "agents")
    async with agency(sqlite_database, tmp_path / "data", script, **SETTINGS) as house:
        house.seconds = PATIENCE_SECONDS
        agent = await house.define("Other", runner="goose", limits={"memory_mb": 2_048})
        found = await house.until(await house.start(agent, "Note the crane."))
    assert found["state"] == "completed", (found["error"], script.results, script.problems)
    assert [each["path"] for each in found["result"]["files"]] == ["crane.txt"], script.results


@pytest.mark.contract("XA-3")
async def test_a_secret_of_a_server_is_in_a_secret_object_and_its_container_alone(
    house: Agency, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = house.server
    await server.services[Secrets].set(server.owner, house.workspace, "CANARY", CANARY)
    await enrolled(server.services, server.owner, house.workspace, policies={"env": "auto"})
    agent = await house.define(command=speaking(CALL, THIEF))
    attached = {"name": "demo", "env": {"TOKEN": "${CANARY}"}}
    answer = await house.client.put(f"/api/agents/{agent['id']}/mcp-attachments", json=attached)
    assert answer.status_code == 200, answer.text
    session = await house.start(agent)
    await house.until_told(session, "text")
    # While the pod lives, with the server that has the value in it.
    (pod,) = session_pods()
    assert len(objects("secrets")) == 1 and CANARY not in str(pod)
    kept = stored("/registry/")
    assert any(key.startswith("/registry/pods/") for key in kept)
    holding = [key for key, value in kept.items() if CANARY in value]
    assert holding and all(key.startswith("/registry/secrets/") for key in holding), holding
    await house.client.post(f"/api/sessions/{session}/messages", json={"text": "Go on."})
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    (told,) = await house.told(session, "text")
    assert told["data"]["text"] not in ("", "None"), told
    artifact = found["result"]["patch_artifact"]
    patch = await house.client.get(f"/api/workspaces/{house.workspace}/artifacts/{artifact}")
    assert CANARY not in str(await house.told(session)) + str(found) + caplog.text + patch.text
    # Everything that the cluster keeps and is no Secret, its logs, and what it writes of containers.
    await until_no_session_pod()
    assert STATE is not None
    logs = subprocess.run(["grep", "-rlaF", CANARY, f"{STATE}/log", f"{STATE}/kubelet"], capture_output=True, text=True)
    assert logs.stdout == ""
    await until_no_secret()
    kept = stored("/registry/")
    assert len(kept) > 50
    assert [key for key, value in kept.items() if CANARY in value] == []


@pytest.mark.timeout(3_600)
async def test_fifty_in_a_row_all_complete_and_leave_nothing(house: Agency) -> None:
    agent = await house.define(command=speaking("over('Done.')"), limits={"memory_mb": 128})
    for _ in range(50):
        found = await house.until(await house.start(agent))
        assert found["state"] == "completed", found["error"]
    await until_no_session_pod()
    await until_no_secret()


@pytest.mark.contract("XA-6")
async def test_work_in_a_repository_comes_back_from_a_pod_as_a_branch_and_a_patch(
    house: Agency, tmp_path: Path
) -> None:
    await work_in_a_repository(house, tmp_path / "origin")
    await until_no_session_pod()
