"""Owns a few warm child processes and kills the one that takes too long."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import UpstreamFailed

_START_SECONDS = 30.0
_JOBS_PER_PROCESS = 500


class ContentUnreadable(UpstreamFailed):
    """The content came, but it can't be read."""

    code = "unreadable_content"

    def __init__(self, why: str) -> None:
        super().__init__(f"The content could not be read: {why}.")


class _Crashed(Exception):
    """A process that had worked before is gone."""


class Workers:
    """Runs jobs of one module in at most `size` processes, which start when first needed and are reused."""

    def __init__(self, module: str, *, size: int = 2, memory_bytes: int = 1_000_000_000) -> None:
        self._module = module
        self._memory_bytes = memory_bytes
        self._free = asyncio.Semaphore(size)
        self._idle: list[tuple[asyncio.subprocess.Process, int]] = []

    async def run(self, job: str, params: dict[str, Any], parts: Sequence[bytes], *, seconds: float) -> Any:
        """The job's answer; ContentUnreadable when it says no, crashes, or is not done in time."""
        async with self._free:
            try:
                answer = await self._attempt(job, params, parts, seconds)
            except _Crashed:
                # The process may have died while it waited; content that kills a fresh one as well is to blame.
                answer = await self._attempt(job, params, parts, seconds, fresh=True)
        if "error" in answer:
            raise ContentUnreadable(answer["error"])
        return answer["ok"]

    async def _attempt(
        self, job: str, params: dict[str, Any], parts: Sequence[bytes], seconds: float, *, fresh: bool = False
    ) -> dict[str, Any]:
        process, jobs = self._idle.pop() if self._idle and not fresh else (await self._start(), 0)
        finished = False
        try:
            async with asyncio.timeout(seconds):
                answer = await _exchange(process, job, params, parts)
            finished = jobs < _JOBS_PER_PROCESS
        except TimeoutError:
            raise ContentUnreadable(f"reading took longer than {seconds:g} seconds") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            if fresh or jobs == 0:
                raise ContentUnreadable("its reader crashed on it") from None
            raise _Crashed from None
        finally:
            if finished:
                self._idle.append((process, jobs + 1))
            else:
                await _kill(process)
        return answer

    async def aclose(self) -> None:
        """End the idle processes."""
        while self._idle:
            await _kill(self._idle.pop()[0])

    async def _start(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            "holdfast.engines.fetch.worker",
            self._module,
            str(self._memory_bytes),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                await _output(process).readexactly(1)
        except (TimeoutError, asyncio.IncompleteReadError):
            await _kill(process)
            raise ContentUnreadable("its reader could not start") from None
        except asyncio.CancelledError:
            await _kill(process)
            raise
        return process


async def _exchange(
    process: asyncio.subprocess.Process, job: str, params: dict[str, Any], parts: Sequence[bytes]
) -> dict[str, Any]:
    header = json.dumps({"job": job, "params": params, "sizes": [len(part) for part in parts]}).encode()
    sink = process.stdin
    if sink is None:
        raise ConnectionError("no input")
    sink.write(len(header).to_bytes(4, "big") + header)
    for part in parts:
        sink.write(part)
    await sink.drain()
    source = _output(process)
    size = int.from_bytes(await source.readexactly(4), "big")
    answer: dict[str, Any] = json.loads(await source.readexactly(size))
    return answer


def _output(process: asyncio.subprocess.Process) -> asyncio.StreamReader:
    if process.stdout is None:
        raise ConnectionError("no output")
    return process.stdout


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
