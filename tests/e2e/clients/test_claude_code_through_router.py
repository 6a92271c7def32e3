"""Claude Code with one of our endpoints for its model, before a strict upstream of either wire: a whole task."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.coding_agents import Bench, bench, claude_code
from tests.e2e.clients.test_agents_through_router import memories
from tests.fakes.llm import messages as claude_wire
from tests.fakes.llm.messages import messages_model
from tests.fakes.llm.model import KEY, Turn, calls, model, says
from tests.fakes.llm.script import Script, Step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.contract("XA-12")]

Json = dict[str, Any]
FACT = "The harbour crane is painted turquoise"
NOTE = "turquoise, 40 metres"
SUBTASK = "Subtask: tell what the note says."
REPORT = "The note tells of a turquoise crane."
SEARCH = "ToolSearch"
MOST_SEARCHES = 30
ALLOWED = "mcp__xerotier,Write,Read,Edit,Bash,Agent,Task"
# With these it declares every tool at once, and sends nothing experimental.
PLAIN = {"CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1", "ENABLE_TOOL_SEARCH": "false"}


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, sqlite_path: Path) -> AsyncIterator[Bench]:
    async with bench(sqlite_database, sqlite_path.parent) as made:
        yield made


def steps(at: Bench) -> tuple[Step, ...]:
    """Write, read, edit, run a command, call a tool of ours over MCP, and have a sub-agent read."""
    note = str(at.project / "crane.txt")
    return (
        Step("Write", {"file_path": note, "content": "grey, 40 metres"}),
        Step("Read", {"file_path": note}),
        Step("Edit", {"file_path": note, "old_string": "grey", "new_string": "turquoise"}),
        Step("Bash", {"command": f"cat {note}", "description": "Show the note"}),
        Step("xerotier.memory.save", {"content": FACT}),
        Step(
            "Agent",
            {
                "description": "Read the note",
                "prompt": SUBTASK,
                "subagent_type": "general-purpose",
                "run_in_background": False,
            },
        ),
    )


@dataclass
class Task:
    """What the model does next, on either wire: the steps of the task, and those of the agent below it."""

    script: Script
    note: str

    def next(self, asked: str, body: str, tools: Sequence[str], results: dict[str, str]) -> tuple[str, str, Json] | str:
        """The id, name and arguments of the next call, or the last words."""
        if SUBTASK in asked:
            return REPORT if "sub" in results else ("sub", "Read", {"file_path": self.note})
        done = {int(id.removeprefix("step_")): text for id, text in results.items() if id.startswith("step_")}
        self.script.heard(body, tools, ())
        self.script.results |= done
        chosen = self.script.choose(tools, len(done))
        if chosen is not None:
            return f"step_{len(done)}", chosen[0], dict(chosen[1])
        searches = sum(id.startswith("search_") for id in results)
        if len(done) < len(self.script.steps) and SEARCH in tools and searches < MOST_SEARCHES:
            # It names most tools only, and loads what the model asks for; its servers may still be connecting.
            wanted = f"mcp__xerotier__{self.script.steps[len(done)].tool.replace('.', '_')}"
            return f"search_{searches}", SEARCH, {"query": f"select:{wanted}"}
        return self.script.final

    def chat(self, body: Json) -> Turn:
        """An answer of Chat Completions."""
        asked = next(_texts(message["content"]) for message in body["messages"] if message["role"] == "user")
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        results = {
            message["tool_call_id"].removeprefix("call_"): json.dumps(message["content"])
            for message in body["messages"]
            if message["role"] == "tool"
        }
        chosen = self.next(asked, json.dumps(body), tools, results)
        if isinstance(chosen, str):
            return says(chosen)
        id, name, given = chosen
        (call,) = calls((name, given)).calls
        return Turn(calls=[{**call, "id": f"call_{id}"}])

    def messages(self, body: Json) -> claude_wire.Answer:
        """An answer of Messages."""
        blocks = [block for each in body["messages"] for block in _blocks(each["content"])]
        tools = [tool["name"] for tool in body.get("tools", [])]
        results = {
            block["tool_use_id"].removeprefix("toolu_"): json.dumps(block.get("content"))
            for block in blocks
            if block["type"] == "tool_result"
        }
        chosen = self.next(_texts(body["messages"][0]["content"]), json.dumps(body), tools, results)
        if isinstance(chosen, str):
            return claude_wire.says(chosen)
        id, name, given = chosen
        use = {"type": "tool_use", "id": f"toolu_{id}", "name": name, "input": given}
        return claude_wire.Answer([use], stop_reason="tool_use")


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _texts(content: Any) -> str:
    return "\n".join(block.get("text", "") for block in _blocks(content))


async def put(at: Bench, key: str, spec: EndpointUpstream) -> None:
    owner, start = at.server.owner, at.server.start
    await at.server.services.secrets.set(owner, start.workspace_id, "MODEL_KEY", key)
    await at.server.services.endpoints.create(owner, start.project_id, "main", [spec])


async def proved(at: Bench, script: Script, refused: list[str], output: str) -> None:
    assert refused == [], output[-3000:]
    assert len(script.results) == len(script.steps), (sorted(script.offered), script.results, output[-4000:])
    assert (at.project / "crane.txt").read_text() == NOTE
    assert NOTE in script.results[3]
    assert REPORT in script.results[5]
    assert await memories(at) == [FACT]
    assert script.final in output
    assert not any("x-anthropic-billing-header" in text for text in script.texts)


@pytest.mark.parametrize("more", [{}, PLAIN], ids=["as it comes", "plain"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_claude_code_does_a_whole_task_with_a_model_of_either_wire(
    at: Bench, kind: str, more: dict[str, str]
) -> None:
    task = Task(Script(steps(at)), str(at.project / "crane.txt"))
    async with model() as other, messages_model() as claude:
        other.choose, claude.choose = task.chat, task.messages
        if kind == "openai":
            await put(at, KEY, EndpointUpstream(base_url=other.url, model="fake-model", key_secret="MODEL_KEY"))
        else:
            spec = EndpointUpstream(base_url=claude.url, model="claude-fake", kind="anthropic", key_secret="MODEL_KEY")
            await put(at, claude_wire.KEY, spec)
        await at.setup("claude-code", "--router", "--endpoint", "main")
        output = await claude_code(at, "Note the crane.", allowed=ALLOWED, model="any", env=more)
        await proved(at, task.script, [*other.refused, *claude.refused], output)
