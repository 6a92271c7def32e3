"""Owns the sessions that this process runs: what their gates and models tell whoever watches over them."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.features.agents.sessions.model import LimitReached


class LiveSession:
    """One of them."""

    def __init__(self, most_mb: int) -> None:
        """`most_mb` is how much we keep of what it tells and makes."""
        self._most_mb = most_mb
        self._kept = 0
        self.wake = asyncio.Event()
        """Set whenever there is something to look at."""
        self.limit: LimitReached | None = None
        self.is_ended = False
        """Whether its agent said that it is done."""
        self.touched_at = time.monotonic()

    def touch(self) -> None:
        """It gave a sign of life."""
        self.touched_at = time.monotonic()

    def reach(self, limit: LimitReached) -> None:
        """It used up a limit; the first that it reached is told."""
        self.limit = self.limit or limit
        self.wake.set()

    def keep(self, size: int) -> None:
        """So many bytes more of what it tells or makes are kept by us."""
        self._kept += size
        if self._kept > self._most_mb << 20:
            said = f"It told and made more than {self._most_mb} MiB, all that it may keep."
            self.reach(LimitReached("disk_mb", said))

    def end(self) -> None:
        """Its agent is done."""
        self.is_ended = True
        self.wake.set()


class LiveSessions:
    """Those of this process, by id."""

    def __init__(self) -> None:
        self._live: dict[str, LiveSession] = {}

    @contextmanager
    def living(self, session_id: str, most_mb: int) -> Iterator[LiveSession]:
        """A session that runs here while somebody is in here."""
        made = self._live[session_id] = LiveSession(most_mb)
        try:
            yield made
        finally:
            self._live.pop(session_id, None)

    def get(self, session_id: str) -> LiveSession | None:
        """The session, if it runs here."""
        return self._live.get(session_id)
