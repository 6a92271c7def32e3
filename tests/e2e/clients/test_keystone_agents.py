"""Real coding agents, connected to Keystone by the files that the command wrote, driven by a scripted model."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.test_real_clients import Bench, exported, needs
from tests.fakes.llm import anthropic, openai_chat
from tests.fakes.llm.script import Script, Step
from tests.support.server import serving
from tests.surfaces.keystone.ingested import WHY, ingest, small_repository

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.contract("KS-1")]

STEPS = (
    Step("keystone.list_projects", {}),
    Step("keystone.ask", {"projectSlugs": ["my-api"], "question": WHY}),
)


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, sqlite_path: Path, tmp_path: Path) -> AsyncIterator[Bench]:
    home, project = tmp_path / "home", tmp_path / "project"
    for directory in (home / "tmp", project):
        directory.mkdir(parents=True)
    repository = small_repository(tmp_path / "my-api")
    async with serving(sqlite_database, data_dir=sqlite_path.parent) as server:
        await ingest(server.services, server.owner, server.start.workspace_id, repository, "my-api")
        yield Bench(server, sqlite_path.parent, home, project)


def proved(script: Script, output: str) -> None:
    """The agent called our tools, told the model what they answered, and was given the rules."""
    assert script.problems == [], output[-3000:]
    assert len(script.results) == 2, (script.results, output[-3000:])
    assert "my-api" in script.results[0] and "could not be revoked" in script.results[1], script.results
    assert script.final in output
    assert any("search_memory" in text and "own initiative" in text for text in script.texts), "no rules"


async def test_claude_code_lists_the_projects_and_asks(at: Bench) -> None:
    claude = needs("claude")
    await at.setup("claude-code", "--surface", "keystone")
    (at.home / ".claude").mkdir()
    (at.home / ".claude/settings.json").write_text(json.dumps({"enableAllProjectMcpServers": True}))
    script = Script(STEPS)
    async with anthropic.anthropic(script) as model:
        output = await at.run(
            [claude, "-p", "Why?", "--allowedTools", "mcp__keystone", "--model", "claude-sonnet-4-5"],
            ANTHROPIC_BASE_URL=model.url,
            ANTHROPIC_API_KEY=anthropic.KEY,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
    proved(script, output)


async def test_opencode_lists_the_projects_and_asks_with_the_key_in_its_environment(at: Bench) -> None:
    opencode = needs("opencode")
    said = await at.setup("opencode", "--surface", "keystone", "--env")
    assert list(exported(said)) == ["KEYSTONE_API_KEY"]
    script = Script(STEPS)
    async with openai_chat.openai_chat(script) as model:
        directory = at.home / ".config/opencode"
        directory.mkdir(parents=True)
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Fake",
            "options": {"baseURL": model.url, "apiKey": openai_chat.KEY},
            "models": {"scripted": {"name": "Scripted", "tool_call": True}},
        }
        (directory / "opencode.json").write_text(json.dumps({"provider": {"fake": provider}}))
        output = await at.run(
            [opencode, "run", "--model", "fake/scripted", "Why?"],
            OPENCODE_DISABLE_AUTOUPDATE="1",
            OPENCODE_DISABLE_MODELS_FETCH="1",
            OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
            OPENCODE_DISABLE_LSP_DOWNLOAD="1",
            **exported(said),
        )
    proved(script, output)
