"""Measures what agents' sessions cost: `gate` is a call through the gate over calling the same server directly.

`gate` counts the processor time of this process alone: the client is a process of its own, as an agent is, and so is
the server in its sandbox. A call through the gate is decided, held against its pin, masked, and kept in the audit
trail and in the session's events, both durably.
"""

import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop

from bench.report import Figure, finish, options
from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.engines.mcp_client.stdio import StdioConnection
from holdfast.features.agents.gate.base import GatedSession
from holdfast.features.agents.gate.building import session_gates
from holdfast.features.agents.gate.records import CallRecords, GateCall
from holdfast.features.agents.sessions.telling import SessionTelling
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStarts
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.identity.service import local_principal
from holdfast.features.secrets.masking import SecretMask
from holdfast.storage.database import Tx
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.embedder import WordEmbedder
from tests.support.agents.gated import SessionsInMemory, attached, gated
from tests.support.execution.counting import enrolled
from tests.support.features.audit import MASTER_KEY
from tests.support.services import Services, background, build_services, first_start

ADDED_CPU_MS = 1.0
WARM = 20
CLIENT = """
import json, socket, sys
there = socket.socket(socket.AF_UNIX)
there.connect(sys.argv[1])
lines = there.makefile("rwb")
for line in sys.stdin:
    for number in range(int(line)):
        call = {"name": "add", "arguments": {"left": number, "right": 1}}
        asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
        lines.write(json.dumps(asked).encode() + b"\\n")
        lines.flush()
        assert json.loads(lines.readline())["result"]["structuredContent"] == {"total": number + 1}
    print("done", flush=True)
"""


class _Telling(SessionsInMemory):
    """Events are kept as sessions keep them."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._telling = services[SessionTelling]

    async def emit(self, session: GatedSession, kind: str, data: Any) -> int:
        return await self._telling.emit(session.id, session.workspace_id, kind, data)


def _begin(tx: Tx, session: GatedSession) -> None:
    """A row for the session, so that its events have a place."""
    columns = tx.all("PRAGMA table_info(agent_session)")
    needed = {row["name"]: 0 if row["type"] == "INTEGER" else "" for row in columns if row["notnull"] or row["pk"]}
    values = {**needed, "id": session.id, "workspace_id": session.workspace_id}
    names = ", ".join(values)
    tx.execute(f"INSERT INTO agent_session ({names}) VALUES ({', '.join(':' + name for name in values)})", values)


async def direct_cpu(connection: StdioConnection, calls: int) -> float:
    """Milliseconds of our processor time for a call of the server itself."""
    for number in range(WARM):
        await connection.call("add", {"left": number, "right": 1})
    began = time.process_time()
    for number in range(calls):
        await connection.call("add", {"left": number, "right": 1})
    return (time.process_time() - began) / calls * 1_000


async def gated_cpu(socket: Path, calls: int) -> float:
    """Milliseconds of our processor time for the same call through the gate, made by another process."""
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, str(socket), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert client.stdin is not None and client.stdout is not None

    async def make(number: int) -> None:
        assert client.stdin is not None and client.stdout is not None
        client.stdin.write(f"{number}\n".encode())
        assert await client.stdout.readline() == b"done\n"

    await make(WARM)
    began = time.process_time()
    await make(calls)
    spent = (time.process_time() - began) / calls * 1_000
    client.stdin.close()
    await client.wait()
    return spent


async def keeping_cpu(services: Services, session: GatedSession, telling: SessionsInMemory, calls: int) -> float:
    """Milliseconds of our processor time for keeping a call durably, which is part of what the gate adds."""
    records = CallRecords(services.database, services.audit, lambda: telling)
    nothing = SecretMask(())
    for _ in range(WARM):
        await records.keep(session, GateCall("demo", "add", {"left": 1}), nothing)
    began = time.process_time()
    for _ in range(calls):
        await records.keep(session, GateCall("demo", "add", {"left": 1}), nothing)
    return (time.process_time() - began) / calls * 1_000


async def gate(calls: int) -> list[Figure]:
    """What the gate adds to a call."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hf-bench-")))
        database = SqliteDatabase(directory / "holdfast.db")
        stack.push_async_callback(database.close)
        await migrate(database)
        settings = Settings(data_dir=directory, secrets_master_key=MASTER_KEY)
        services = build_services(settings, database, SystemClock(), WordEmbedder())
        await stack.enter_async_context(background(services))
        start = await first_start(services)
        owner, here = local_principal(start.organization_id), start.workspace_id
        await enrolled(services, owner, here)
        entry = await services[ServerCatalog].get(owner, here, "demo")
        connections = services[ServerConnections]
        stack.push_async_callback(connections.close)
        connection = await connections.open(await services[ServerStarts].of(owner, entry.id))
        assert isinstance(connection, StdioConnection)
        alone = await direct_cpu(connection, calls)
        session = gated(owner, here, directory, await attached(services, owner, here), agent_id="agt_bench")
        await database.write(lambda tx: _begin(tx, session))
        telling = _Telling(services)
        place = directory / "gate"
        async with session_gates(services, lambda: telling).open(session, place):
            through = await gated_cpu(place / "mcp" / "demo.sock", calls)
            keeping = await keeping_cpu(services, session, telling, calls)
    return [
        Figure("CPU of a call, the server directly", alone, "ms"),
        Figure("CPU of a call, through the gate", through, "ms"),
        Figure("of it keeping the call in audit trail and events, durably", keeping, "ms"),
        Figure("added by the gate", through - alone, "ms", ADDED_CPU_MS, "lower"),
    ]


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("part", nargs="?", default="gate", choices=["gate"])
    parser.add_argument("--calls", type=int, default=300, help="no more than a session may make in a burst")
    chosen = parser.parse_args()
    # On the loop that the server runs on.
    finish(uvloop.run(gate(chosen.calls)), as_json=chosen.json)


if __name__ == "__main__":
    main()
