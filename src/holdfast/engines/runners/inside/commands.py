"""Owns the built-in agent's tools that run programs, shell and git; each ends with everything that it started."""

import os
import select
import signal
import subprocess
import threading
from contextlib import suppress

from holdfast.engines.runners.inside.failing import ToolFailed
from holdfast.engines.runners.inside.stopping import Stopping

_SECONDS = 600
_KEPT_BYTES = 60_000
"""Of the beginning, and as much of the end."""
_READ_BYTES = 65_536
_QUIET_MILLISECONDS = 200


class Commands:
    """Programs in one directory."""

    def __init__(self, directory: str, stopping: Stopping) -> None:
        self._directory = directory
        self._stopping = stopping

    def run(self, command: str, timeout_seconds: int = _SECONDS) -> str:
        """A line of shell."""
        return self._run(["/bin/sh", "-c", command], timeout_seconds)

    def git(self, arguments: list[str]) -> str:
        """git, which asks nobody and pages nothing."""
        return self._run(["git", "--no-pager", *arguments], _SECONDS)

    def _run(self, command: list[str], seconds: int) -> str:
        try:
            process = subprocess.Popen(
                command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except ValueError as problem:
            raise ToolFailed(f"This can't be run: {problem}.") from None
        is_late = threading.Event()

        def give_up() -> None:
            is_late.set()
            _kill(process)

        timer = threading.Timer(seconds, give_up)
        timer.start()
        try:
            with self._stopping.breaking(lambda: _kill(process)):
                text = _output(process)
                code = process.wait()
        finally:
            timer.cancel()
            _kill(process)
            process.wait()
        self._stopping.check()
        if is_late.is_set():
            raise ToolFailed(f"{text}\n[stopped after {seconds} seconds]")
        if code != 0:
            raise ToolFailed(f"{text}\n[exit status {code}]")
        return text or "(no output)"


def _output(process: "subprocess.Popen[bytes]") -> str:
    """Beginning and end of what it prints."""
    assert process.stdout is not None
    first, last, dropped = b"", b"", 0
    with process.stdout as stdout:
        waiting = select.poll()
        waiting.register(stdout, select.POLLIN)
        # One that left its group keeps the pipe open for good; nobody waits for that.
        while waiting.poll(_QUIET_MILLISECONDS) or process.poll() is None:
            if not waiting.poll(0):
                continue
            piece = os.read(stdout.fileno(), _READ_BYTES)
            if not piece:
                break
            room = _KEPT_BYTES - len(first)
            first += piece[: max(0, room)]
            last += piece[max(0, room) :]
            if len(last) > _KEPT_BYTES:
                dropped += len(last) - _KEPT_BYTES
                last = last[-_KEPT_BYTES:]
    middle = f"\n[… {dropped:,} bytes left out …]\n".encode() if dropped else b""
    return (first + middle + last).decode("utf-8", "replace")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    # All of the group may be gone.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
