"""A secret of an attached server is searched for wherever its agent, a reader or a thief could look: it is nowhere."""

import logging
import subprocess
from pathlib import Path

import pytest

from holdfast.features.secrets.service import Secrets
from holdfast.storage.sqlite import SqliteDatabase
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
over(str(len(seen)))
"""


@pytest.mark.contract("XA-6")
@pytest.mark.contract("XA-3")
async def test_a_servers_secret_is_nowhere_but_in_its_sealed_row_and_its_process(
    sqlite_database: SqliteDatabase, sqlite_path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with agency(sqlite_database, tmp_path / "data", Script([])) as house:
        server = house.server
        await server.services[Secrets].set(server.owner, house.workspace, "CANARY", CANARY)
        await enrolled(server.services, server.owner, house.workspace, policies={"env": "auto"})
        agent = await house.define(command=speaking(CALL, THIEF))
        body = {"name": "demo", "env": {"TOKEN": "${CANARY}"}}
        attached = await house.client.put(f"/api/agents/{agent['id']}/mcp-attachments", json=body)
        assert attached.status_code == 200, attached.text
        session = await house.start(agent)
        seen = subprocess.run(["ps", "axwwe"], capture_output=True, text=True, check=True).stdout
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
    assert CANARY not in everything + audit + patch.text
    kept = [path for place in (sqlite_path.parent, tmp_path) for path in place.rglob("*") if path.is_file()]
    assert len(kept) > 3
    assert [str(path) for path in kept if CANARY.encode() in path.read_bytes()] == []
