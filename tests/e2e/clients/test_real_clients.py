"""Real coding agents, connected by the files that `holdfast mcp setup --write` wrote, driven by a scripted model."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.llm import anthropic, openai_chat, openai_responses
from tests.fakes.llm.script import Script, Step
from tests.support.server import TestServer, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

BIN = Path(__file__).parents[2] / "node" / "node_modules" / ".bin"
FACT = "The harbour crane is painted turquoise"
STEPS = (
    Step("xerotier.memory.save", {"content": FACT}),
    Step("xerotier.memory.recall", {"query": "colour of the harbour crane"}),
)
MOST_SECONDS = 150


@dataclass(frozen=True)
class Bench:
    """A running server, a project that a client was set up in, and a home that holds nothing of this machine's."""

    server: TestServer
    data_dir: Path
    home: Path
    project: Path

    async def setup(self, client: str, *words: str) -> str:
        """Run the command as a user does; what it printed."""
        command = [sys.executable, "-m", "holdfast", "mcp", "setup", client, "--write", str(self.project)]
        where = ["--data-dir", str(self.data_dir), "--url", self.server.url]
        code, output = await run([*command, *where, *words], self.project, {"PATH": os.environ["PATH"]})
        assert code == 0, output
        return output

    async def run(self, words: list[str], **environment: str) -> str:
        """Run a client in the project until it ends by itself; what it printed."""
        # Whoever asks for anything but this machine is refused at once.
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:1")
        base = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "TMPDIR": str(self.home / "tmp"),
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "TERM": "dumb",
        }
        code, output = await run(words, self.project, {**base, **nowhere, **environment})
        assert code == 0, output[-6000:]
        return output


async def run(words: list[str], directory: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """A command's exit code and all that it said. Neither it nor its children outlive the time it is given."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=directory,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = bytearray()
    try:
        async with asyncio.timeout(MOST_SECONDS):
            while chunk := await process.stdout.read(65536):
                said += chunk
            code = await process.wait()
    except TimeoutError:
        pytest.fail(f"{words[0]} did not end within {MOST_SECONDS} s:\n{said.decode(errors='replace')[-6000:]}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return code, said.decode(errors="replace")


def needs(name: str) -> str:
    """The client's program; without it the test says so, and fails where everything must be there."""
    path = BIN / name
    if not path.exists():
        reason = f"{name} is not installed; run: scripts/setup node"
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return str(path)


@asynccontextmanager
async def bench(database: SqliteDatabase, data_dir: Path) -> AsyncIterator[Bench]:
    home, project = data_dir / "home", data_dir / "project"
    for directory in (home / "tmp", project):
        directory.mkdir(parents=True)
    async with serving(database, data_dir=data_dir) as server:
        yield Bench(server, data_dir, home, project)


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
    claude = needs("claude")
    said = await at.setup("claude-code", *(["--env"] if in_environment else []))
    # The person's consent to the project's servers, which Claude Code asks for at the first start.
    (at.home / ".claude").mkdir()
    (at.home / ".claude/settings.json").write_text(json.dumps({"enableAllProjectMcpServers": True}))
    script = Script(STEPS)
    async with anthropic.anthropic(script) as model:
        output = await at.run(
            [claude, "-p", "Remember and recall.", "--allowedTools", "mcp__xerotier", "--model", "claude-sonnet-4-5"],
            ANTHROPIC_BASE_URL=model.url,
            ANTHROPIC_API_KEY=anthropic.KEY,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            **exported(said),
        )
    await proved(at, script, output)


@pytest.mark.contract("XM-20")
@pytest.mark.parametrize("in_environment", [False, True])
async def test_codex_saves_and_recalls(at: Bench, in_environment: bool) -> None:
    codex = needs("codex")
    said = await at.setup("codex", *(["--env"] if in_environment else []))
    script = Script(STEPS)
    async with openai_responses.openai_responses(script) as model:
        (at.home / ".codex").mkdir()
        # The model that the person uses, and their trust in the project. Codex offers MCP tools through a search that
        # only models of its own list can do: for a model that it does not know, they are offered as they are.
        (at.home / ".codex/config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "fake"\n'
            f'[model_providers.fake]\nname = "fake"\nbase_url = "{model.url}"\nwire_api = "responses"\n'
            'env_key = "FAKE_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
            f'[projects."{at.project}"]\ntrust_level = "trusted"\n'
            "[features]\ntool_search_always_defer_mcp_tools = false\n"
        )
        output = await at.run(
            [codex, "exec", "--skip-git-repo-check", "Remember and recall."],
            CODEX_HOME=str(at.home / ".codex"),
            FAKE_KEY=openai_responses.KEY,
            **exported(said),
        )
    await proved(at, script, output)


@pytest.mark.contract("XM-20")
@pytest.mark.parametrize("in_environment", [False, True])
async def test_opencode_saves_and_recalls(at: Bench, in_environment: bool) -> None:
    opencode = needs("opencode")
    said = await at.setup("opencode", *(["--env"] if in_environment else []))
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
            [opencode, "run", "--model", "fake/scripted", "Remember and recall."],
            OPENCODE_DISABLE_AUTOUPDATE="1",
            OPENCODE_DISABLE_MODELS_FETCH="1",
            OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
            OPENCODE_DISABLE_LSP_DOWNLOAD="1",
            **exported(said),
        )
    await proved(at, script, output)


def exported(said: str) -> dict[str, str]:
    """The variables that the set-up told the user to export."""
    lines = [line.removeprefix("export ") for line in said.splitlines() if line.startswith("export ")]
    return dict(line.split("=", 1) for line in lines)
