"""The gate from inside the real sandbox, with real servers that hold secrets: tools work, and no secret comes out."""

import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from holdfast.engines.runtime.base import Mounted, RunLimits, RunSpec
from holdfast.engines.runtime.process import ProcessRuntime
from holdfast.features.agents.gate import socat
from holdfast.features.agents.gate.base import PROGRAMS, SOCKETS, OpenGate
from holdfast.features.agents.gate.gates import stand_in
from holdfast.features.audit.model import AuditFilter
from holdfast.features.catalog.servers.connections import ServerConnections
from holdfast.features.execution.model import ExecutionSetting
from holdfast.features.execution.settings import ExecutionSettings
from holdfast.storage.sqlite import SqliteDatabase
from tests.features.agents.conftest import GateHouse, gate_house
from tests.support.agents.clients import RawClient
from tests.support.clock import MovableClock
from tests.support.execution.counting import enrolled

CANARY = 'canary-"5f3a91"-\\value'
PROGRAM = """
import json, os, subprocess, sys
def ask(name, calls):
    pipe = subprocess.Popen(["socat", "-", f"UNIX-CONNECT:/run/x1/mcp/{name}.sock"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
    found = []
    for number, (method, params) in enumerate(calls, 1):
        line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        pipe.stdin.write(json.dumps(line).encode() + b"\\n")
        pipe.stdin.flush()
        found.append(json.loads(pipe.stdout.readline()))
    pipe.stdin.close()
    pipe.wait()
    return found
call = lambda tool, **given: ("tools/call", {"name": tool, "arguments": given})
hello = ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t"}})
print(json.dumps({
    "which": subprocess.run(["which", "socat"], capture_output=True, text=True).stdout.strip(),
    "sockets": sorted(os.listdir("/run/x1/mcp")),
    "demo": ask("demo", [hello, ("tools/list", {}), call("add", left=2, right=3), call("env", name="API_TOKEN")]),
    "x1": ask("x1agent", [hello, call("emit_status", status="writing"), call("share", path="note.md")]),
    "environ": dict(os.environ),
}))
"""


@pytest.fixture
async def real(sqlite_database: SqliteDatabase, clock: MovableClock, directory: Path) -> AsyncIterator[GateHouse]:
    """With the counting server as a process in a sandbox of its own."""
    async with AsyncExitStack() as stack:
        made = await gate_house(stack, sqlite_database, clock, directory)
        await enrolled(made.services, made.owner, made.workspace)
        yield made
        await made.services[ServerConnections].close()


async def inside(house: GateHouse, opened: OpenGate, *mounts: Mounted) -> dict[str, object]:
    """What a program in the sandbox of an agent sees and gets."""
    runtime = ProcessRuntime()
    path = f"{PROGRAMS}:/usr/local/bin:/usr/bin:/bin" if mounts else "/usr/local/bin:/usr/bin:/bin"
    spec = RunSpec(
        name="agent",
        command=("/usr/bin/python3", "-c", PROGRAM),
        env={"PATH": path},
        mounts=(Mounted(house.worktree, "/work", writable=True), *opened.mounts, *mounts),
        limits=RunLimits(seconds=120),
    )
    running = await runtime.start(spec)
    running.stdin.close()
    said = await running.stdout.read()
    ending = await running.wait()
    assert ending.code == 0, running.stderr_tail()
    return dict(json.loads(said))


@pytest.mark.slow
@pytest.mark.contract("XA-1")
@pytest.mark.parametrize("with_shim", [False, True], ids=["socat", "our own"])
async def test_a_program_in_the_sandbox_reaches_its_servers_by_their_sockets_alone(
    real: GateHouse, with_shim: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await real.services.secrets.set(real.owner, real.workspace, "TOKEN", CANARY)
    await real.services[ExecutionSettings].set(real.person, real.workspace, ExecutionSetting(log_arguments=True))
    session = real.session(await real.attached(API_TOKEN="${TOKEN}"))
    (real.worktree / "note.md").write_text("# Note\n")
    with caplog.at_level(logging.DEBUG):
        async with real.open(session) as opened:
            assert opened.mounts[0].target == SOCKETS
            mounts = stand_in(real.place(session) / "bin") if with_shim else ()
            seen = await inside(real, opened, *mounts)
    assert seen["which"] == (f"{PROGRAMS}/socat" if with_shim else "/usr/bin/socat")
    assert seen["sockets"] == ["demo.sock", "x1agent.sock"]
    demo, x1 = seen["demo"], seen["x1"]
    assert isinstance(demo, list) and isinstance(x1, list)
    assert demo[2]["result"]["structuredContent"] == {"total": 5}
    # The server has its secret, and what it says of it is masked on the way.
    assert demo[3]["result"]["content"] == [{"type": "text", "text": "[secret TOKEN]"}]
    assert x1[1]["result"]["structuredContent"] == {"ok": True}
    assert x1[2]["result"]["structuredContent"]["version"] == 1
    audit = await real.services.audit.list(real.owner, AuditFilter())
    assert len(audit.items) > 5
    everything = [
        *(str(event.detail) for event in audit.items),
        json.dumps(real.sessions.events, default=str),
        json.dumps(seen),
        caplog.text,
    ]
    assert not [place for place in everything if CANARY in place or "5f3a91" in place]


@pytest.mark.slow
async def test_two_sessions_have_servers_with_their_own_secrets(real: GateHouse) -> None:
    for name, value in (("ONE", "value-of-the-first"), ("TWO", "value-of-the-second")):
        await real.services.secrets.set(real.owner, real.workspace, name, value)
    one = real.session(await real.attached(API_TOKEN="${ONE}"))
    two = real.session(await real.attached(API_TOKEN="${TWO}"))
    async with real.open(one), real.open(two):
        said = []
        for session in (one, two):
            client = await RawClient.connect(real.socket(session, "demo"))
            said.append((await client.call("env", name="API_TOKEN"))["content"][0]["text"])
            await client.close()
    assert said == ["[secret ONE]", "[secret TWO]"]


def test_our_own_socat_says_what_it_does_not_understand() -> None:
    program = str(Path(socat.__file__))
    for arguments in (["-"], ["TCP:1.2.3.4:5", "-"], ["-", "UNIX-CONNECT:/nowhere/x.sock"]):
        ended = subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True, check=False)
        assert ended.returncode == 1 and ended.stderr.startswith("socat: ")
