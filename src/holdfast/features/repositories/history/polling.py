"""Owns looking after repositories that nobody announces changes of: each is synced again after a while."""

from holdfast.core.clock import Clock
from holdfast.engines.jobs import JobRun
from holdfast.features.repositories import store
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.hosts.webhooks import KEEP_DELIVERIES_MILLIS
from holdfast.features.repositories.service import Repositories
from holdfast.storage.database import Tx

TURN_SECONDS = 60.0
AT_ONCE = 20
"""Repositories that one turn queues: those that are due together after a pause of the server come in a row."""


class Polling:
    """Runs `repository.poll` jobs: those of a URL whose last sync is too old are queued, the oldest first."""

    def __init__(self, repositories: Repositories, clock: Clock, *, poll_seconds: int) -> None:
        self._repositories = repositories
        self._clock = clock
        self._poll_millis = poll_seconds * 1_000
        self.turn_seconds = min(TURN_SECONDS, float(poll_seconds))
        """How often to look for some that are due."""

    async def run(self, run: JobRun) -> object:
        """Queue what is due; how many there were."""
        return {"queued": await run.write(self.turn)}

    def turn(self, tx: Tx) -> int:
        """Queue what is due, and forget deliveries that nobody sends again."""
        now = self._clock.now()
        due = store.stale(tx, now - self._poll_millis, AT_ONCE)
        for repository in due:
            self._repositories.enqueue_sync(tx, repository, "poll")
        item_store.forget_deliveries(tx, now - KEEP_DELIVERIES_MILLIS)
        return len(due)
