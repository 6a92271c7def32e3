"""Owns the servers that are measured: Holdfast as its command starts it, and a bare Starlette route beside it."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BARE = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def answer(request):
    return JSONResponse({"status": "ok"})

app = Starlette(routes=[Route("/bare", answer)])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False,
            log_level="error")
"""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    port: int
    pid: int
    ready_seconds: float
    told: dict[str, Any]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """The processor time that all threads of a process have taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settle(pid: int, seconds: float = 30.0) -> None:
    """Wait until a started server has loaded what it loads beside requests: that is not what a request costs."""
    until = time.perf_counter() + seconds
    quiet = 0
    while quiet < 3 and time.perf_counter() < until:
        before = cpu_seconds(pid)
        time.sleep(0.5)
        quiet = quiet + 1 if cpu_seconds(pid) - before < 0.03 else 0


@contextlib.contextmanager
def holdfast(data_dir: Path, environment: dict[str, str] | None = None, *options: str) -> Iterator[Running]:
    """The product, from the start of its process to the line that says it is ready."""
    port = free_port()
    command = [sys.executable, "-m", "holdfast", "up", "--data-dir", str(data_dir), "--port", str(port), "--json"]
    command += options
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the server did not start")
        yield Running(port, process.pid, time.perf_counter() - began, json.loads(line))
    finally:
        _end(process)


@contextlib.contextmanager
def bare() -> Iterator[Running]:
    """One JSON route on Starlette and uvicorn, with nothing before it."""
    port = free_port()
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.perf_counter() - began > 30:
                raise RuntimeError("the bare server did not start")
            time.sleep(0.02)
        yield Running(port, process.pid, time.perf_counter() - began, {})
    finally:
        _end(process)


def run(data_dir: Path, *words: str) -> None:
    """A command on the data of a server."""
    command = [sys.executable, "-m", "holdfast", *words, "--data-dir", str(data_dir), "--json"]
    subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def bare_upstream() -> Iterator[int]:
    """A model that answers at once; its port."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.upstream_stub", "stub", str(port)])
    try:
        _await_port(port, process)
        yield port
    finally:
        _end(process)


def _await_port(port: int, process: "subprocess.Popen[Any]") -> None:
    began = time.perf_counter()
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.perf_counter() - began > 30:
            raise RuntimeError("the server did not start")
        time.sleep(0.02)


def _end(process: "subprocess.Popen[Any]") -> None:
    process.terminate()
    # A busy machine takes its time.
    process.wait(180)
    if process.stdout is not None:
        process.stdout.close()
