"""Owns the child processes that read repositories: started, spoken with, and ended when they take too long."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from holdfast.engines.git.frames import MAX_FRAME, pack
from holdfast.engines.git.model import GitFailed
from holdfast.engines.sandbox.bounds import Bounds

_LIMIT = 1024 * 1024


class Child:
    """One process. Whoever started it ends it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str, bounds: Bounds, *, fd: int | None = None) -> "Child":
        """A process that binds itself and then waits for jobs; `fd` is a descriptor that it inherits."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # The server's environment holds secrets; a reader needs none of it, and git's own variables are tricks.
            env={"LC_ALL": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
            limit=_LIMIT,
            pass_fds=() if fd is None else (fd,),
        )
        child = cls(process)
        try:
            await child.tell({"bounds": asdict(bounds), "fd": fd})
        except BaseException:
            await child.end()
            raise
        return child

    @property
    def is_alive(self) -> bool:
        """Whether it could take another job."""
        return self._process.returncode is None

    @property
    def cpu_seconds(self) -> float:
        """The processor time that it has taken so far; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def tell(self, value: object) -> None:
        """Give it a value."""
        assert self._process.stdin is not None
        # A process that died is told by its silence, not by the broken pipe.
        with suppress(ConnectionError):
            self._process.stdin.write(pack(value))
            await self._process.stdin.drain()

    async def hear(self) -> dict[str, Any]:
        """Its next value; GitFailed when it ended instead."""
        assert self._process.stdout is not None
        try:
            size = int.from_bytes(await self._process.stdout.readexactly(4), "big")
            if size > MAX_FRAME:
                raise GitFailed("The repository's reader answered more than can be taken in.", code="crashed")
            value = orjson.loads(await self._process.stdout.readexactly(size))
        except asyncio.IncompleteReadError:
            raise _ended(await self._process.wait()) from None
        except orjson.JSONDecodeError:
            raise GitFailed("The repository's reader answered nonsense.", code="crashed") from None
        if not isinstance(value, dict):
            raise GitFailed("The repository's reader answered nonsense.", code="crashed")
        return value

    async def answers(self, job: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """All values that a job gives, the last one being its `done`; GitFailed when it fails."""
        await self.tell(job)
        while True:
            value = await self.hear()
            if failed := value.get("failed"):
                raise GitFailed(str(failed["message"]), code=str(failed["code"]))
            yield value
            if "done" in value:
                return

    async def end(self) -> None:
        """Kill it with everything it started, and wait until it is gone."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        # Waited for even when we are cancelled: no child outlives its caller.
        await asyncio.shield(self._process.wait())


def _ended(code: int) -> GitFailed:
    """Why a child ended without a word."""
    if code == -signal.SIGXCPU:
        return GitFailed("Reading the repository takes more work than allowed.", code="too_slow")
    if code == -signal.SIGXFSZ:
        return GitFailed("The repository is larger than allowed.", code="too_large")
    return GitFailed("The repository is damaged or hostile: its reader crashed on it.", code="crashed")
