"""Measures MCP calls (key, limit, workspace, validation) against a bare low-level SDK server, at 32 connections."""

import asyncio
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench import contextforge
from bench.load import Load
from bench.report import Figure, finish, options
from bench.server import free_port

CONNECTIONS = 32
TARGET = 0.8
MODERN = "2026-07-28"
MEMORIES = 10_000
MAX_GAIN_MB = 60.0
TIMES_CONTEXTFORGE = 4.0
WARM_SECONDS = 3.0

BARE = """
import sys
import uvicorn
import mcp_types as types
from mcp.server.lowlevel.server import Server

SCHEMA = {"type": "object", "properties": {"expression": {"type": "string"}}}

async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="trivial", input_schema=SCHEMA)])

async def call_tool(ctx, params):
    text = types.TextContent(type="text", text="4")
    return types.CallToolResult(content=[text], structured_content={"result": 4})

server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=lambda name: SCHEMA)
app = server.streamable_http_app(streamable_http_path="/mcp")
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False,
            log_level="error")
"""


OURS = """
import asyncio
import json
import random
import socket
import sys
from pathlib import Path

import uvicorn

from tests.support.services import background, first_start
from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.server.routes import build_gate
from tests.fakes.embedder import WordEmbedder
from holdfast.features.identity.service import local_principal
from holdfast.features.memory.model import NewMemory
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.services import build_services

async def main(port, directory, memories):
    database = SqliteDatabase(Path(directory) / "holdfast.db")
    await migrate(database)
    settings = Settings(data_dir=Path(directory), mcp_calls_per_minute=10**9, requests_per_minute=10**9)
    services = build_services(settings, database, SystemClock(), WordEmbedder())
    async with background(services):
        start = await first_start(services)
        owner, chance = local_principal(start.organization_id), random.Random(1)
        words = [f"{a}{b}" for a in ("barn", "deploy", "river", "stone", "cloud") for b in range(400)]
        for begin in range(0, memories, 64):
            saving = [NewMemory(f"On day {n} we learned {' '.join(chance.sample(words, 12))}.")
                      for n in range(begin, min(begin + 64, memories))]
            await asyncio.gather(*(services.memory.save(owner, start.workspace_id, new) for new in saving))
        gate = build_gate(settings, services, f"http://127.0.0.1:{port}")
        for ready in gate.on_ready:
            await ready()
        config = uvicorn.Config(gate, host="127.0.0.1", port=port, log_config=None, access_log=False, lifespan="off",
                                http="httptools")
        print(json.dumps({"api_key": start.api_key, "workspace_id": start.workspace_id,
                          "project_id": start.project_id}), flush=True)
        await uvicorn.Server(config).serve()

import uvloop
uvloop.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
"""
"""The product with its own services behind its own gate. Word vectors stand in for the transformer, whose speed
bench/search.py tells: an embedding takes longer than a call, and nobody asks the same thing 32 times at once."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where calls go, and with what headers."""

    port: int
    path: str
    headers: dict[str, str]
    pid: int = 0

    def request(self, era: str, method: str, params: dict[str, Any], session: str | None) -> bytes:
        """One POST, the same every time."""
        headers = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **self.headers,
        }
        if era == MODERN:
            name = params.get("name")
            headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method} | ({"Mcp-Name": name} if name else {})
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {**params, "_meta": meta}
        else:
            headers |= {"MCP-Protocol-Version": "2025-11-25"} | ({"Mcp-Session-Id": session} if session else {})
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers["Content-Length"] = str(len(body))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self.path} HTTP/1.1\r\n{head}\r\n".encode() + body

    def initialize(self) -> str:
        """A session of the handshake era."""
        info = {"name": "bench", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **self.headers,
        }
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.path}", body, headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return str(answer.headers["mcp-session-id"])


class _Connection(asyncio.Protocol):
    """Sends one request again and again; answers come whole or in chunks."""

    def __init__(self, request: bytes, until: float, took: list[float]) -> None:
        self._request = request
        self._until = until
        self._took = took
        self._buffer = b""
        self._began = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0 or not self._complete(head_end):
            return
        if not self._buffer.startswith(b"HTTP/1.1 200") or b'"error":{"code"' in self._buffer:
            self.done.set_exception(RuntimeError(self._buffer[:600].decode(errors="replace")))
            self._transport.close()
            return
        self._buffer = b""
        now = time.perf_counter()
        self._took.append(now - self._began)
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def _complete(self, head_end: int) -> bool:
        head = self._buffer[:head_end].lower()
        at = head.find(b"content-length:")
        if at < 0:
            return self._buffer.endswith(b"0\r\n\r\n")
        line_end = head.find(b"\r", at)
        length = int(head[at + 15 : line_end if line_end >= 0 else len(head)])
        return len(self._buffer) >= head_end + 4 + length

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def mcp_load(
    target: Target,
    era: str,
    method: str,
    params: dict[str, Any],
    seconds: float,
    connections: int = CONNECTIONS,
    *,
    sessions: bool = True,
) -> Load:
    """Every connection is a client with a session of its own, as editors are, where the server has such."""
    took: list[float] = []
    loop = asyncio.get_running_loop()
    handshake = sessions and era != MODERN
    opened_sessions = [await asyncio.to_thread(target.initialize) if handshake else None for _ in range(connections)]
    began = time.perf_counter()
    opened = []
    for session in opened_sessions:
        request = target.request(era, method, params, session)
        made = await loop.create_connection(
            lambda request=request: _Connection(request, began + seconds, took),  # type: ignore[misc]
            "127.0.0.1",
            target.port,
        )
        opened.append(made[1])
    await asyncio.gather(*(connection.done for connection in opened))
    elapsed = time.perf_counter() - began
    took.sort()
    return Load(len(took) / elapsed, took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000)


@contextlib.contextmanager
def bare() -> Iterator[Target]:
    """The SDK's own low-level server with one trivial tool, and nothing before it."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    try:
        _wait_for(port, process)
        yield Target(port, "/mcp", {})
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def product(directory: str, memories: int) -> Iterator[Target]:
    """Holdfast with a workspace full of memories."""
    port = free_port()
    command = [sys.executable, "-c", OURS, str(port), directory, str(memories)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        _wait_for(port, process)
        headers = {"Authorization": f"Bearer {told['api_key']}", "X-Xerotier-Workspace": told["workspace_id"]}
        yield Target(port, f"/{told['project_id']}/v1/mcp", headers, process.pid)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def _wait_for(port: int, process: "subprocess.Popen[Any]") -> None:
    began = time.perf_counter()
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.perf_counter() - began > 30:
            raise RuntimeError("a server did not start")
        time.sleep(0.05)


def measured(ours: Target, theirs: Target, seconds: float, rounds: int) -> list[Figure]:
    """Calls and lists in both eras, in turns, so that both servers see the same machine."""
    figures = []
    for era in ("2025-11-25", MODERN):
        trivial = ("tools/call", {"name": "trivial", "arguments": {"expression": "2 + 2"}})
        found: dict[str, list[Load]] = {"bare": []}
        asked = {
            "calc.evaluate": ("tools/call", _call("xerotier.calc.evaluate", {"expression": "2 + 2"})),
            "memory.recall": (
                "tools/call",
                _call("xerotier.memory.recall", {"query": "what did we learn about deploy17 and river3"}),
            ),
            "tools/list": ("tools/list", {}),
        }
        for _ in range(rounds):
            found["bare"].append(asyncio.run(mcp_load(theirs, era, *trivial, seconds)))
            for name, what in asked.items():
                found.setdefault(name, []).append(asyncio.run(mcp_load(ours, era, *what, seconds)))
        speed = {name: statistics.median(load.requests_per_second for load in all) for name, all in found.items()}
        figures.append(Figure(f"{era} bare SDK server, trivial call", speed["bare"], "req/s"))
        for name in asked:
            middle = statistics.median(load.p50_ms for load in found[name])
            figures.append(Figure(f"{era} {name}", speed[name], "req/s"))
            figures.append(Figure(f"{era} {name}, p50", middle, "ms"))
            if name != "tools/list":
                figures.append(Figure(f"{era} {name} ÷ bare", speed[name] / speed["bare"], "×", TARGET))
        ratio = speed["tools/list"] / speed["calc.evaluate"]
        figures.append(Figure(f"{era} tools/list ÷ calc.evaluate", ratio, "×", 0.8))
    return figures


def against_contextforge(ours: Target, upstream: Target, environment: Path, seconds: float) -> list[Figure]:
    """The same trivial call through ContextForge to the bare server, and our calc.evaluate, in the handshake era."""
    era, figures = "2025-11-25", []
    with (
        tempfile.TemporaryDirectory() as directory,
        contextforge.gateway(environment, Path(directory), upstream.port) as (port, token, _),
    ):
        theirs = Target(port, "/mcp/", {"Authorization": f"Bearer {token}"})
        trivial = _call(contextforge.TOOL, {"expression": "2 + 2"})
        evaluate = _call("xerotier.calc.evaluate", {"expression": "2 + 2"})
        # Both were asked before it counts: its first calls take longest.
        asyncio.run(mcp_load(theirs, era, "tools/call", trivial, WARM_SECONDS, 8, sessions=False))
        asyncio.run(mcp_load(ours, era, "tools/call", evaluate, WARM_SECONDS, 8))
        for connections in (8, CONNECTIONS):
            slow = asyncio.run(mcp_load(theirs, era, "tools/call", trivial, seconds, connections, sessions=False))
            quick = asyncio.run(mcp_load(ours, era, "tools/call", evaluate, seconds, connections))
            label = f"{connections} connections"
            figures += [
                Figure(f"ContextForge, trivial call, {label}", slow.requests_per_second, "req/s"),
                Figure(f"ContextForge, trivial call, {label}, p50", slow.p50_ms, "ms"),
                Figure(f"calc.evaluate, {label}", quick.requests_per_second, "req/s"),
                Figure(f"calc.evaluate, {label}, p50", quick.p50_ms, "ms"),
                Figure(
                    f"calc.evaluate ÷ ContextForge, {label}",
                    quick.requests_per_second / slow.requests_per_second,
                    "×",
                    TIMES_CONTEXTFORGE,
                ),
            ]
    return figures


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each round takes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memories", type=int, default=MEMORIES, help="how many memories recall looks through")
    parser.add_argument("--contextforge", type=Path, metavar="VENV", help="measure only against the ContextForge there")
    chosen = parser.parse_args()
    if chosen.contextforge is not None and not contextforge.installed(chosen.contextforge):
        parser.error(f"ContextForge is not installed in {chosen.contextforge}")
    with (
        tempfile.TemporaryDirectory() as directory,
        product(directory, chosen.memories) as ours,
        bare() as theirs,
    ):
        asyncio.run(mcp_load(ours, MODERN, "tools/list", {}, 0.5))
        if chosen.contextforge is not None:
            environment = chosen.contextforge.absolute()
            finish(against_contextforge(ours, theirs, environment, chosen.seconds), as_json=chosen.json)
        before = psutil.Process(ours.pid).memory_info().rss
        figures = measured(ours, theirs, chosen.seconds, chosen.rounds)
        grown = (psutil.Process(ours.pid).memory_info().rss - before) / 1_000_000
        figures.append(Figure("memory gained over the run", grown, "MB", MAX_GAIN_MB, "lower"))
    finish(figures, as_json=chosen.json)


if __name__ == "__main__":
    main()
