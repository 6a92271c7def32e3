"""Owns a few warm processes for single looks, each kept to one repository so that none learns of another's."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from holdfast.engines.git.model import GitFailed
from holdfast.engines.git.process import Child
from holdfast.engines.sandbox.bounds import Bounds

MODULE = "holdfast.engines.git.reading.child"
_WARM = 3
_JOBS_PER_PROCESS = 300
_SECONDS = 60.0


@dataclass
class _Warm:
    child: Child
    jobs: int = 0
    is_retired: bool = False
    """Whether it ends after the job it has."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Readers:
    """Answers looks; a process that was used least goes first."""

    def __init__(self, bounds: Bounds, *, seconds: float = _SECONDS) -> None:
        self._bounds = bounds
        self._seconds = seconds
        self._warm: OrderedDict[str, _Warm] = OrderedDict()

    async def ask(self, path: str, job: dict[str, Any]) -> Any:
        """A job's answer; GitFailed when it fails or takes too long."""
        may_retry = True
        while True:
            warm = await self._reader(path)
            async with warm.lock:
                if warm.is_retired or not warm.child.is_alive:
                    # It ended while we waited for our turn.
                    continue
                was_used = warm.jobs > 0
                try:
                    return await self._ask(warm, {**job, "path": path})
                except GitFailed as problem:
                    # A process that had worked before may have died for another reason than this job.
                    if problem.code != "crashed" or not was_used or not may_retry:
                        raise
                    may_retry = False
                finally:
                    if warm.is_retired or warm.jobs >= _JOBS_PER_PROCESS or not warm.child.is_alive:
                        await self._retire(path, warm)

    async def _ask(self, warm: _Warm, job: dict[str, Any]) -> Any:
        finished = False
        try:
            async with asyncio.timeout(self._seconds):
                async for value in warm.child.answers(job):
                    answer = value.get("done")
            finished = True
            warm.jobs += 1
            return answer
        except TimeoutError:
            raise GitFailed(
                f"Reading took longer than {self._seconds:.0f} seconds; ask for less.", code="too_slow"
            ) from None
        except GitFailed as problem:
            # It said so itself and can go on.
            finished = problem.code not in ("crashed", "too_slow")
            raise
        finally:
            if not finished:
                await warm.child.end()

    async def _reader(self, path: str) -> _Warm:
        warm = self._warm.get(path)
        if warm is not None and warm.child.is_alive:
            self._warm.move_to_end(path)
            return warm
        made = _Warm(await Child.start(MODULE, self._bounds))
        other = self._warm.get(path)
        if other is not None and other.child.is_alive:
            # Somebody else started one meanwhile.
            await made.child.end()
            return other
        self._warm[path] = made
        while len(self._warm) > _WARM:
            oldest = next((key for key, each in self._warm.items() if not each.lock.locked() and key != path), None)
            if oldest is None:
                break
            await self.drop(oldest)
        return made

    async def _retire(self, path: str, warm: _Warm) -> None:
        warm.is_retired = True
        if self._warm.get(path) is warm:
            del self._warm[path]
        await warm.child.end()

    async def drop(self, path: str) -> None:
        """End the process of one repository, after the job it may have."""
        warm = self._warm.pop(path, None)
        if warm is None:
            return
        warm.is_retired = True
        if not warm.lock.locked():
            await warm.child.end()

    async def close(self) -> None:
        """End all of them."""
        while self._warm:
            await self._warm.popitem()[1].child.end()
