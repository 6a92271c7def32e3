"""Other people's clients at the Zero mount: every SDK in the field, and two coding agents that take a case."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.features.cases.model import NewCase
from holdfast.features.cases.service import CaseService
from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.coding_agents import Bench, bench, claude_code, exported, opencode
from tests.e2e.clients.test_mcp_clients import NODE_PROGRAM, ROOT, run
from tests.fakes.llm import anthropic, openai_chat
from tests.fakes.llm.script import Script, Step
from tests.support.server import TestServer
from tests.surfaces.mcp.harness import MODERN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.contract("ZE-1"), pytest.mark.contract("ZE-2")]

STEPS = (Step("zero.zero_list_cases", {"state_filter": "OPEN"}), Step("zero.zero_claim_case", {}))


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, sqlite_path: Path) -> AsyncIterator[Bench]:
    async with bench(sqlite_database, sqlite_path.parent) as made:
        yield made


async def add(server: TestServer, title: str) -> str:
    cases = server.services[CaseService]
    return (await cases.add(server.owner, server.start.workspace_id, NewCase(title=title))).id


@pytest.mark.parametrize(
    ("command", "sdk", "era"),
    [
        ("python", 1, "legacy"),
        ("node", 1, "legacy"),
        ("node", 2, "legacy"),
        ("node", 2, MODERN),
    ],
)
async def test_an_sdk_lists_reads_follows_and_calls(at: Bench, command: str, sdk: int, era: str) -> None:
    server = at.server
    id = await add(server, "Mend the fence")
    program = [NODE_PROGRAM, "zero_tour.mjs"]
    if command == "python":
        program = [str(ROOT / ".cache/mcp1/bin/python"), str(Path(__file__).with_name("zero_tour1.py"))]
    env = {"url": f"{server.url}/mcp", "key": server.key, "sdk": sdk, "era": era}
    seen = json.loads(await run(*program, env={"TOUR": json.dumps(env)}))
    assert seen["tools"][:3] == ["zero_list_cases", "zero_get_case", "zero_run_session"] and len(seen["tools"]) == 7
    assert seen["templates"] == ["zero://cases/{id}", "zero://proofs/{case_id}"]
    assert (seen["resources"], seen["read"]) == ([f"zero://cases/{id}"], "Mend the fence")
    assert seen["heard"] is True and seen["state"] == "PLANNING" and seen["refused"] is True


def proved(script: Script, output: str) -> None:
    """The agent called our tools, told the model what they answered, and was given the rules."""
    assert script.problems == [], output[-3000:]
    assert len(script.results) == 2, (script.results, output[-3000:])
    assert all("Mend the fence" in result for result in script.results.values()), script.results
    assert script.final in output
    assert any("Never call work done that is not proven" in text for text in script.texts), "no rules"


async def _claimed(at: Bench, id: str) -> bool:
    case = await at.server.services[CaseService].get(at.server.owner, None, id)
    return case.last_claim is not None and case.fence == 1


async def test_claude_code_takes_a_case(at: Bench) -> None:
    id = await add(at.server, "Mend the fence")
    await at.setup("claude-code", "--surface", "zero")
    script = Script(STEPS)
    async with anthropic.anthropic(script) as model:
        output = await claude_code(
            at,
            "What next?",
            allowed="mcp__zero",
            env={"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": anthropic.KEY},
        )
    proved(script, output)
    assert await _claimed(at, id)


async def test_opencode_takes_a_case_with_the_key_in_its_environment(at: Bench) -> None:
    id = await add(at.server, "Mend the fence")
    said = await at.setup("opencode", "--surface", "zero", "--env")
    assert list(exported(said)) == ["ZERO_API_KEY"]
    script = Script(STEPS)
    async with openai_chat.openai_chat(script) as model:
        output = await opencode(at, "What next?", base_url=model.url, key=openai_chat.KEY, env=exported(said))
    proved(script, output)
    assert await _claimed(at, id)
