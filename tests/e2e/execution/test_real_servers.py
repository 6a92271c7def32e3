"""Real MCP servers through a started Holdfast: registered from a snippet, pinned, and called in both eras."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from tests.engines.runtime.test_images import with_libraries
from tests.support.execution.product import Product, product
from tests.support.sandbox.images import layer, write_layout
from tests.surfaces.mcp.harness import ERAS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
NODE = ROOT / "tests" / "node" / "node_modules" / "@modelcontextprotocol"
PYTHON = ROOT / ".cache" / "servers" / "bin"
ENTITY = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
THOUGHT = {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
# Answers in the shell's own words, so that an image needs nothing but a shell.
IN_AN_IMAGE = r"""
answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{$1}}"; }
info='"capabilities":{"tools":{}},"serverInfo":{"name":"boxed","version":"1"}'
schema='"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}'
while read -r line; do
  id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer "\"protocolVersion\":\"2025-11-25\",$info" ;;
    *'"tools/list"'*) answer "\"tools\":[{\"name\":\"where\",\"description\":\"Where it lives\",$schema}]" ;;
    *'"tools/call"'*) answer "\"content\":[{\"type\":\"text\",\"text\":\"$(echo /*) $GREETING\"}]" ;;
  esac
done
"""


@pytest.fixture(autouse=True)
def needs_servers() -> None:
    for path, how in ((NODE / "server-everything", "node"), (PYTHON / "mcp-server-git", "servers")):
        if not path.exists():
            pytest.skip(f"the servers are not installed; run scripts/setup {how}")


def snippet(tmp_path: Path) -> Path:
    """What people paste, as the servers' own pages show it."""
    repository, files = tmp_path / "repository", tmp_path / "files"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    (repository / "file").write_text("x")
    files.mkdir()
    (files / "note.txt").write_text("hello")

    def node(name: str, *args: str) -> dict[str, Any]:
        return {"command": "node", "args": [str(NODE / f"server-{name}" / "dist" / "index.js"), *args]}

    servers: dict[str, Any] = {
        "everything": {**node("everything"), "env": {"GREETING": "hello"}},
        "filesystem": node("filesystem", str(files)),
        "memory": {**node("memory"), "env": {"MEMORY_FILE_PATH": "/work/memory.jsonl"}},
        "thinking": node("sequential-thinking"),
        "git": {"command": str(PYTHON / "mcp-server-git"), "args": ["--repository", str(repository)]},
        "time": {"command": str(PYTHON / "mcp-server-time"), "args": ["--local-timezone=UTC"]},
    }
    path = tmp_path / "claude_desktop_config.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


async def call(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    """What a tool says, called through exec; called by its own name it has to answer as well."""
    asked = {"tool_name": tool, "arguments": arguments}
    blocking = await client.call_tool("xerotier.exec.invoke_blocking", asked)
    assert blocking.structured_content is not None, blocking
    assert blocking.structured_content["status"] == "succeeded", blocking.structured_content
    direct = await client.call_tool(tool, arguments)
    said = "\n".join(str(block.get("text", "")) for block in blocking.structured_content["result"]["content"])
    assert not direct.is_error and direct.content[0].type == "text", direct
    assert direct.content[0].text[:10] == said[:10]
    return said


async def image(at: Product, tmp_path: Path) -> None:
    """An OCI layout as a builder leaves it, registered and unpacked."""
    files = with_libraries("/bin/sh", "/bin/sed")
    files["server.sh"] = IN_AN_IMAGE.encode()
    files["mcp-manifest.json"] = json.dumps({"env": {"GREETING": {"kind": "value"}}, "tool_scopes": {}}).encode()
    config = {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/sh", "/server.sh"]}
    write_layout(tmp_path / "layout", [layer(files)], config)
    await at.run("catalog", "add", "boxed", "--image", f"oci:{tmp_path}/layout", "--env", "GREETING=hello")
    entry = await at.installed("boxed")
    assert list(entry["manifest"]["env"]) == ["GREETING"]
    assert list(await at.probed("boxed")) == ["where"]


async def test_real_servers_are_imported_pinned_and_called_in_both_eras(tmp_path: Path) -> None:
    async with product(tmp_path / "data") as at:
        await at.run("catalog", "import", str(snippet(tmp_path)))
        tools = {
            name: await at.probed(name) for name in ("everything", "filesystem", "memory", "thinking", "git", "time")
        }
        assert all(tool["state"] == "active" for each in tools.values() for tool in each.values()), tools
        # What a server says of itself may be taken at its word for reading, never for changing anything.
        assert tools["filesystem"]["read_text_file"]["policy"] == "auto"
        assert tools["filesystem"]["write_file"]["policy"] == "approve"
        for server, tool in (
            ("everything", "echo"),
            ("everything", "get-env"),
            ("memory", "create_entities"),
            ("memory", "read_graph"),
            ("thinking", "sequentialthinking"),
            ("git", "git_status"),
            ("time", "get_current_time"),
        ):
            await at.policy(server, tool, policy="auto")
        if shutil.which("umoci") is not None:
            await image(at, tmp_path)
        key = (await at.run("keys", "create", "--name", "agent", "--tier", "exec", "--scopes", "inference"))["key"]
        for era in ERAS:
            async with at.client(era, key) as client:
                listed = {tool.name for tool in (await client.list_tools()).tools}
                # More than the list's budget holds is found by searching.
                assert {"everything.echo", "find_tool", "call_tool"} <= listed, listed
                assert await call(client, "everything.echo", {"message": era}) == f"Echo: {era}"
                seen = json.loads(await call(client, "everything.get-env", {}))
                assert seen["GREETING"] == "hello" and not [name for name in seen if name.startswith("HOLDFAST")]
                note = str(tmp_path / "files" / "note.txt")
                assert await call(client, "filesystem.read_text_file", {"path": note}) == "hello"
                await call(client, "memory.create_entities", {"entities": [ENTITY]})
                assert "Ada" in await call(client, "memory.read_graph", {})
                assert json.loads(await call(client, "thinking.sequentialthinking", THOUGHT))["thoughtNumber"] == 1
                status = await call(client, "git.git_status", {"repo_path": str(tmp_path / "repository")})
                assert "file" in status
                assert "UTC" in await call(client, "time.get_current_time", {"timezone": "UTC"})
                outside = await client.call_tool(
                    "filesystem.read_text_file", {"path": str(at.data_dir / "holdfast.db")}
                )
                assert outside.is_error
                if shutil.which("umoci") is not None:
                    where = await call(client, "boxed.where", {})
                    assert "/server.sh" in where and "/root" not in where and where.endswith("hello")
