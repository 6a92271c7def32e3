"""Real coding agents that call enrolled tools of a sandboxed server; one of them runs only when a person approves."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.coding_agents import BYPASS, Bench, bench, claude_code, codex, exported
from tests.fakes.llm import anthropic, openai_responses
from tests.fakes.llm.script import Script, Step
from tests.support.execution.counting import enrolled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.contract("XM-9")]

# Beside all of our own tools there is no room in the list: the client's key finds enrolled ones and calls them by name.
ADD = Step("call_tool", {"name": "demo.add", "arguments": {"left": 20, "right": 22}})
COUNT = Step("call_tool", {"name": "demo.count", "arguments": {"name": "approved"}})
MOST_POLLS = 20


@dataclass
class Patient(Script):
    """A model that polls a call which waits for a person until it has ended, as the answer tells it to."""

    def choose(self, tools: Sequence[str], done: int) -> tuple[str, Mapping[str, Any]] | None:
        if done >= 2 and self._has_ended(done):
            self.steps = self.steps[:done]
        chosen = super().choose(tools, done)
        if chosen is None or done < 2:
            return chosen
        named = re.search(r"inv_[0-9a-f]{32}", self.results[1])
        assert named is not None, self.results
        return chosen[0], {"invocation_id": named[0], "wait_seconds": 5}

    def _has_ended(self, done: int) -> bool:
        # A client that sends its person to the page by itself has the result at once.
        return "succeeded" in self.results[done - 1] or "inv_" not in self.results[1]


def scripted() -> Patient:
    return Patient((ADD, COUNT, *[Step("xerotier.exec.poll", {})] * MOST_POLLS))


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, sqlite_path: Path) -> AsyncIterator[Bench]:
    async with bench(sqlite_database, sqlite_path.parent) as made:
        await enrolled(made.server.services, made.server.owner, made.server.start.workspace_id)
        yield made


@asynccontextmanager
async def approving(at: Bench) -> AsyncIterator[None]:
    """A person who looks at what waits, and approves it."""

    async def look() -> None:
        async with await at.server.browser(at.server.start.owner_id) as person:
            path = f"/api/workspaces/{at.server.start.workspace_id}/approvals"
            while True:
                for each in (await person.get(path, params={"state": "pending"})).json()["items"]:
                    answer = await person.post(f"/api/approvals/{each['id']}", json={"decision": "approve"})
                    assert answer.is_success, answer.text
                await asyncio.sleep(0.2)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


async def proved(at: Bench, script: Script, output: str) -> None:
    """The agent told its model what the tools gave, and what was approved ran once."""
    assert script.problems == [], output[-3000:]
    assert len(script.results) >= 2, (sorted(script.offered), script.results, output[-3000:])
    assert "42" in script.results[0], script.results
    assert "done" in script.results[max(script.results)], script.results
    assert script.final in output
    async with at.server.client() as key:
        path = f"/api/workspaces/{at.server.start.workspace_id}/invocations"
        found = (await key.get(path, params={"tool_name": "demo.count"})).json()["items"]
    assert [(each["status"], each["granted_via"].startswith("apr_")) for each in found] == [("succeeded", True)], found


async def test_claude_code_calls_enrolled_tools_and_one_that_a_person_approves(at: Bench) -> None:
    said = await at.setup("claude-code")
    script = scripted()
    async with anthropic.anthropic(script) as model, approving(at):
        output = await claude_code(
            at,
            "Add and count.",
            allowed="mcp__xerotier",
            env={"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": anthropic.KEY, **exported(said)},
        )
    await proved(at, script, output)


async def test_codex_calls_enrolled_tools_and_one_that_a_person_approves(at: Bench) -> None:
    said = await at.setup("codex")
    script = scripted()
    async with openai_responses.openai_responses(script) as model, approving(at):
        output = await codex(
            at, BYPASS, "Add and count.", base_url=model.url, key=openai_responses.KEY, env=exported(said)
        )
    await proved(at, script, output)
