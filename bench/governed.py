"""Measures governed calls through a started Holdfast: what one costs, many at once, and a hop against ContextForge."""

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import httpx2
import psutil
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bench import contextforge
from bench.mcp import bare as remote_server
from bench.report import Figure
from bench.server import Running, holdfast
from tests.support.sandbox.programs import HERE, PYTHON

ADDED_CPU_MS = 3.0
IN_FLIGHT = 500
TIMES_CONTEXTFORGE = 20.0
AT_ONCE = 8
NO_LIMIT = "600000"


@dataclass(frozen=True, slots=True)
class Governed:
    """A started Holdfast with the plain server in its sandbox as `plain`, and a remote one as `peer`."""

    running: Running
    directory: Path
    settings: dict[str, str]

    def run(self, *words: str) -> None:
        """A command on its data."""
        command = [sys.executable, "-m", "holdfast", *words, "--data-dir", str(self.directory), "--json"]
        subprocess.run(command, check=True, capture_output=True, env=self.settings)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """The official SDK's client, with its first key."""
        told = self.running.told
        headers = {"Authorization": f"Bearer {told['api_key']}", "X-Xerotier-Workspace": told["workspace_id"]}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=300) as http,
            Client(streamable_http_client(told["mcp_url"], http_client=http), mode="legacy") as client,
        ):
            yield client

    def cpu(self) -> float:
        """Seconds of processor time that its process has taken."""
        times = psutil.Process(self.running.pid).cpu_times()
        return float(times.user + times.system)


@contextlib.contextmanager
def governed(remote: int) -> Iterator[Governed]:
    """Holdfast as its command starts it, with both servers registered and probed; tools that may be called unasked."""
    place = f"127.0.0.1:{remote}"
    settings = os.environ | {
        "HOLDFAST_FETCH_ALLOW": place,
        "HOLDFAST_REQUESTS_PER_MINUTE": NO_LIMIT,
        "HOLDFAST_MCP_CALLS_PER_MINUTE": NO_LIMIT,
    }
    with tempfile.TemporaryDirectory() as directory, holdfast(Path(directory), settings) as running:
        made = Governed(running, Path(directory), settings)
        script = str(HERE / "hostile_server.py")
        made.run("catalog", "add", "plain", "--command", PYTHON, "--arg", "-I", "--arg", script, "--arg", "plain")
        made.run("catalog", "add", "peer", "--url", f"http://{place}/mcp")
        with httpx.Client(
            base_url=f"{running.told['url']}/api/workspaces/{running.told['workspace_id']}/mcp-servers",
            headers={"Authorization": f"Bearer {running.told['api_key']}"},
            timeout=60,
            trust_env=False,
        ) as rest:
            for name in ("plain", "peer"):
                rest.post(f"/{name}/probe").raise_for_status()
            # Equal calls of what changes nothing run anew, as the same call of a peer does.
            rest.put("/peer/tools/trivial", json={"policy": "auto", "idempotent": True}).raise_for_status()
        yield made


async def _blocking(client: Client, number: int) -> None:
    given = {"tool_name": "plain.echo", "arguments": {"text": str(number)}}
    answer = await client.call_tool("xerotier.exec.invoke_blocking", given)
    found = answer.structured_content or {}
    if found.get("status") != "succeeded" or found["result"]["content"][0]["text"] != str(number):
        raise RuntimeError(f"a call did not succeed: {answer}")


async def calls(at: Governed, number: int, bare_cpu_ms: float) -> list[Figure]:
    """What a warm call costs, one after the other; then many at once."""
    async with at.client() as client:
        for index in range(20):
            await _blocking(client, index)
        began, clock = at.cpu(), time.perf_counter()
        for index in range(number):
            await _blocking(client, 1_000 + index)
        cpu, wall = (at.cpu() - began) / number * 1_000, (time.perf_counter() - clock) / number * 1_000
        clock = time.perf_counter()
        await asyncio.gather(*(_blocking(client, 1_000_000 + index) for index in range(IN_FLIGHT)))
        seconds = time.perf_counter() - clock
    return [
        Figure("CPU of a warm invoke_blocking, Holdfast's process", cpu, "ms"),
        Figure("added to the official SDK's own", cpu - bare_cpu_ms, "ms", ADDED_CPU_MS, "lower"),
        Figure("a warm invoke_blocking from call to answer", wall, "ms"),
        Figure(f"invoke_blocking, {IN_FLIGHT} in flight, all answered", IN_FLIGHT / seconds, "/s"),
    ]


def tree_cpu(pid: int) -> float:
    """Seconds of processor time that a process and all below it have taken."""
    first = psutil.Process(pid)
    times = [each.cpu_times() for each in (first, *first.children(recursive=True))]
    return sum(float(each.user + each.system) for each in times)


async def _rate(url: str, headers: dict[str, str], tool: str, seconds: float) -> float:
    """Calls a second of a trivial tool by several callers, each with arguments of its own, over plain HTTP."""
    numbers, done = itertools.count(), 0
    accepted = {**headers, "Accept": "application/json, text/event-stream"}

    async def caller() -> None:
        nonlocal done
        async with httpx.AsyncClient(headers=accepted, timeout=120, trust_env=False) as http:
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
            opened = await http.post(url, json=_message("initialize", hello, 0))
            if session := opened.headers.get("mcp-session-id"):
                http.headers["mcp-session-id"] = session
            await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
            while time.perf_counter() < until:
                number = next(numbers)
                params = {"name": tool, "arguments": {"expression": str(number)}}
                answer = await http.post(url, json=_message("tools/call", params, number + 1))
                if '"isError":true' in answer.text.replace(" ", "") or '"result"' not in answer.text:
                    raise RuntimeError(f"{tool}: {answer.text[:500]}")
                done += 1

    began = time.perf_counter()
    until = began + seconds
    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    return done / (time.perf_counter() - began)


def _message(method: str, params: dict[str, Any], id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def against_contextforge(at: Governed, remote: int, environment: Path, seconds: float) -> list[Figure]:
    """The same call to the same remote server, through Holdfast and through ContextForge."""
    told = at.running.told
    headers = {"Authorization": f"Bearer {told['api_key']}", "X-Xerotier-Workspace": told["workspace_id"]}
    await _rate(told["mcp_url"], headers, "peer.trivial", 2)
    began = tree_cpu(at.running.pid)
    ours = await _rate(told["mcp_url"], headers, "peer.trivial", seconds)
    our_cpu = (tree_cpu(at.running.pid) - began) / (ours * seconds) * 1_000
    with (
        tempfile.TemporaryDirectory() as directory,
        contextforge.gateway(environment, Path(directory), remote) as (port, token, pid),
    ):
        theirs_at = (f"http://127.0.0.1:{port}/mcp/", {"Authorization": f"Bearer {token}"}, contextforge.TOOL)
        await _rate(*theirs_at, 3)
        began = tree_cpu(pid)
        theirs = await _rate(*theirs_at, seconds)
        their_cpu = (tree_cpu(pid) - began) / (theirs * seconds) * 1_000
    return [
        Figure(f"the remote hop, {AT_ONCE} callers, Holdfast", ours, "/s"),
        Figure(f"the remote hop, {AT_ONCE} callers, ContextForge", theirs, "/s"),
        Figure("Holdfast ÷ ContextForge", ours / theirs, "×", TIMES_CONTEXTFORGE),
        # What a busy machine does not change: a call's processor time in all of a gateway's processes.
        Figure("CPU of a call, Holdfast", our_cpu, "ms"),
        Figure("CPU of a call, ContextForge", their_cpu, "ms"),
        Figure("CPU of a call, ContextForge ÷ Holdfast", their_cpu / our_cpu, "×"),
    ]


def measured(number: int, bare_cpu_ms: float, environment: Path | None, seconds: float) -> list[Figure]:
    """All of it; the comparison where ContextForge is installed."""
    with remote_server() as remote, governed(remote.port) as at:
        figures = asyncio.run(calls(at, number, bare_cpu_ms))
        if environment is not None and contextforge.installed(environment):
            figures += asyncio.run(against_contextforge(at, remote.port, environment, seconds))
        return figures
