"""Measures the HTTP front: health while another client sends 100 MB of header, cost per byte, what checking costs."""

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.load import load
from bench.report import Figure, finish, options
from bench.server import Running, free_port, holdfast
from tests.support.attacks.fuzzing import throw

BEGINNING = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "
PIECE = b"a" * 65536
ATTACKS = 12
"""Times that it is sent: each is over in a moment."""
ENVIRONMENT = {
    **os.environ,
    "HOLDFAST_REQUESTS_PER_MINUTE": "100000000",
    "HOLDFAST_HEADER_TIMEOUT_SECONDS": "0.5",
    "HOLDFAST_BODY_TIMEOUT_SECONDS": "0.5",
}
"""Short times, so that fuzzing waits less for what never comes; they cost the same."""

PLAIN = """
import asyncio, socket, sys
import uvicorn, uvloop
from holdfast.core.settings import Settings
from holdfast.server.lifecycle import configuration
from holdfast.surfaces.http.gate import Gate
from holdfast.surfaces.http.telemetry.metrics import Metrics
from holdfast.surfaces.http.operation import health
from holdfast.surfaces.http.protocol.proxies import Proxies

gate = Gate(health, metrics=Metrics(), allowed_hosts=(), allowed_origins=(), request_timeout_seconds=120.0,
            proxies=Proxies(()))
config = configuration(Settings(), gate)
if sys.argv[2] == "plain":
    config = uvicorn.Config(gate, log_config=None, access_log=False, lifespan="off", http="httptools",
                            proxy_headers=False, server_header=False, timeout_keep_alive=30)
listener = socket.socket()
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(2048)
uvloop.run(uvicorn.Server(config).serve(sockets=[listener]))
"""


@contextlib.contextmanager
def _serving(kind: str) -> Iterator[Running]:
    """The gate around `/healthz` alone, behind the front or behind uvicorn's own protocol."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", PLAIN, str(port), kind], stderr=subprocess.DEVNULL)
    try:
        asyncio.run(_answering(port))
        yield Running(port, process.pid, 0.0, {})
    finally:
        process.terminate()
        process.wait(30)


async def _answering(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(OSError):
                await asyncio.open_connection("127.0.0.1", port)
                return
            await asyncio.sleep(0.05)


async def _send_header(port: int, megabytes: float) -> None:
    """So much header, on as many connections as it takes: each one is ended at its bound."""
    left = int(megabytes * 1e6)
    while left > 0:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(BEGINNING)
            while left > 0:
                writer.write(PIECE)
                left -= len(PIECE)
                await writer.drain()
                if reader.at_eof() or writer.is_closing():
                    break
        except OSError:
            pass
        finally:
            writer.close()


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


async def _health(port: int, seconds: float, sending: float) -> tuple[float, float]:
    """p99 of health in milliseconds, undisturbed and while header is sent, in turns so that both see one machine."""
    quiet: list[float] = []
    disturbed: list[float] = []
    for _ in range(ATTACKS):
        quiet += await _ask(port, seconds / ATTACKS)
        work = await _attack(port, sending)
        disturbed += await _ask(port, seconds, until=work)
    return _p99(quiet), _p99(disturbed)


async def _attack(port: int, megabytes: float) -> "asyncio.Future[int]":
    """Begin to send header from a process of its own; done when it is sent."""
    command = [sys.executable, "-m", "bench.front", "--attack", str(port), "--megabytes", str(megabytes)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    return asyncio.ensure_future(process.wait())


async def _ask(port: int, seconds: float, until: "asyncio.Future[int] | None" = None) -> list[float]:
    """How long each request for health took, on one kept connection; for so long, or until something is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    took = []
    ends = time.perf_counter() + seconds
    while (time.perf_counter() < ends) if until is None else not until.done():
        began = time.perf_counter()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.002)
    writer.close()
    return took


def _p99(took: list[float]) -> float:
    return sorted(took)[len(took) * 99 // 100] * 1000


def _stalling(chosen: argparse.Namespace) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory, holdfast(Path(directory), ENVIRONMENT) as server:
        asyncio.run(_ask(server.port, 2.0))
        quiet, disturbed = asyncio.run(_health(server.port, chosen.seconds, chosen.megabytes))
        costs = []
        for megabytes in (5 * chosen.megabytes, 10 * chosen.megabytes):
            before = _cpu(server.pid)
            asyncio.run(_send_header(server.port, megabytes))
            costs.append(_cpu(server.pid) - before)
    return [
        Figure("/healthz undisturbed, p99", quiet, "ms"),
        Figure(f"/healthz while {chosen.megabytes:g} MB of header come, p99", disturbed, "ms"),
        Figure("ratio of p99", disturbed / quiet, "×", 2.0, "lower"),
        Figure(f"CPU for {5 * chosen.megabytes:g} MB of header", costs[0] * 1000, "ms"),
        Figure("CPU for twice as much ÷ that", costs[1] / costs[0], "×", 2.5, "lower"),
    ]


def _overhead(chosen: argparse.Namespace) -> list[Figure]:
    """The least of several rounds of each: a busy machine only ever adds."""
    cpu: dict[str, list[float]] = {"plain": [], "front": [], "rest": []}
    with (
        tempfile.TemporaryDirectory() as directory,
        holdfast(Path(directory), ENVIRONMENT) as server,
        _serving("plain") as plain,
        _serving("front") as front,
    ):
        key = {"Authorization": f"Bearer {server.told['api_key']}"}
        asked = (("plain", plain, "/healthz"), ("front", front, "/healthz"), ("rest", server, "/api/me"))
        for measured in range(chosen.rounds + 1):
            for name, running, path in asked:
                before = _cpu(running.pid)
                told = asyncio.run(load(running.port, path, key, connections=32, seconds=chosen.seconds / 2))
                if measured:
                    cpu[name].append((_cpu(running.pid) - before) / (told.requests_per_second * chosen.seconds / 2))
    least = {name: min(found) for name, found in cpu.items()}
    added = least["front"] - least["plain"]
    return [
        Figure("CPU of a health request, gate behind uvicorn's protocol", least["plain"] * 1e6, "µs"),
        Figure("… behind the front", least["front"] * 1e6, "µs"),
        Figure("what the front adds ÷ CPU of GET /api/me", added / least["rest"] * 100, "%", 5.0, "lower"),
    ]


def _fuzzing(chosen: argparse.Namespace) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory, holdfast(Path(directory), ENVIRONMENT) as server:
        process = psutil.Process(server.pid)
        asyncio.run(throw(server.port, chosen.requests // 10, seed=1))
        before = process.memory_info().rss
        began = time.perf_counter()
        outcome = asyncio.run(throw(server.port, chosen.requests, seed=2))
        seconds = time.perf_counter() - began
        grown = process.memory_info().rss - before
    return [
        Figure("malformed requests thrown", outcome.sent, "", chosen.requests),
        Figure("… on so many connections", outcome.connections),
        Figure("… in", seconds, "s"),
        Figure("… answered 5xx", len(outcome.failed), "", 0, "lower"),
        Figure("… connections the server did not end", len(outcome.unended), "", 0, "lower"),
        Figure("… memory grown", grown / 1e6, "MB", 8.0, "lower"),
    ]


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each round takes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=100.0, help="how much header one client sends")
    parser.add_argument("--requests", type=int, default=100_000, help="how many malformed requests are thrown")
    parser.add_argument("--attack", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=("stalling", "overhead", "fuzzing"))
    chosen = parser.parse_args()
    if chosen.attack:
        # A sender is on another machine; here it must not take the server's share of this one.
        os.nice(19)
        print("begun", flush=True)
        asyncio.run(_send_header(chosen.attack, chosen.megabytes))
        return
    parts = {"stalling": _stalling, "overhead": _overhead, "fuzzing": _fuzzing}
    figures = [figure for name, measure in parts.items() if chosen.only in (None, name) for figure in measure(chosen)]
    finish(figures, as_json=chosen.json)


if __name__ == "__main__":
    main()
