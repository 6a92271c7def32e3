"""Owns the proof that a case's agent is set to work by `zero_run_session`, and hands the case on, or back."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.agents.conftest import Agency, speaking
from tests.surfaces.agents.test_sessions import repository

pytestmark = pytest.mark.slow

MAKE = (
    "open('answer.txt', 'w').write('42\\n')",
    "subprocess.run(['git', 'add', '-A'], check=True)",
    "subprocess.run(['git', 'commit', '-qm', 'Answer'], check=True)",
    "over('It is 42.')",
)


async def _called(house: Agency, **arguments: str) -> dict[str, Any]:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "zero_run_session",
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "zero_run_session",
    }
    answer = await house.client.post("/mcp", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["result"]
    return found


async def _case(house: Agency, **more: Any) -> dict[str, Any]:
    answer = await house.client.post(f"/api/workspaces/{house.workspace}/cases", json={"title": "Answer", **more})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def _now(house: Agency, case: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (await house.client.get(f"/api/workspaces/{house.workspace}/cases/{case['id']}")).json()
    return found


@pytest.mark.contract("ZE-3")
async def test_a_cases_agent_leaves_a_branch_that_is_proven_and_the_case_moves_on(
    house: Agency, tmp_path: Path
) -> None:
    await repository(house, tmp_path / "origin")
    await house.define(command=speaking(*MAKE))
    case = await _case(house, repository="origin", criteria=["answer.txt says 42"])
    proof = {"kind": "run", "command": "grep -qx 42 answer.txt", "criteria": [case["criteria"][0]["id"]]}
    added = await house.client.post(f"/api/workspaces/{house.workspace}/cases/{case['id']}/proofs", json=proof)
    assert added.status_code == 201, added.text
    result = await _called(house, case_id=case["id"], prompt="Answer the question.")
    assert not result.get("isError"), result
    given = result["structuredContent"]
    assert (given["case_id"], given["state"], given["agent"]) == (case["id"], "pending", "helper")
    held = await _now(house, case)
    assert held["claim"] is None or held["claim"]["session_id"] == given["session_id"]
    ended = await house.until(given["session_id"])
    assert ended["state"] == "completed", ended["error"]
    moved = await _now(house, case)
    assert (moved["state"], moved["claim"]) == ("VERIFYING", None), (ended["result"]["case"], moved["comments"])
    assert moved["head_commit"] == ended["result"]["head_commit"]
    async with asyncio.timeout(60):
        while True:
            (proven,) = (await house.client.get(f"/api/workspaces/{house.workspace}/cases/{case['id']}/proofs")).json()[
                "items"
            ]
            if proven["verdict"] not in ("unrun", "running", "stale", "queued"):
                break
            await asyncio.sleep(0.1)
    assert proven["verdict"] == "passed", proven


@pytest.mark.contract("ZE-3")
async def test_an_agent_that_fails_hands_the_case_back_with_the_reason(house: Agency) -> None:
    await house.define(command=speaking("over('I cannot do this.', 'error')"))
    case = await _case(house)
    given = (await _called(house, case_id=case["id"], prompt="Try."))["structuredContent"]
    assert (await house.until(given["session_id"]))["state"] == "failed"
    back = await _now(house, case)
    assert (back["state"], back["claim"]) == ("OPEN", None)
    assert any("I cannot do this." in each["text"] for each in back["comments"])


@pytest.mark.contract("ZE-3")
async def test_without_a_clear_agent_the_error_says_what_to_do(house: Agency) -> None:
    case = await _case(house)
    result = await _called(house, case_id=case["id"], prompt="Try.")
    assert result["isError"] and "holdfast agents add" in result["content"][0]["text"]


async def test_a_case_that_somebody_holds_is_not_taken(house: Agency) -> None:
    agent = await house.define(command=speaking("over()"))
    case = await _case(house)
    path = f"/api/workspaces/{house.workspace}/cases/{case['id']}/claim"
    assert (await house.client.post(path, json={})).is_success
    body = {"prompt": "Go.", "case_id": case["id"]}
    answer = await house.client.post(f"/api/agents/{agent['id']}/sessions", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "held")
