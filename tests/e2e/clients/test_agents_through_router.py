"""Real coding agents that have one of our endpoints for their model, with a strict upstream behind it.

Their own tools stay theirs, ours run on the server beside them, and what each client's wire has of its own
(namespaces, developer messages, outputs in parts, names with dots) reaches the upstream in a form that it takes.
"""

import base64
import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.memory.model import Filters
from holdfast.storage.sqlite import SqliteDatabase
from tests.e2e.clients.coding_agents import BIN, BYPASS, Bench, bench, codex, opencode
from tests.fakes.llm.model import KEY, FakeModel, Turn, calls, model, says
from tests.fakes.llm.script import Script, Step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.contract("XS-1")]

FACT = "The harbour crane is painted turquoise"
NOTE = "turquoise, 40 metres"
WAIT = "list_mcp_resources"
MOST_WAITS = 30
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@dataclass
class Author:
    """Chooses what the upstream says: the script's steps one after the other, whatever the client calls its tools."""

    script: Script
    called: list[str] = field(default_factory=list)
    """The upstream's own names of the tools that it called."""

    def choose(self, body: dict[str, Any]) -> Turn:
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        self.script.heard(json.dumps(body), tools, ())
        waits = 0
        for message in body["messages"]:
            _, _, number = str(message.get("tool_call_id", "")).partition("call_step_")
            if number:
                self.script.results[int(number)] = json.dumps(message["content"])
            waits += str(message.get("tool_call_id", "")).startswith("call_wait_")
        done = len(self.script.results)
        chosen = self.script.choose(tools, done)
        if chosen is not None:
            self.called.append(chosen[0])
            return _call(f"call_step_{done}", *chosen)
        if done < len(self.script.steps) and WAIT in tools and waits < MOST_WAITS:
            # Codex begins while its servers are still connecting; asking one for its resources waits for it.
            return _call(f"call_wait_{waits}", WAIT, {"server": "xerotier"})
        return says(self.script.final)


def _call(id: str, name: str, arguments: Any) -> Turn:
    (call,) = calls((name, arguments)).calls
    return Turn(calls=[{**call, "id": id}])


@pytest.fixture
async def upstream() -> AsyncIterator[FakeModel]:
    async with model() as fake:
        yield fake


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, sqlite_path: Path, upstream: FakeModel) -> AsyncIterator[Bench]:
    """A project to work in, and a server whose endpoint `main` is in front of the upstream."""
    async with bench(sqlite_database, sqlite_path.parent) as made:
        owner, start = made.server.owner, made.server.start
        await made.server.services.secrets.set(owner, start.workspace_id, "MODEL_KEY", KEY)
        spec = EndpointUpstream(base_url=upstream.url, model="fake-model", key_secret="MODEL_KEY")
        await made.server.services.endpoints.create(owner, start.project_id, "main", [spec])
        yield made


def base_url(at: Bench) -> str:
    return f"{at.server.url}/{at.server.start.project_id}/main/v1"


def written(upstream: FakeModel, *steps: Step) -> Author:
    """The upstream follows these steps from now on."""
    author = Author(Script(steps))
    upstream.choose = author.choose
    return author


async def memories(at: Bench) -> list[str]:
    everywhere = Filters(visibility=None)
    kept = await at.server.services.memory.list(at.server.owner, at.server.start.workspace_id, everywhere)
    return [memory.content for memory in kept.items]


def proved(author: Author, upstream: FakeModel, output: str) -> None:
    """The agent went through every step, said the last sentence, and the upstream found nothing to refuse."""
    assert upstream.refused == [], output[-3000:]
    results = author.script.results
    assert len(results) == len(author.script.steps), (sorted(author.script.offered), results, output[-4000:])
    assert author.script.final in output
    assert {path.split(" ")[1] for path in upstream.paths} == {"/v1/chat/completions"}


async def run_opencode(at: Bench, headers: Mapping[str, str] = {}) -> str:
    """A session of opencode with our endpoint as its provider."""
    return await opencode(at, "Note the crane.", base_url=base_url(at), key=at.server.key, headers=headers)


async def test_opencode_works_with_its_own_tools_through_a_relayed_endpoint(at: Bench, upstream: FakeModel) -> None:
    note = str(at.project / "crane.txt")
    author = written(upstream, Step("write", {"filePath": note, "content": NOTE}), Step("read", {"filePath": note}))
    output = await run_opencode(at)
    proved(author, upstream, output)
    assert Path(note).read_text() == NOTE
    assert NOTE in author.script.results[1]


async def test_opencode_in_a_chat_works_with_its_own_tools_and_with_ours(at: Bench, upstream: FakeModel) -> None:
    note = str(at.project / "crane.txt")
    author = written(
        upstream,
        Step("save_memory", {"content": FACT}),
        Step("write", {"filePath": note, "content": NOTE}),
        Step("read", {"filePath": note}),
    )
    output = await run_opencode(at, {"X-Xerotier-Chat": "crane"})
    proved(author, upstream, output)
    assert Path(note).read_text() == NOTE
    assert await memories(at) == [FACT]
    assert author.called.count("write") == 1
    chat = await at.server.services.chats.get(at.server.owner, at.server.start.workspace_id, "crane")
    assert chat.id == "crane"


async def test_codex_works_with_its_own_tools_with_namespaces_and_with_ours(at: Bench, upstream: FakeModel) -> None:
    await at.setup("codex")
    note, picture = at.project / "crane.txt", at.project / "crane.png"
    picture.write_bytes(base64.b64decode(PIXEL))
    author = written(
        upstream,
        Step("exec_command", {"cmd": f"printf %s '{NOTE}' > {note}; cat {note}"}),
        Step("view_image", {"path": str(picture)}),
        # Codex asks for OpenAI's web search; ours takes its place, and refuses what is no public address.
        Step("fetch_url", {"url": "http://127.0.0.1:1/"}),
        Step("xerotier.memory.save", {"content": FACT}),
        Step("xerotier.memory.recall", {"query": "colour of the harbour crane"}),
    )
    output = await codex(at, BYPASS, "Note the crane.", base_url=base_url(at), key=at.server.key)
    proved(author, upstream, output)
    results = author.script.results
    assert note.read_text() == NOTE
    assert NOTE in results[0]
    assert "error" in results[2]
    assert await memories(at) == [FACT]
    assert FACT in results[4]
    sent = upstream.requests[-1]["messages"]
    assert any("own initiative" in str(each["content"]) for each in sent if each["role"] == "developer"), "no rules"
    pictures = [part for each in sent if isinstance(each["content"], list) for part in each["content"]]
    assert [part["type"] for part in pictures] == ["image_url"], "what the tool gave in parts was lost"


@pytest.mark.parametrize("wire", ["completions", "responses"])
async def test_copilot_works_with_its_own_tools(at: Bench, upstream: FakeModel, wire: str) -> None:
    program = shutil.which("copilot", path=f"{BIN}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("copilot is not installed (190 MB, so it is not pinned); run: npm install -g @github/copilot")
    note = at.project / "crane.txt"
    author = written(
        upstream,
        Step("bash", {"command": f"printf %s '{NOTE}' > {note}; cat {note}", "description": "Note the crane"}),
        Step("view", {"path": str(note)}),
    )
    output = await at.run(
        [program, "-p", "Note the crane.", "--allow-all-tools", "--disable-client-telemetry", "--log-level", "none"],
        COPILOT_PROVIDER_BASE_URL=base_url(at),
        COPILOT_PROVIDER_API_KEY=at.server.key,
        COPILOT_PROVIDER_WIRE_API=wire,
        COPILOT_MODEL="gpt-5",
        COPILOT_OFFLINE="true",
    )
    proved(author, upstream, output)
    assert note.read_text() == NOTE
    assert NOTE in author.script.results[1]
