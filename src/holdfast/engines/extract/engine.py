"""Owns the extraction of text in a child process that is ended when it takes too much or is no longer wanted."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holdfast.engines.extract.chunk import Chunk
from holdfast.engines.extract.formats import FileKind
from holdfast.engines.extract.model import ExtractionFailed, ExtractLimits, Summary

_LINE_BYTES = 1024 * 1024
_MEMORY_SIGNALS = {signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGTRAP, signal.SIGILL}


class ExtractEngine:
    """Reads files, each in a process of its own, a few at a time."""

    def __init__(self, limits: ExtractLimits | None = None, *, at_once: int = 2) -> None:
        self.limits = limits or ExtractLimits()
        self._slots = asyncio.Semaphore(at_once)

    async def extract(self, path: Path, kind: FileKind) -> AsyncGenerator[Chunk | Summary, None]:
        """The passages of a file as they are read, then one Summary; ExtractionFailed when it cannot be read.

        Close the iterator (or cancel) to end the process at once."""
        async with self._slots:
            process = await self._start(path, kind)
            try:
                async for value in self._values(process):
                    yield value
            finally:
                await _end(process)

    async def _values(self, process: asyncio.subprocess.Process) -> AsyncGenerator[Chunk | Summary, None]:
        assert process.stdout is not None
        clock = asyncio.get_running_loop().time
        left = self.limits.wall_seconds
        while True:
            # Only our waiting counts: while the caller stores a passage, the reader rests too.
            began = clock()
            try:
                line = await asyncio.wait_for(process.stdout.readline(), left)
            except TimeoutError:
                raise _too_slow(f"longer than {self.limits.wall_seconds:.0f} seconds") from None
            left -= clock() - began
            if not line.endswith(b"\n"):
                raise _ended(await process.wait(), self.limits)
            value: dict[str, Any] = json.loads(line)
            if "failed" in value:
                raise ExtractionFailed(value["failed"]["message"], code=value["failed"]["code"])
            if "done" in value:
                yield Summary(**value["done"])
                return
            yield Chunk(value["text"], value["heading"], value["page"])

    async def _start(self, path: Path, kind: FileKind) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            "holdfast.engines.extract.child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # The server's environment holds secrets; a reader needs none of it.
            env={"LC_ALL": "C.UTF-8"},
            start_new_session=True,
            limit=_LINE_BYTES,
        )
        assert process.stdin is not None
        given = {"path": str(path), "format": kind.format, "language": kind.language, "limits": asdict(self.limits)}
        process.stdin.write(json.dumps(given).encode() + b"\n")
        # A process that died at once is told by its exit, not by the broken pipe.
        with suppress(ConnectionError):
            await process.stdin.drain()
        process.stdin.close()
        return process


def _ended(code: int, limits: ExtractLimits) -> ExtractionFailed:
    """Why a reader ended without a word."""
    if code == -signal.SIGXCPU:
        return _too_slow(f"more than {limits.cpu_seconds} seconds of work")
    if code < 0 and signal.Signals(-code) in _MEMORY_SIGNALS:
        return ExtractionFailed("The file is damaged or hostile: its reader crashed on it.", code="crashed")
    return ExtractionFailed(f"The file could not be read: its reader ended with {code}.", code="crashed")


def _too_slow(how_long: str) -> ExtractionFailed:
    remedy = "split the file into smaller ones, or save it as plain text, and upload that"
    return ExtractionFailed(f"Reading it takes {how_long}; {remedy}.", code="too_slow")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # Waited for even when we are cancelled: no reader outlives its caller.
    await asyncio.shield(process.wait())
