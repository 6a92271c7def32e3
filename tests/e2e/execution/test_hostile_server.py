"""An MCP server that does what a server must not do, through a started Holdfast, while another tenant works on."""

import asyncio
import json
import os
import secrets
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.execution.counting import PROGRAM
from tests.support.execution.product import Product, product
from tests.support.sandbox.programs import HERE, PYTHON

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BREAKS = {
    "flood": "prints text where only messages belong",
    "flood-messages": "messages that nobody asked for",
    "endless-line": "a message is longer than 16,777,216 bytes",
    "half": "it ended in the middle of a message",
    "cr": "a carriage return stands inside a message",
    "twins": "a member stands twice in one object",
    "huge": "a message is longer than 16,777,216 bytes",
    "exit": "ended by itself with status 3",
    "memory": "used more than 192 MiB of memory",
}
"""What ends a server in the middle of a call, and how callers, the server's log and the operator's log name it."""
LISTS = {
    "many-tools": "more than 1,000 tools",
    "endless-pages": "over pages without end",
    "twin-tools": "two tools named 'echo'",
}


@dataclass
class Neighbour:
    """Another organization on the same server, which calls a tool of its own without pause."""

    rest: httpx.AsyncClient
    workspace: str
    calls: int = 0
    failed: list[str] = field(default_factory=list[str])

    async def run(self) -> None:
        while True:
            self.calls += 1
            asked = {"tool_name": "calm.add", "arguments": {"left": self.calls, "right": 1}}
            answer = await self.rest.post(f"/api/workspaces/{self.workspace}/invocations", json=asked)
            id = answer.json()["invocation_id"]
            path = f"/api/workspaces/{self.workspace}/invocations/{id}"
            async with asyncio.timeout(60):
                while (found := (await self.rest.get(path, params={"wait_seconds": 20})).json())["ended_at"] is None:
                    pass
            if found["status"] != "succeeded" or found["result"]["structuredContent"] != {"total": self.calls + 1}:
                self.failed.append(json.dumps(found))


@asynccontextmanager
async def neighbour(at: Product, folder: Path) -> AsyncIterator[Neighbour]:
    made = await at.run("organizations", "create", "Other", "--owner", "grace@example.com")
    async with httpx.AsyncClient(base_url=at.url, timeout=60, trust_env=False) as browser:
        link = made["url"].split("link=")[1]
        assert (await browser.post("/sign-in", data={"link": link})).status_code == 303
        browser.headers["X-CSRF-Token"] = (await browser.get("/api/session")).json()["csrf_token"]
        project = (await browser.post("/api/projects", json={"name": "Other"})).json()["id"]
        made = (await browser.post("/api/workspaces", json={"name": "Other", "project_id": project})).json()
        workspace = made["id"]
        calm = {"name": "calm", "command": PYTHON, "args": ["-I", str(folder / PROGRAM.name)]}
        answer = await browser.post(f"/api/workspaces/{workspace}/mcp-servers", json=calm)
        assert answer.status_code == 201, answer.text
        assert (await browser.post(f"/api/workspaces/{workspace}/mcp-servers/calm/probe")).is_success
        other = Neighbour(browser, workspace)
        calling = asyncio.create_task(other.run())
        try:
            yield other
        finally:
            calling.cancel()
            await asyncio.wait({calling})
            assert calling.cancelled(), calling.exception()


@asynccontextmanager
async def site(tmp_path: Path, **env: str) -> AsyncIterator[tuple[Product, Path]]:
    """A server, and the folder with the programs that admins may name over the network."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for program in (PROGRAM, HERE / "hostile_server.py", HERE / "attacker.py"):
        shutil.copy(program, folder)
    paths = f"{folder},{Path(PYTHON).parents[1]}"
    async with product(tmp_path / "data", HOLDFAST_SERVER_PATHS=paths, HOLDFAST_SERVER_MEMORY_MB="192", **env) as at:
        yield at, folder


async def add(at: Product, folder: Path, mode: str, *args: str, **more: Any) -> None:
    """Register the server in one of its modes, under the mode's name."""
    words = ["-I", str(folder / "hostile_server.py"), mode, *args]
    await at.post("/mcp-servers", {"name": mode, "command": PYTHON, "args": words, **more})


async def called(at: Product, mode: str) -> dict[str, Any]:
    """How a call of the server in a mode ended."""
    return await at.ended((await at.invoke(f"{mode}.echo", text=mode))["invocation_id"])


async def broken(at: Product, folder: Path, mode: str, told: str) -> None:
    await add(at, folder, mode)
    await at.probed(mode)
    ended = await called(at, mode)
    assert (ended["status"], ended["error"]["code"]) == ("failed", "mcp_server_failed"), ended
    assert ended["error"]["outcome_unknown"] is True
    assert f"{mode} " in ended["error"]["message"] and told in ended["error"]["message"], (mode, ended)
    assert told in at.log, mode
    assert told in (await at.get(f"/mcp-servers/{mode}/logs"))["logs"], mode


async def refused_list(at: Product, folder: Path, mode: str, told: str) -> None:
    await add(at, folder, mode)
    async with at.rest() as rest:
        answer = await rest.post(f"/api/workspaces/{at.workspace}/mcp-servers/{mode}/probe")
    assert answer.status_code == 502 and told in answer.json()["error"]["message"], answer.text
    assert (await at.get(f"/mcp-servers/{mode}/tools"))["tools"] == []
    assert told in at.log, mode


async def spawning(at: Product, folder: Path) -> None:
    """What it forks into sessions of its own ends with it."""
    mark = str(86_400 + secrets.randbelow(10_000_000))
    await add(at, folder, "spawns", mark)
    await at.probed("spawns")
    assert (await called(at, "spawns"))["status"] == "succeeded"
    assert (left := with_argument(mark)), "it spawned nothing"
    async with at.rest() as rest:
        assert (await rest.delete(f"/api/workspaces/{at.workspace}/mcp-servers/spawns")).status_code == 204
    async with asyncio.timeout(60):
        while left := with_argument(mark):
            await asyncio.sleep(0.05)
    assert left == []


def with_argument(mark: str) -> list[int]:
    """Living processes that were started with an argument."""
    found: list[int] = []
    for each in psutil.process_iter(["cmdline", "status"]):
        if mark in (each.info["cmdline"] or []) and each.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(each.pid)
    return found


async def changing(at: Product, folder: Path) -> None:
    """Tools that change between the list and the call: nothing is called until a person accepts."""
    await add(at, folder, "changing-tools")
    await at.probed("changing-tools")
    ended = await called(at, "changing-tools")
    if ended["status"] == "succeeded":
        # It said the new words only after the call; the next look sees them.
        await at.probed("changing-tools")
        async with at.rest() as rest:
            asked = {"tool_name": "changing-tools.echo", "arguments": {"text": "again"}}
            answer = await rest.post(f"/api/workspaces/{at.workspace}/invocations", json=asked)
        assert answer.status_code in (403, 404, 409), answer.text
    else:
        assert ended["error"]["code"] == "tool_held_back", ended
    [tool] = (await at.get("/mcp-servers/changing-tools/tools"))["tools"]
    assert tool["state"] == "quarantined" and tool["change"], tool


async def asking(at: Product, folder: Path) -> None:
    await add(at, folder, "asks")
    await at.probed("asks")
    ended = await called(at, "asks")
    answers = json.loads(ended["result"]["content"][0]["text"])
    assert {answers[name] for name in ("sampling/createMessage", "roots/list", "elicitation/create")} == {-32601}
    logs = (await at.get("/mcp-servers/asks/logs"))["logs"]
    assert "declined sampling/createMessage" in logs and "declined roots/list" in logs
    assert "sampling/createMessage" in at.log and "roots/list" in at.log


async def mixing(at: Product, folder: Path) -> None:
    """Answers to requests that nobody made reach nobody."""
    await add(at, folder, "other-ids")
    await at.probed("other-ids")
    ended = await called(at, "other-ids")
    assert ended["result"]["content"][0]["text"] == "other-ids", ended
    assert "other-ids answered a request that was never made" in at.log


async def silent(at: Product, folder: Path) -> None:
    """One that never answers is given up: by whoever asked, and the server is told."""
    await add(at, folder, "never")
    await at.probed("never")
    id = (await at.invoke("never.echo", text="x"))["invocation_id"]
    async with asyncio.timeout(60):
        while (await at.get(f"/invocations/{id}"))["status"] != "running":
            await asyncio.sleep(0.05)
    await at.post(f"/invocations/{id}/cancel")
    assert (await at.ended(id))["status"] == "cancelled"
    async with asyncio.timeout(60):
        while "cancelled" not in (await at.get("/mcp-servers/never/logs"))["logs"]:
            await asyncio.sleep(0.05)


async def attacking(at: Product, folder: Path, master_key: str) -> None:
    """It tries the network, /proc, sockets, files and system calls; nothing of it works."""
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        abstract.bind(f"\0holdfast-{os.getpid()}")
        abstract.listen()
        named.bind(str(folder / "socket"))
        named.listen()
        places = {
            "outside_secret_backwards": master_key[::-1],
            "outside_pid": os.getpid(),
            "files": [str(at.data_dir), str(at.data_dir / "holdfast.db"), str(at.data_dir / "master.key")],
            "port": int(at.url.rpartition(":")[2]),
            "abstract": f"holdfast-{os.getpid()}",
            "socket": str(folder / "socket"),
        }
        await add(at, folder, "attacks", str(folder / "attacker.py"), env={"PLACES": json.dumps(places)})
        await at.probed("attacks")
        ended = await called(at, "attacks")
    assert ended["status"] == "succeeded", ended
    tried = json.loads(ended["result"]["content"][0]["text"])
    assert len(tried) > 40
    # The secret that it was told itself is all that it may know of one.
    assert {name: said for name, said in tried.items() if not said.startswith("refused")} == {}


async def test_every_way_to_misbehave_is_contained_and_named_while_another_tenant_works_on(tmp_path: Path) -> None:
    master_key = secrets.token_hex(32)
    async with (
        site(tmp_path, WORKSPACE_SECRETS_MASTER_KEY=master_key) as (at, folder),
        neighbour(at, folder) as other,
        asyncio.TaskGroup() as group,
    ):
        for mode, told in BREAKS.items():
            group.create_task(broken(at, folder, mode, told))
        for mode, told in LISTS.items():
            group.create_task(refused_list(at, folder, mode, told))
        for work in (spawning, changing, asking, mixing, silent):
            group.create_task(work(at, folder))
        group.create_task(attacking(at, folder, master_key))
    assert other.calls > 3 and other.failed == []
    assert master_key not in at.log
