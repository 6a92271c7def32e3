"""Claude Code with one of our endpoints for its model, before a strict upstream of either wire: a whole task."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.test_agents_through_router import Author, memories, written
from tests.e2e.clients.test_real_clients import Bench, bench, needs
from tests.fakes.llm import messages as claude_wire
from tests.fakes.llm.messages import FakeMessages, messages_model
from tests.fakes.llm.model import KEY, FakeModel, model
from tests.fakes.llm.script import Script, Step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.contract("XA-12")]

FACT = "The harbour crane is painted turquoise"
NOTE = "turquoise, 40 metres"


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, sqlite_path: Path) -> AsyncIterator[Bench]:
    async with bench(sqlite_database, sqlite_path.parent) as made:
        yield made


def steps(at: Bench) -> tuple[Step, ...]:
    """Write, read, edit, run a command, and call a tool of ours over MCP."""
    note = str(at.project / "crane.txt")
    return (
        Step("Write", {"file_path": note, "content": "grey, 40 metres"}),
        Step("Read", {"file_path": note}),
        Step("Edit", {"file_path": note, "old_string": "grey", "new_string": "turquoise"}),
        Step("Bash", {"command": f"cat {note}", "description": "Show the note"}),
        Step("xerotier.memory.save", {"content": FACT}),
    )


async def claude_code(at: Bench, name: str) -> str:
    """A session of Claude Code with our endpoint as its model and our server connected."""
    program = needs("claude")
    await at.setup("claude-code")
    (at.home / ".claude").mkdir()
    (at.home / ".claude/settings.json").write_text(json.dumps({"enableAllProjectMcpServers": True}))
    return await at.run(
        [program, "-p", "Note the crane.", "--allowedTools", "mcp__xerotier,Write,Read,Edit,Bash", "--model", "any"],
        ANTHROPIC_BASE_URL=f"{at.server.url}/{at.server.start.project_id}/{name}",
        ANTHROPIC_AUTH_TOKEN=at.server.key,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS="1",
        ENABLE_TOOL_SEARCH="false",
        DISABLE_AUTOUPDATER="1",
    )


async def put(at: Bench, key: str, spec: EndpointUpstream) -> None:
    owner, start = at.server.owner, at.server.start
    await at.server.services.secrets.set(owner, start.workspace_id, "MODEL_KEY", key)
    await at.server.services.endpoints.create(owner, start.project_id, "main", [spec])


async def proved(at: Bench, script: Script, refused: list[str], output: str) -> None:
    assert refused == [], output[-3000:]
    assert len(script.results) == len(script.steps), (sorted(script.offered), script.results, output[-4000:])
    assert (at.project / "crane.txt").read_text() == NOTE
    assert NOTE in script.results[3]
    assert await memories(at) == [FACT]
    assert script.final in output
    assert not any("x-anthropic-billing-header" in text for text in script.texts)


async def test_claude_code_does_a_whole_task_with_a_model_of_openais_wire(at: Bench) -> None:
    async with model() as upstream:
        spec = EndpointUpstream(base_url=upstream.url, model="fake-model", key_secret="MODEL_KEY")
        await put(at, KEY, spec)
        author: Author = written(upstream, *steps(at))
        output = await claude_code(at, "main")
        await proved(at, author.script, _refused(upstream), output)


async def test_claude_code_does_a_whole_task_with_a_model_of_anthropics_wire(at: Bench) -> None:
    async with messages_model() as upstream:
        spec = EndpointUpstream(base_url=upstream.url, model="claude-fake", kind="anthropic", key_secret="MODEL_KEY")
        await put(at, claude_wire.KEY, spec)
        script = Script(steps(at))
        upstream.choose = _choosing(script)
        output = await claude_code(at, "main")
        await proved(at, script, _refused(upstream), output)


def _refused(upstream: FakeModel | FakeMessages) -> list[str]:
    return upstream.refused


def _choosing(script: Script) -> Any:
    """Answers by how far the client's task is."""

    def choose(body: dict[str, Any]) -> claude_wire.Answer:
        tools = [tool["name"] for tool in body.get("tools", [])]
        blocks = [block for each in body["messages"] if isinstance(each["content"], list) for block in each["content"]]
        results = [json.dumps(block.get("content")) for block in blocks if block["type"] == "tool_result"]
        script.heard(json.dumps(body), tools, results)
        chosen = script.choose(tools, len(results))
        if chosen is None:
            return claude_wire.says(script.final)
        use = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": chosen[0], "input": dict(chosen[1])}
        return claude_wire.Answer([use], stop_reason="tool_use")

    return choose
