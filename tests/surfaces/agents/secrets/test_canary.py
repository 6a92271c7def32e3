"""A secret of an attached server is searched for wherever its agent, a reader or a thief could look: it is nowhere."""

import asyncio
import gzip
import logging
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.features.interchange.service import InterchangeService
from holdfast.features.secrets.service import Secrets
from holdfast.storage.backup import backup
from holdfast.storage.database import Database
from tests.fakes.llm.script import Script
from tests.support.execution.counting import enrolled
from tests.surfaces.agents.conftest import agency, speaking
from tests.surfaces.agents.test_people import CALL

pytestmark = pytest.mark.slow

CANARY = "canary-7f3a9c1e55d2"
# The agent asks the server for its own environment, keeps all that it can read, and tells it.
THIEF = """
import glob, pathlib
def demo(tool, **arguments):
    call.server = None
    entry = start["servers"]["demo"]
    words = [entry["command"], *entry["args"]]
    call.server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    call.number = 1
    info = dict(name="test", version="1")
    ask("initialize", dict(protocolVersion="2025-06-18", capabilities={}, clientInfo=info))
    send(dict(jsonrpc="2.0", method="notifications/initialized"))
    return ask("tools/call", dict(name=tool, arguments=arguments))
def read(path):
    try:
        return pathlib.Path(path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
told = demo("env", name="TOKEN")
seen = str(dict(os.environ)) + told
for pattern in ("/proc/*/environ", "/proc/*/cmdline", "/run/x1/**/*", "/home/agent/**/*", "/work/**/*"):
    seen += "".join(read(path) for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
open("loot.txt", "w").write(seen)
say(told)
heard()
over(str(len(seen)))
"""


@pytest.mark.contract("XA-6")
@pytest.mark.contract("XA-3")
async def test_a_servers_secret_is_nowhere_but_in_its_sealed_row_and_its_process(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with agency(database, tmp_path / "data", Script([])) as house:
        server = house.server
        await server.services[Secrets].set(server.owner, house.workspace, "CANARY", CANARY)
        await enrolled(server.services, server.owner, house.workspace, policies={"env": "auto"})
        agent = await house.define(command=speaking(CALL, THIEF))
        body = {"name": "demo", "env": {"TOKEN": "${CANARY}"}}
        attached = await house.client.put(f"/api/agents/{agent['id']}/mcp-attachments", json=body)
        assert attached.status_code == 200, attached.text
        session = await house.start(agent)
        await house.until_told(session, "text")
        seen = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
        # From outside: all that the agent's processes hold, and that of the server that was meant to get it.
        agents, servers = processes(f"HOLDFAST_SESSION={session}"), processes(f"TOKEN={CANARY}")
        assert len(agents) >= 2 and servers
        assert await asyncio.to_thread(holding, servers) != []
        assert await asyncio.to_thread(holding, agents) == []
        await house.client.post(f"/api/sessions/{session}/messages", json={"text": "Go on."})
        found = await house.until(session)
        assert found["state"] == "completed", found["error"]
        # The call went through: what came back stands for the value, and is not it.
        (told,) = await house.told(session, "text")
        assert told["data"]["text"] not in ("", "None"), told
        everything = str(await house.told(session)) + str(found) + seen + caplog.text
        audit = (await house.client.get("/api/audit", params={"limit": 200})).text
        artifact = found["result"]["patch_artifact"]
        patch = await house.client.get(f"/api/workspaces/{house.workspace}/artifacts/{artifact}")
        assert "loot.txt" in patch.text
        await backup(database, tmp_path / "backup")
        exported: list[bytes] = []
        await server.services[InterchangeService].export(
            server.owner, house.workspace, lambda name, data: exported.append(name.encode() + data)
        )
        dump = await database.read(
            lambda tx: str([[dict(row) for row in tx.all(f"SELECT * FROM {each}", {})] for each in TABLES])
        )
    assert CANARY not in everything + audit + patch.text + dump
    assert "CANARY" in dump and exported and CANARY.encode() not in b"".join(exported)
    kept = [path for place in (database_files(database), tmp_path) for path in place.rglob("*") if path.is_file()]
    assert len(kept) >= 2 and (tmp_path / "backup") in kept
    assert [str(path) for path in kept if CANARY.encode() in unpacked(path)] == []


TABLES = (
    "secret",
    "audit_event",
    "agent_session",
    "session_event",
    "session_question",
    "artifact_version",
    "mcp_server",
    "agent",
)


def database_files(database: Database) -> Path:
    """Where the store's files are; PostgreSQL's are looked at as its backup."""
    path = getattr(database, "path", None)
    return path.parent if isinstance(path, Path) else Path("/nowhere")


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return data + (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else b"")


def processes(mark: str) -> list[int]:
    """Those whose environment has this, and that are not we."""
    found: list[int] = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if mark.encode() in Path(f"/proc/{name}/environ").read_bytes() and int(name) != os.getpid():
                found.append(int(name))
    return found


def holding(pids: list[int]) -> list[int]:
    """Those of these processes in whose memory the canary is."""
    return [pid for pid in pids if any(CANARY.encode() in piece for piece in memory(pid))]


def memory(pid: int) -> Iterator[bytes]:
    """All that a process holds."""
    with suppress(OSError), open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as opened:
        for line in maps:
            place, rights = line.split()[:2]
            start, end = (int(each, 16) for each in place.split("-"))
            if rights.startswith("r"):
                with suppress(OSError, OverflowError, ValueError):
                    opened.seek(start)
                    yield opened.read(end - start)
