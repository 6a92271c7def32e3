"""Owns background work: handlers by kind, jobs enqueued in transactions, run under leases that outlive no process."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, id_in_cursor, page_of
from holdfast.engines.events import EventBus
from holdfast.engines.jobs import store, turns
from holdfast.engines.jobs.attempt import Attempt
from holdfast.engines.jobs.model import Claim, Ended, Fence, Handler, Job, JobKind, JobNotFound, JobState
from holdfast.storage.database import Database, Tx

# A dead owner's job is taken over after at most lease + poll.
LEASE_SECONDS = 2.2
HEARTBEAT_SECONDS = 0.5
POLL_SECONDS = 0.4
TRIM_SECONDS = 3600
KEEP_MILLIS = 14 * 86_400_000
MAX_ATTEMPTS = 5
BACKOFF_SECONDS = 1.0
CONCURRENCY = 4
GRACE_SECONDS = 1.0
EVERY = "every"

_log = logging.getLogger(__name__)


class JobEngine:
    """The jobs of one installation, and the part of them that this process runs."""

    def __init__(
        self,
        database: Database,
        events: EventBus,
        *,
        handlers: Callable[[], None] = lambda: None,
        lease_seconds: float = LEASE_SECONDS,
        hears: bool = False,
    ) -> None:
        """`handlers` calls `handle` for every kind, once, when jobs are first run or ended by this process.

        `hears`: other processes that run no jobs themselves queue them, and are not kept waiting for the next look.
        """
        self._hears = hears
        self._database = database
        self._lease_millis = round(lease_seconds * 1000)
        self._events = events
        self._owner = new_id("run")
        self._handlers: Callable[[], None] | None = handlers
        self._handled: dict[str, JobKind] = {}
        self._attempts: dict[str, Attempt] = {}
        self._kept_slots: Counter[str] = Counter()
        self._waited_for: set[str] = set()
        """Kinds of which a job may wait for a free slot here."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._stopped.set()

    def handle(
        self,
        kind: str,
        handler: Handler,
        *,
        concurrency: int = CONCURRENCY,
        reserved: int = 0,
        max_attempts: int = MAX_ATTEMPTS,
        backoff_seconds: float = BACKOFF_SECONDS,
        every_seconds: float | None = None,
        ended: Ended | None = None,
    ) -> None:
        """Run jobs of a kind with `handler`, `concurrency` at once in each process.

        `reserved` of them are out of reach for a workspace that fills the others: another's job finds one free.
        With `every_seconds` a job of this kind is always waiting for its next turn, one over all replicas.
        `ended` is called in the transaction that ends a job, however it ends: cancelled before it began, or given up
        because each process that ran it was killed.
        """
        if kind in self._handled:
            raise ValueError(f"Jobs of kind {kind!r} have a handler already.")
        self._handled[kind] = JobKind(
            handler, concurrency, max_attempts, backoff_seconds, every_seconds, ended, reserved
        )

    def enqueue(
        self,
        tx: Tx,
        kind: str,
        payload: Mapping[str, Any] = {},
        *,
        workspace_id: str | None = None,
        key: str | None = None,
        delay_seconds: float = 0,
        max_attempts: int | None = None,
    ) -> str:
        """Add a job with the change that `tx` makes; its id.

        Work with a `key` is not queued twice: while an untried job of that kind, workspace and key waits, its id is
        the answer. Jobs with the same key run one after another.
        """
        known = self._handled.get(kind)
        moment = store.now(tx)
        values = {
            "id": new_id("job"),
            "kind": kind,
            "workspace_id": workspace_id,
            "key": key,
            "payload": json.dumps(payload, separators=(",", ":")),
            "max_attempts": max_attempts or (known.max_attempts if known else MAX_ATTEMPTS),
            "run_at": moment + round(delay_seconds * 1000),
            "now": moment,
        }
        # The job that was waiting may start between the two statements; then this one is new after all.
        while not store.insert(tx, values):
            waiting = store.waiting(tx, kind, workspace_id, key or "")
            if waiting is not None:
                return waiting
        job_id = str(values["id"])
        queued = {"id": job_id, "kind": kind, "state": "queued"}
        self._events.publish(tx, "job.queued", queued, workspace_id=workspace_id)
        tx.after_commit(self._wake_up)
        return job_id

    @contextmanager
    def slot(self, kind: str) -> Iterator[bool]:
        """A slot of a kind in this process, kept for whoever is in here to `begin` a job; False where none is free.

        None is where this process runs no jobs, or where it would be taken from a job that waits. The reserved ones
        stay for those.
        """
        known = self.kinds.get(kind)
        busy = self._busy()[kind]
        free = known is not None and self._runs and kind not in self._waited_for
        if known is None or not free or busy >= known.concurrency - known.reserved:
            yield False
            return
        self._kept_slots[kind] += 1
        try:
            yield True
        finally:
            self._kept_slots[kind] -= 1

    def begin(
        self,
        tx: Tx,
        kind: str,
        payload: Mapping[str, Any],
        handler: Handler,
        *,
        workspace_id: str | None,
        over: Callable[[], None],
    ) -> str:
        """Add a job that this process runs itself as soon as `tx` is committed, in a `slot`; its id.

        It is never in the queue. Its first attempt is made by `handler`, and `over` hears of its end; if the process
        dies meanwhile, another takes the job over like any other. A caller who is cancelled does not stop it.
        """
        known, moment, job_id = self.kinds[kind], store.now(tx), new_id("job")
        values = {
            "id": job_id,
            "kind": kind,
            "workspace_id": workspace_id,
            "payload": json.dumps(payload, separators=(",", ":")),
            "max_attempts": known.max_attempts,
            "owner": self._owner,
            "until": moment + self._lease_millis,
            "now": moment,
        }
        job = store.insert_running(tx, values)
        self._publish(tx, job)
        claim = Claim(job, Fence(job_id, self._owner, 1), {}, False)
        tx.after_commit(lambda: self._in_loop(partial(self._start, claim, handler, over)))
        return job_id

    async def get(self, job_id: str, *, workspace_id: str | None = None) -> Job:
        """One job, of that workspace where one is given."""
        return await self._database.read(lambda tx: self.find(tx, job_id, workspace_id))

    def find(self, tx: Tx, job_id: str, workspace_id: str | None = None) -> Job:
        """Like `get`, within a transaction."""
        job = store.get(tx, job_id)
        if job is None or (workspace_id is not None and job.workspace_id != workspace_id):
            raise JobNotFound(job_id)
        return job

    def unfinished(self, tx: Tx, kind: str, key: str) -> Sequence[Job]:
        """The jobs of a kind and key that wait or run, oldest first."""
        return store.keyed(tx, kind, key)

    async def list(
        self,
        workspace_id: str,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[Job]:
        """A workspace's jobs, newest first."""
        return await self._database.read(
            lambda tx: self.page(tx, workspace_id, state=state, kind=kind, cursor=cursor, limit=limit)
        )

    def page(
        self, tx: Tx, workspace_id: str, *, state: JobState | None, kind: str | None, cursor: str | None, limit: int
    ) -> Page[Job]:
        """Like `list`, within a transaction."""
        before = id_in_cursor(cursor, "job") if cursor else None
        jobs = store.page(tx, workspace_id, state=state, kind=kind, before=before, limit=limit + 1)
        return page_of(jobs, limit, lambda job: (job.id,))

    def cancel(self, tx: Tx, job_id: str, *, workspace_id: str | None = None) -> Job:
        """End a queued job; tell a running one to stop, which it does within a second; leave a finished one."""
        job = self.find(tx, job_id, workspace_id)
        changed = store.request_cancel(tx, job_id)
        if changed is not None and changed.finished:
            self._ended(tx, changed)
        return changed or job

    async def wait(self, job_id: str, *, timeout_seconds: float = 60) -> Job:
        """The job once it has ended; TimeoutError when that takes too long."""
        async with asyncio.timeout(timeout_seconds), self._events.subscribe(["job.*"]) as events:
            while not (job := await self.get(job_id)).finished:
                try:
                    async with asyncio.timeout(POLL_SECONDS):
                        while (await events.get()).payload.get("id") != job_id:
                            pass
                except TimeoutError:
                    continue
            return job

    async def run(self) -> None:
        """Run jobs until `stop` or cancellation."""
        self._loop = asyncio.get_running_loop()
        self._stopped.clear()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._claim_until_stopped())
                hearing = group.create_task(self._hear_forever())
                beat = group.create_task(self._heartbeat_forever())
                trim = group.create_task(self._trim_forever())
                await self._stopping.wait()
                await self._wind_up()
                beat.cancel()
                trim.cancel()
                hearing.cancel()
        finally:
            for attempt in self._attempts.values():
                attempt.abandon()
            self._stopped.set()

    @property
    def kinds(self) -> dict[str, JobKind]:
        """What this process can run."""
        if self._handlers is not None:
            handlers, self._handlers = self._handlers, None
            handlers()
        return self._handled

    async def stop(self) -> None:
        """Start nothing more, let jobs end for a moment, give the others back to the queue."""
        self._stopping.set()
        self._wake.set()
        await self._stopped.wait()

    async def _wind_up(self) -> None:
        tasks = [attempt.task for attempt in self._attempts.values() if attempt.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_SECONDS)
            for attempt in list(self._attempts.values()):
                attempt.give_back()
            await asyncio.wait(tasks, timeout=GRACE_SECONDS * 5)

    async def _claim_until_stopped(self) -> None:
        periodic_ready = False
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                if not periodic_ready:
                    await self._database.write(self._enqueue_periodic)
                    periodic_ready = True
                await self._claim_due()
            except HoldfastError as problem:
                _log.warning("Jobs could not be claimed: %s", problem.message)
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _hear_forever(self) -> None:
        """Look at once when somebody elsewhere says that a job waits."""
        if self._hears:
            async with self._events.subscribe(["job.queued"]) as queued:
                async for _ in queued:
                    self._wake.set()

    async def _claim_due(self) -> None:
        busy = self._busy()
        free = {name: kind.concurrency - busy[name] for name, kind in self.kinds.items()}
        open_kinds = [name for name, slots in free.items() if slots > 0]
        self._waited_for = {name for name, slots in free.items() if slots <= 0}
        holding = list(self._attempts)
        if not open_kinds:
            return
        for name in await self._database.read(lambda tx: turns.due_kinds(tx, open_kinds, holding)):
            claims = await self._database.write(partial(self._claim, kind=name, holding=holding, slots=free[name]))
            if len(claims) == free[name]:
                self._waited_for.add(name)
            for claim in claims:
                self._start(claim)

    def _claim(self, tx: Tx, kind: str, holding: Sequence[str], slots: int) -> Sequence[Claim]:
        known = self.kinds[kind]
        most = known.concurrency - known.reserved
        claims = turns.claim(tx, kind, self._owner, holding, self._lease_millis, slots, most_of_one=most)
        for claim in claims:
            self._publish(tx, claim.job)
        return claims

    @property
    def _runs(self) -> bool:
        return self._loop is not None and not self._stopping.is_set() and not self._stopped.is_set()

    def _busy(self) -> Counter[str]:
        """How many slots of each kind are taken here."""
        return Counter(attempt.job.kind for attempt in self._attempts.values()) + self._kept_slots

    def _start(self, claim: Claim, handler: Handler | None = None, over: Callable[[], None] | None = None) -> None:
        if self._stopping.is_set():
            # Committed while the server stopped: its lease runs out, and whoever takes it over goes on from there.
            if over is not None:
                over()
            return
        kind = self.kinds[claim.job.kind]
        attempt = Attempt(
            self._database, kind if handler is None else replace(kind, handler=handler), claim, self._ended
        )
        self._attempts[claim.job.id] = attempt
        attempt.start(lambda _: self._forget(claim.job.id, attempt, over))

    def _forget(self, job_id: str, attempt: Attempt, over: Callable[[], None] | None) -> None:
        if self._attempts.get(job_id) is attempt:
            del self._attempts[job_id]
        if over is not None:
            over()
        # A job that was never queued leaves nothing behind that could begin now, unless one waits for its slot.
        if over is None or attempt.job.kind in self._waited_for:
            self._wake.set()

    def _ended(self, tx: Tx, job: Job) -> None:
        """Within the transaction that ends an attempt: tell about it, and queue the next turn of periodic work."""
        self._publish(tx, job)
        known = self.kinds.get(job.kind)
        if job.finished and known is not None and known.ended is not None:
            known.ended(tx, job)
        if job.finished and job.key == EVERY:
            self._enqueue_periodic(tx)

    def _enqueue_periodic(self, tx: Tx) -> None:
        for name, kind in self.kinds.items():
            if kind.every_seconds is not None and not store.active(tx, name, EVERY):
                self.enqueue(tx, name, key=EVERY, delay_seconds=kind.every_seconds)

    def _publish(self, tx: Tx, job: Job) -> None:
        payload = {"id": job.id, "kind": job.kind, "state": job.state}
        self._events.publish(tx, f"job.{job.state}", payload, workspace_id=job.workspace_id)

    async def _heartbeat_forever(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if not self._attempts:
                continue
            try:
                await self._heartbeat()
            except HoldfastError as problem:
                _log.warning("Leases of jobs could not be prolonged: %s", problem.message)

    async def _heartbeat(self) -> None:
        attempts = dict(self._attempts)
        kept = await self._database.write(lambda tx: self._beat(tx, attempts))
        for job_id, attempt in attempts.items():
            if job_id not in kept:
                attempt.lose()
            elif kept[job_id]:
                attempt.cancel()

    def _beat(self, tx: Tx, attempts: Mapping[str, Attempt]) -> dict[str, bool]:
        kept = store.extend(tx, [attempt.fence for attempt in attempts.values()], self._lease_millis)
        for attempt in attempts.values():
            progress = attempt.save_progress(tx)
            if progress is not None:
                job = attempt.job
                payload = {"id": job.id, "kind": job.kind, "state": "running", "done": progress.done}
                payload |= {"total": progress.total, "message": progress.message[:500]}
                self._events.publish(tx, "job.progress", payload, workspace_id=job.workspace_id)
        return kept

    async def _trim_forever(self) -> None:
        while True:
            try:
                await self._database.write(_trim)
            except HoldfastError as problem:
                _log.warning("Old jobs could not be trimmed: %s", problem.message)
            await asyncio.sleep(TRIM_SECONDS)

    def _wake_up(self) -> None:
        self._in_loop(self._wake.set)

    def _in_loop(self, call: Callable[[], None]) -> None:
        """Called in a thread of the store."""
        if self._loop is not None:
            with suppress(RuntimeError):  # The loop has closed by now: nothing is left to wake.
                self._loop.call_soon_threadsafe(call)


def _trim(tx: Tx) -> None:
    before = store.now(tx) - KEEP_MILLIS
    store.trim(tx, before)
    turns.trim(tx, before)
