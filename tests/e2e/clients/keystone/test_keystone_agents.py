"""Real coding agents, connected to Keystone by the files that the command wrote, driven by a scripted model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.coding_agents import Bench, bench, claude_code, exported, opencode
from tests.fakes.llm import anthropic, openai_chat
from tests.fakes.llm.script import Script, Step
from tests.surfaces.keystone.ingested import WHY, ingest, small_repository

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.contract("KS-1")]

STEPS = (
    Step("keystone.list_projects", {}),
    Step("keystone.ask", {"projectSlugs": ["my-api"], "question": WHY}),
)


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, sqlite_path: Path, tmp_path: Path) -> AsyncIterator[Bench]:
    repository = small_repository(tmp_path / "my-api")
    async with bench(sqlite_database, sqlite_path.parent) as made:
        server = made.server
        await ingest(server.services, server.owner, server.start.workspace_id, repository, "my-api")
        yield made


def proved(script: Script, output: str) -> None:
    """The agent called our tools, told the model what they answered, and was given the rules."""
    assert script.problems == [], output[-3000:]
    assert len(script.results) == 2, (script.results, output[-3000:])
    assert "my-api" in script.results[0] and "could not be revoked" in script.results[1], script.results
    assert script.final in output
    assert any("search_memory" in text and "own initiative" in text for text in script.texts), "no rules"


async def test_claude_code_lists_the_projects_and_asks(at: Bench) -> None:
    await at.setup("claude-code", "--surface", "keystone")
    script = Script(STEPS)
    async with anthropic.anthropic(script) as model:
        output = await claude_code(
            at,
            "Why?",
            allowed="mcp__keystone",
            env={"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": anthropic.KEY},
        )
    proved(script, output)


async def test_opencode_lists_the_projects_and_asks_with_the_key_in_its_environment(at: Bench) -> None:
    said = await at.setup("opencode", "--surface", "keystone", "--env")
    assert list(exported(said)) == ["KEYSTONE_API_KEY"]
    script = Script(STEPS)
    async with openai_chat.openai_chat(script) as model:
        output = await opencode(at, "Why?", base_url=model.url, key=openai_chat.KEY, env=exported(said))
    proved(script, output)
