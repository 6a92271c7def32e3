"""Real MCP servers, in Node and Python, unchanged, in the sandbox: listed and called."""

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.engines.mcp_client.base import CallRefused, CallResult
from holdfast.engines.mcp_client.stdio import StdioConnection, open_stdio
from holdfast.engines.runtime.base import Mounted, RunLimits, RunSpec
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import interpreter

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
NODE = ROOT / "tests" / "node" / "node_modules"
PYTHON = ROOT / ".cache" / "servers"


@pytest.fixture
async def runtime() -> AsyncIterator[ProcessRuntime]:
    runtime = ProcessRuntime()
    yield runtime
    await runtime.close()


def node(name: str, *args: str, mounts: tuple[Mounted, ...] = (), env: dict[str, str] = {}) -> RunSpec:
    script = f"/opt/node_modules/@modelcontextprotocol/server-{name}/dist/index.js"
    if not (NODE / "@modelcontextprotocol" / f"server-{name}").exists():
        pytest.skip("the servers are not installed; run scripts/setup node")
    found = (Mounted(NODE, "/opt/node_modules"), *mounts)
    return RunSpec(name, ("node", script, *args), mounts=found, env=env, limits=RunLimits(memory_bytes=512 << 20))


def python(name: str, *args: str, mounts: tuple[Mounted, ...] = ()) -> RunSpec:
    if not (PYTHON / "bin" / name).exists():
        pytest.skip("the servers are not installed; run scripts/setup servers")
    found = (*interpreter(), Mounted(PYTHON, str(PYTHON)), *mounts)
    return RunSpec(name, (str(PYTHON / "bin" / name), *args), mounts=found, limits=RunLimits(memory_bytes=512 << 20))


def text(result: CallResult) -> str:
    assert not result.is_error, result
    return str(result.content[0]["text"])


async def opened(runtime: ProcessRuntime, spec: RunSpec) -> tuple[StdioConnection, list[str]]:
    connection = await open_stdio(runtime, spec)
    return connection, [tool.name for tool in (await connection.describe()).tools]


async def test_everything(runtime: ProcessRuntime) -> None:
    connection, tools = await opened(runtime, node("everything", env={"TOKEN": "given"}))
    assert {"echo", "get-sum", "get-env", "trigger-long-running-operation"} <= set(tools)
    assert text(await connection.call("echo", {"message": "hi"})) == "Echo: hi"
    assert json.loads(text(await connection.call("get-env", {})))["TOKEN"] == "given"
    seen: list[tuple[float, float | None]] = []

    async def tell(done: float, total: float | None, message: str) -> None:
        seen.append((done, total))

    await connection.call("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, progress=tell)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    structured = await connection.call("get-structured-content", {"location": "New York"})
    assert structured.structured and "temperature" in structured.structured
    assert (await connection.call("get-sum", {"a": "x"})).is_error
    await connection.close()


async def test_filesystem(runtime: ProcessRuntime, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")
    mount = Mounted(tmp_path, "/data", writable=True)
    connection, tools = await opened(runtime, node("filesystem", "/data", mounts=(mount,)))
    assert "read_text_file" in tools
    assert text(await connection.call("read_text_file", {"path": "/data/note.txt"})) == "hello"
    await connection.call("write_file", {"path": "/data/new.txt", "content": "written"})
    assert (tmp_path / "new.txt").read_text() == "written"
    assert (await connection.call("read_text_file", {"path": "/etc/passwd"})).is_error
    await connection.close()


async def test_memory(runtime: ProcessRuntime) -> None:
    connection, tools = await opened(runtime, node("memory", env={"MEMORY_FILE_PATH": "/work/memory.json"}))
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
    await connection.call("create_entities", {"entities": [entity]})
    assert "Ada" in text(await connection.call("read_graph", {})) and "search_nodes" in tools
    await connection.close()


async def test_sequential_thinking(runtime: ProcessRuntime) -> None:
    connection, tools = await opened(runtime, node("sequential-thinking"))
    assert tools == ["sequentialthinking"]
    thought = {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    assert json.loads(text(await connection.call("sequentialthinking", thought)))["thoughtNumber"] == 1
    await connection.close()


async def test_git(runtime: ProcessRuntime, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "file").write_text("x")
    connection, tools = await opened(
        runtime, python("mcp-server-git", "--repository", "/repo", mounts=(Mounted(tmp_path, "/repo", writable=True),))
    )
    assert "git_status" in tools
    assert "file" in text(await connection.call("git_status", {"repo_path": "/repo"}))
    await connection.close()


async def test_time(runtime: ProcessRuntime) -> None:
    connection, tools = await opened(runtime, python("mcp-server-time", "--local-timezone=UTC"))
    assert tools == ["get_current_time", "convert_time"]
    assert "UTC" in text(await connection.call("get_current_time", {"timezone": "UTC"}))
    try:
        assert (await connection.call("no_such_tool", {})).is_error
    except CallRefused as refused:
        assert refused.rpc_code < 0
    await connection.close()
