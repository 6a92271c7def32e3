"""Owns the server of a soak: started, killed, started anew on the same port, on a disk that can be filled."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from bench.server import free_port

_LIMITS = {
    "HOLDFAST_REQUESTS_PER_MINUTE": "600000",
    "HOLDFAST_MCP_CALLS_PER_MINUTE": "600000",
    "HOLDFAST_CHAT_REQUESTS_PER_MINUTE": "600000",
    "MCP_RATE_LIMIT_PER_MINUTE": "600000",
    "HOLDFAST_SHUTDOWN_SECONDS": "5",
}


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[bool]:
    """A disk of its own for the data where this user may have one; whether it is."""
    directory.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(directory)], capture_output=True, check=False)


class SoakedServer:
    """`holdfast up` on one port, however often its process ends."""

    def __init__(
        self, data: Path, workers: int, upstream: int, beside: Path, database_url: str | None, *, jumps: bool
    ) -> None:
        self.data = data
        self._workers = workers
        self._clock = beside / "clock"
        self._log = (beside / "server.log").open("ab")
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "XEROTIER_"))},
            **_LIMITS,
            "HOLDFAST_UPSTREAM_ALLOW": f"127.0.0.1:{upstream}",
        }
        if database_url is not None:
            self._environment["HOLDFAST_DATABASE_URL"] = database_url
        self.told: dict[str, Any] = {}
        self._deceived = dict(self._environment)
        self.can_jump = jumps and self._deceive(beside / "wall_clock.so")

    def _deceive(self, library: Path) -> bool:
        """Give the server a wall clock that can be moved; False where there is no compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            return False
        self._clock.write_bytes(struct.pack("=q", 0))
        source = Path(__file__).parent / "wall_clock.c"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
        self._deceived |= {"LD_PRELOAD": str(library), "SOAK_CLOCK": str(self._clock)}
        return True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it and wait until it is ready; the key is the first start's."""
        command = [sys.executable, "-m", "holdfast", "up", "--data-dir", str(self.data), "--port", str(self._port)]
        command += ["--json", "--workers", str(self._workers)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, env=self._deceived
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start; see {self._log.name}")
        told = json.loads(line)
        self.told = {**told, "api_key": told["api_key"] or self.told.get("api_key")}

    def output(self, *words: str) -> str:
        """What a command on its data prints."""
        command = [sys.executable, "-m", "holdfast", *words, "--data-dir", str(self.data), "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=self._environment)
        return done.stdout

    def stop(self) -> int:
        """End it as an operator does; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(120)

    def kill(self) -> None:
        """The whole server, without a word: parent first, then whatever it leaves."""
        assert self._process is not None
        left = self.processes()
        self._process.kill()
        self._process.wait()
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(left, timeout=30)

    def kill_worker(self) -> bool:
        """One process that serves beside others; False where there are none."""
        assert self._process is not None
        serving = [each for each in psutil.Process(self._process.pid).children() if "embedders" not in _command(each)]
        if self._workers == 1 or not serving:
            return False
        serving[0].kill()
        return True

    def kill_embedder(self) -> bool:
        """The process that embeds."""
        embedding = [each for each in self.processes() if "embedders" in _command(each)]
        for each in embedding:
            each.kill()
        return bool(embedding)

    def jump(self, seconds: int) -> None:
        """Move the wall clock of its processes, from where this machine's is."""
        with self._clock.open("r+b") as file:
            file.write(struct.pack("=q", seconds))

    def processes(self) -> list[psutil.Process]:
        """It and everything that it started."""
        if self._process is None or self._process.poll() is not None:
            return []
        with suppress(psutil.NoSuchProcess):
            top = psutil.Process(self._process.pid)
            return [top, *top.children(recursive=True)]
        return []

    def close(self) -> None:
        """Leave nothing running."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self._log.close()


def _command(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
