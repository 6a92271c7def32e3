"""Real coding agents, connected by the files that `holdfast mcp setup --write` wrote, driven by a scripted model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.coding_agents import Bench, bench, claude_code, codex, exported, opencode
from tests.fakes.llm import anthropic, openai_chat, openai_responses
from tests.fakes.llm.script import Script, Step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

FACT = "The harbour crane is painted turquoise"
STEPS = (
    Step("xerotier.memory.save", {"content": FACT}),
    Step("xerotier.memory.recall", {"query": "colour of the harbour crane"}),
)


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, sqlite_path: Path) -> AsyncIterator[Bench]:
    async with bench(sqlite_database, sqlite_path.parent) as made:
        yield made


async def proved(at: Bench, script: Script, output: str) -> None:
    """Our server was called and kept the memory, and the model was told what the tools answered."""
    assert script.problems == [], output[-3000:]
    kept = await at.server.services.memory.list(at.server.owner, at.server.start.workspace_id)
    assert [memory.content for memory in kept.items] == [FACT], (sorted(script.offered), script.results, output[-3000:])
    assert len(script.results) == 2, script.results
    assert "mem_" in script.results[0], script.results
    assert FACT in script.results[1], script.results
    assert script.final in output
    assert any("xerotier.memory.recall" in text and "own initiative" in text for text in script.texts), "no rules"


@pytest.mark.contract("XM-20")
@pytest.mark.parametrize("in_environment", [False, True])
async def test_claude_code_saves_and_recalls(at: Bench, in_environment: bool) -> None:
    said = await at.setup("claude-code", *(["--env"] if in_environment else []))
    script = Script(STEPS)
    async with anthropic.anthropic(script) as model:
        output = await claude_code(
            at,
            "Remember and recall.",
            allowed="mcp__xerotier",
            env={"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": anthropic.KEY, **exported(said)},
        )
    await proved(at, script, output)


@pytest.mark.contract("XM-20")
@pytest.mark.parametrize("in_environment", [False, True])
async def test_codex_saves_and_recalls(at: Bench, in_environment: bool) -> None:
    said = await at.setup("codex", *(["--env"] if in_environment else []))
    script = Script(STEPS)
    async with openai_responses.openai_responses(script) as model:
        output = await codex(
            at, "Remember and recall.", base_url=model.url, key=openai_responses.KEY, env=exported(said)
        )
    await proved(at, script, output)


@pytest.mark.contract("XM-20")
@pytest.mark.parametrize("in_environment", [False, True])
async def test_opencode_saves_and_recalls(at: Bench, in_environment: bool) -> None:
    said = await at.setup("opencode", *(["--env"] if in_environment else []))
    script = Script(STEPS)
    async with openai_chat.openai_chat(script) as model:
        output = await opencode(at, "Remember and recall.", base_url=model.url, key=openai_chat.KEY, env=exported(said))
    await proved(at, script, output)
