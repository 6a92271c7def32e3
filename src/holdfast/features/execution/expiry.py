"""Owns ending, beside the requests, what nobody decided in time."""

import asyncio
import logging

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError
from holdfast.features.execution import store
from holdfast.features.execution.approvals.service import Approvals
from holdfast.storage.database import Database

LOOK_SECONDS = 5.0
_TRIM_TURNS = 60
_log = logging.getLogger(__name__)


class ApprovalExpiry:
    """Looks every few seconds; whoever looks at an approval itself ends it too."""

    def __init__(self, database: Database, approvals: Approvals, clock: Clock, *, once_seconds: float) -> None:
        self._database = database
        self._approvals = approvals
        self._clock = clock
        self._once_millis = round(once_seconds * 1000)
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until `stop`."""
        turn = 0
        while not self._stopping.is_set():
            try:
                await self._approvals.expire()
                if turn % _TRIM_TURNS == 0:
                    before = self._clock.now() - self._once_millis
                    await self._database.write(lambda tx, before=before: store.trim_once(tx, before))  # type: ignore[misc]
                turn += 1
            except HoldfastError as problem:
                _log.warning("Approvals could not be looked through: %s", problem.message)
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """End `run`."""
        self._stopping.set()
