"""Owns how fast one session may use its gate: whoever floods it waits, and nobody else does."""

import asyncio
import time
from collections.abc import Callable

_EARNED_PER_SECOND = 1_000.0
_MOST_SAVED = 2_000.0
_TURN = 20.0
CALL_COST = 5.0
"""A call is written into the audit trail; a ping is not."""
FRAME_COST = 1.0
BYTES_PER_COST = 65_536


class SessionPace:
    """A budget that all connections of a session share; it fills by itself."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._left = _MOST_SAVED
        self._at = now()
        self._since_others = 0.0

    async def spend(self, cost: float) -> None:
        """Take from the budget, and wait until it is no longer overdrawn."""
        now = self._now()
        self._left = min(_MOST_SAVED, self._left + (now - self._at) * _EARNED_PER_SECOND) - cost
        self._at = now
        self._since_others += cost
        if self._left < 0 or self._since_others >= _TURN:
            # Even a budget that is not used up lets others have their turn.
            self._since_others = 0.0
            await asyncio.sleep(max(0.0, -self._left / _EARNED_PER_SECOND))
