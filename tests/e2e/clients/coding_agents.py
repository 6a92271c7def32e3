"""Owns real coding agents as tests drive them: a project that a command set up, and how each agent is started."""

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
from tests.support.server import TestServer, serving

BIN = Path(__file__).parents[2] / "node" / "node_modules" / ".bin"
MOST_SECONDS = 150
# Codex asks its own person before a tool that may change something, unless it is told not to.
BYPASS = "--dangerously-bypass-approvals-and-sandbox"


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
    """A served store, with an empty home and an empty project beside it."""
    home, project = data_dir / "home", data_dir / "project"
    for directory in (home / "tmp", project):
        directory.mkdir(parents=True)
    async with serving(database, data_dir=data_dir) as server:
        yield Bench(server, data_dir, home, project)


def exported(said: str) -> dict[str, str]:
    """The variables that the set-up told the user to export."""
    lines = [line.removeprefix("export ") for line in said.splitlines() if line.startswith("export ")]
    return dict(line.split("=", 1) for line in lines)


async def claude_code(
    at: Bench, prompt: str, *, allowed: str, model: str = "claude-sonnet-4-5", env: Mapping[str, str]
) -> str:
    """A session of Claude Code, which asks for nothing that is `allowed`; what it printed."""
    program = needs("claude")
    # The person's consent to the project's servers, which Claude Code asks for at the first start.
    (at.home / ".claude").mkdir()
    (at.home / ".claude/settings.json").write_text(json.dumps({"enableAllProjectMcpServers": True}))
    return await at.run(
        [program, "-p", prompt, "--allowedTools", allowed, "--model", model],
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        **env,
    )


async def codex(at: Bench, *words: str, base_url: str, key: str, env: Mapping[str, str] = {}) -> str:
    """A session of Codex with a provider of its own, on the Responses API; what it printed."""
    program = needs("codex")
    (at.home / ".codex").mkdir()
    # The model that the person uses, and their trust in the project. Codex offers MCP tools through a search that
    # only models of its own list can do: for a model that it does not know, they are offered as they are.
    (at.home / ".codex/config.toml").write_text(
        'model = "gpt-5"\nmodel_provider = "own"\n'
        f'[model_providers.own]\nname = "Own"\nbase_url = "{base_url}"\nwire_api = "responses"\n'
        'env_key = "OWN_KEY"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
        f'[projects."{at.project}"]\ntrust_level = "trusted"\n'
        "[features]\ntool_search_always_defer_mcp_tools = false\n"
    )
    return await at.run(
        [program, "exec", "--skip-git-repo-check", *words],
        CODEX_HOME=str(at.home / ".codex"),
        OWN_KEY=key,
        **env,
    )


async def opencode(
    at: Bench, prompt: str, *, base_url: str, key: str, headers: Mapping[str, str] = {}, env: Mapping[str, str] = {}
) -> str:
    """A session of opencode with a provider of its own, on Chat Completions; what it printed."""
    program = needs("opencode")
    directory = at.home / ".config/opencode"
    directory.mkdir(parents=True)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Own",
        "options": {"baseURL": base_url, "apiKey": key, "headers": dict(headers)},
        "models": {"any": {"name": "Any", "tool_call": True}},
    }
    (directory / "opencode.json").write_text(json.dumps({"provider": {"own": provider}}))
    return await at.run(
        [program, "run", "--model", "own/any", prompt],
        OPENCODE_DISABLE_AUTOUPDATE="1",
        OPENCODE_DISABLE_MODELS_FETCH="1",
        OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
        OPENCODE_DISABLE_LSP_DOWNLOAD="1",
        **env,
    )
