"""Claude Code, Codex, opencode and goose through a whole session: our router, the gate, a right given by a person."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.features.agents.definitions.model import AgentLimits, NewAgent
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.sessions.model import NewSession
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity.service import local_principal
from holdfast.features.secrets.service import Secrets
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm.openai_chat import KEY, openai_chat
from tests.fakes.llm.script import Script, Step
from tests.support.agents.installed import installed_runner
from tests.support.execution.counting import enrolled
from tests.support.services import background, first_start
from tests.surfaces.agents.conftest import Agency, agency
from tests.surfaces.agents.doomed import services_on

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

GRANT = {
    "request_id": "g1",
    "grant_type": "tool_scope",
    "details": {"scope": "demo.write"},
    "scope": "session",
    "justification": "The crane has to be counted.",
}


@dataclass(frozen=True)
class Hand:
    """What an agent calls its shell."""

    tool: str
    argument: str

    def does(self, command: str) -> Step:
        more = {"description": "A step"} if self.tool.lower() == "bash" else {}
        return Step(self.tool, {self.argument: command, **more})


HANDS = {
    "claude-code": Hand("Bash", "command"),
    "codex": Hand("exec_command", "cmd"),
    "opencode": Hand("bash", "command"),
    "goose": Hand("shell", "command"),
}


@pytest.fixture(params=list(HANDS))
async def others(
    request: pytest.FixtureRequest, sqlite_database: SqliteDatabase, tmp_path: Path
) -> AsyncIterator[tuple[Agency, Script, str]]:
    name, script = request.param, Script(())
    installed_runner(name, tmp_path / "agents")
    async with agency(sqlite_database, tmp_path, script) as house:
        services = house.server.services
        await enrolled(services, house.server.owner, house.workspace)
        change = ToolChange(scope="demo.write")
        await services[ToolPins].set(house.server.owner, house.workspace, "demo", "count", change)
        yield house, script, name


@pytest.mark.contract("XA-11")
@pytest.mark.contract("XA-7")
async def test_a_real_agent_is_refused_asks_gets_the_right_and_leaves_its_work(
    others: tuple[Agency, Script, str],
) -> None:
    house, script, name = others
    script.steps = (
        Step("emit_status", {"status": "writing"}),
        Step("count", {"name": "crane"}),
        Step("request_grant", GRANT),
        Step("count", {"name": "crane"}),
        HANDS[name].does("printf turquoise > crane.txt"),
    )
    agent = await house.define(name, runner=name, instructions="You keep the harbour.", limits={"memory_mb": 8_192})
    attached = await house.client.put(f"/api/agents/{agent['id']}/mcp-attachments", json={"name": "demo", "env": {}})
    assert attached.status_code == 200, attached.text
    session = await house.start(agent, "Note the crane.")
    found = await house.until(session, "waiting")
    (asked,) = found["questions"]
    assert asked["details"]["details"] == {"scope": "demo.write"}, asked
    async with await house.server.browser(house.server.start.owner_id) as person:
        path = f"/api/sessions/{session}/questions/{asked['id']}"
        given = await person.post(path, json={"decision": "granted"})
        assert given.status_code == 200, given.text
    async with asyncio.timeout(200):
        found = await house.until(session)
    assert found["state"] == "completed", (found["error"], script.results)
    assert script.problems == []
    assert "permission_required" in script.results[1] and "demo.write" in script.results[1]
    assert "permission_required" not in script.results[3]
    calls = [each["data"] for each in await house.told(session, "tool_called")]
    demo = [(each["tool"], each["status"], bool(each["granted_via"])) for each in calls if each["name"] == "demo"]
    assert [each[0] for each in demo] == ["count", "count"] and [each[2] for each in demo] == [False, True]
    result = found["result"]
    assert [each["path"] for each in result["files"]] == ["crane.txt"], result
    assert result["refused"] == [{"tool": "demo.count", "needs": "demo.write"}]
    assert found["tokens_in"] > 0


@pytest.mark.contract("XA-6")
@pytest.mark.parametrize("name", list(HANDS))
async def test_a_real_agent_goes_on_after_kill_9_of_holdfast(
    name: str, sqlite_database: SqliteDatabase, tmp_path: Path
) -> None:
    installed_runner(name, tmp_path / "agents")
    script = Script((HANDS[name].does("touch began; sleep 600"),))
    services = services_on(sqlite_database, tmp_path)
    start = await first_start(services)
    owner, workspace = local_principal(start.organization_id), start.workspace_id
    async with openai_chat(script) as model:
        await services[Secrets].set(owner, workspace, "MODEL_KEY", KEY)
        upstream = EndpointUpstream(base_url=model.url, model="scripted-1", key_secret="MODEL_KEY", private=True)
        await services[Endpoints].create(owner, start.project_id, "scripted", [upstream])
        new = NewAgent(name="Other", runner=name, endpoint="scripted", limits=AgentLimits(memory_mb=8_192))  # type: ignore[arg-type]
        agent = await services[AgentDefinitions].create(owner, workspace, new)
        sessions = services[AgentSessions]
        made = await sessions.start(owner, workspace, agent.id, NewSession("Remember the turquoise crane."))
        command = [sys.executable, "-m", "tests.surfaces.agents.doomed", "sqlite", str(sqlite_database.path)]
        process = subprocess.Popen([*command, str(tmp_path)])
        try:
            async with asyncio.timeout(120):
                while not (tmp_path / "sessions" / made.id / "work" / "began").exists():
                    assert process.poll() is None
                    await asyncio.sleep(0.05)
        finally:
            process.kill()
            process.wait()
        script.steps = ()
        async with background(services), asyncio.timeout(150):
            while not (ended := await sessions.get(owner, made.id)).is_over:
                await asyncio.sleep(0.1)
    assert ended.state == "completed", (ended.error, script.problems)
    # The same conversation, in a new process.
    assert "turquoise crane" in script.texts[-1]
    await services.git.close()
