"""Owns the parent of several workers: starts them, hands connections out, starts the dead anew, ends them in order."""

import contextlib
import gc
import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType

from holdfast.core.settings import Settings
from holdfast.server.lifecycle import Ready, listen, locked
from holdfast.server.workers.channel import ANNOUNCE, ANNOUNCED, FAILED, READY, TAKEN, Channel, channels
from holdfast.server.workers.embedding import EmbeddingHost
from holdfast.server.workers.siblings import Siblings
from holdfast.server.workers.tally import OpenCounts
from holdfast.server.workers.worker import Workplace, work
from holdfast.storage.database import StartFailed
from holdfast.surfaces.http.telemetry.logs import configure_logs

START_SECONDS = 120.0
SHORT_LIFE_SECONDS = 5.0
"""A worker that dies sooner is started again later each time."""
LONGEST_PAUSE_SECONDS = 30.0
ACCEPT_AT_ONCE = 64
BREATH_SECONDS = 0.01
"""So long nothing is accepted where no worker takes it, or the system has no files left."""

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Worker:
    """A worker, as its parent knows it."""

    place: int
    pid: int
    channel: Channel
    began: float
    serves: bool = False
    handed: int = 0
    taken: int = 0
    handing: deque[socket.socket] = field(default_factory=deque)
    """Connections that it was handed and has not said to have taken: another one gets them if it dies."""


class Supervisor:
    """The parent. It has no threads, so that it can fork at any time, and does nothing that could fail for long."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._count = settings.workers
        self._workers: dict[int, _Worker] = {}
        self._again: dict[int, float] = {}
        """When places whose worker died get another."""
        self._short_lives: dict[int, int] = {}
        self._stopping = False
        self._accepting = False
        self._next = 0
        self._told: Ready | None = None
        self._failed: str | None = None

    def run(self, announce: Callable[[Ready], None]) -> None:
        """Serve until SIGTERM or SIGINT, then let workers finish."""
        configure_logs(self._settings.log_level)
        listener = listen(self._settings.host, self._settings.port)
        with contextlib.closing(listener), locked(self._settings) as lock, self._gathered(listener):
            self._url = self._settings.url_at(listener.getsockname()[1])
            # What is loaded by now all workers share.
            gc.freeze()
            try:
                self._start_all()
                if not self._stopping and self._told is not None:
                    if lock is not None:
                        lock.tell(self._url)
                    announce(self._told)
                self._serve()
            finally:
                self._stop()

    @contextlib.contextmanager
    def _gathered(self, listener: socket.socket) -> Iterator[None]:
        """What the parent watches: signals, the listener, and its workers' words."""
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._tally, self._streams = OpenCounts(self._count), OpenCounts(self._count)
        self._siblings = Siblings(self._count)
        self._embedding = EmbeddingHost(self._siblings.embedder, self._selector)
        heard, self._wake = socket.socketpair()
        heard.setblocking(False)
        self._wake.setblocking(False)
        self._heard = heard
        self._selector.register(heard, selectors.EVENT_READ)
        kept = {number: signal.signal(number, self._signalled) for number in (signal.SIGTERM, signal.SIGINT)}
        kept[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _nothing)
        woke = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(woke)
            for number, handler in kept.items():
                signal.signal(number, handler)
            self._embedding.end()
            self._selector.close()
            heard.close()
            self._wake.close()
            self._siblings.close()

    # Start

    def _start_all(self) -> None:
        """The first alone, for it may have to make the store; then the others; then what there is to say."""
        until = time.monotonic() + START_SECONDS
        self._fork(0)
        self._wait(until, lambda: self._workers[0].serves)
        for place in range(1, self._count):
            if not self._stopping:
                self._fork(place)
        self._wait(until, lambda: all(worker.serves for worker in self._workers.values()))
        if not self._stopping:
            self._workers[0].channel.say(ANNOUNCE)
        self._wait(until, lambda: self._told is not None)

    def _wait(self, until: float, done: Callable[[], bool]) -> None:
        while not self._stopping and not done():
            if self._failed is not None:
                raise StartFailed(self._failed)
            if self._again:
                raise StartFailed("A worker ended while it started; see its messages above.")
            if time.monotonic() > until:
                raise StartFailed(f"A worker was not ready within {START_SECONDS:.0f} seconds; see its messages above.")
            self._turn(1.0)

    def _fork(self, place: int) -> None:
        mine, theirs = channels()
        # What is printed before would be printed by both.
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self._become_child(mine)
                open_here, streams_here = self._tally.of(place), self._streams.of(place)
                code = work(
                    Workplace(self._settings, self._url, place, theirs, open_here, streams_here, self._siblings)
                )
            finally:
                os._exit(code)
        theirs.close()
        worker = self._workers[place] = _Worker(place, pid, mine, time.monotonic())
        self._selector.register(mine.fileno(), selectors.EVENT_READ, worker)

    def _become_child(self, mine: Channel) -> None:
        """Keep nothing of the parent's: another worker would not notice that the parent is gone."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for worker in self._workers.values():
            worker.channel.close()
            for connection in worker.handing:
                connection.close()
        for each in (mine, self._listener, self._heard, self._wake, self._embedding):
            each.close()

    # Serving

    def _serve(self) -> None:
        while not self._stopping:
            self._accept_where_possible()
            now = time.monotonic()
            for place, at in list(self._again.items()):
                if at <= now:
                    del self._again[place]
                    self._fork(place)
            self._turn(min((at - now for at in self._again.values()), default=60.0))

    def _accept_where_possible(self) -> None:
        """Let connections wait in the system's queue while no worker serves."""
        wanted = any(worker.serves for worker in self._workers.values())
        if wanted and not self._accepting:
            self._selector.register(self._listener, selectors.EVENT_READ, self._listener)
        elif self._accepting and not wanted:
            self._selector.unregister(self._listener)
        self._accepting = wanted

    def _turn(self, seconds: float) -> None:
        """Look once at everything that is watched, and at who has died."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            if key.data is self._listener:
                self._accept()
            elif key.data is self._embedding:
                self._embedding.start()
            elif isinstance(key.data, _Worker):
                self._listen_to(key.data)
            else:
                with contextlib.suppress(BlockingIOError):
                    while self._heard.recv(256):
                        pass
        self._embedding.look()
        self._bury()

    def _accept(self) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            except OSError as problem:
                _log.warning("a connection could not be accepted: %s", problem.strerror)
                time.sleep(BREATH_SECONDS)
                return
            self._hand_out(connection)

    def _hand_out(self, connection: socket.socket) -> None:
        """To the worker with the fewest; where several have as few, to each in turn."""
        self._next += 1
        serving = [worker for worker in self._workers.values() if worker.serves]
        serving.sort(key=lambda worker: (self._load(worker), (worker.place - self._next) % self._count))
        for worker in serving:
            if worker.channel.hand(connection):
                worker.handed += 1
                worker.handing.append(connection)
                return
        # No worker takes any: its client tries again, as with a server that is full.
        connection.close()
        time.sleep(BREATH_SECONDS)

    def _load(self, worker: _Worker) -> int:
        return self._tally.open(worker.place) + worker.handed - worker.taken

    def _listen_to(self, worker: _Worker) -> None:
        for said in worker.channel.heard() or ():
            if said.kind == READY:
                worker.serves = True
            elif said.kind == TAKEN:
                worker.taken = int(said.text)
                while len(worker.handing) > worker.handed - worker.taken:
                    worker.handing.popleft().close()
            elif said.kind == FAILED:
                self._failed = said.text
            elif said.kind == ANNOUNCED:
                self._told = Ready(**json.loads(said.text))

    # Ends

    def _bury(self) -> None:
        """Notice who has died; what they did not take goes to the others."""
        for worker in list(self._workers.values()):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            self._listen_to(worker)
            del self._workers[worker.place]
            self._selector.unregister(worker.channel.fileno())
            worker.channel.close()
            self._tally.forget(worker.place)
            self._streams.forget(worker.place)
            if not self._stopping:
                self._expect_another(worker, os.waitstatus_to_exitcode(status))
            for connection in worker.handing:
                self._hand_out(connection)

    def _expect_another(self, worker: _Worker, code: int) -> None:
        now = time.monotonic()
        short = self._short_lives.get(worker.place, 0) + 1 if now - worker.began < SHORT_LIFE_SECONDS else 0
        self._short_lives[worker.place] = short
        pause = min(LONGEST_PAUSE_SECONDS, 0.25 * 2**short) if short else 0.0
        self._again[worker.place] = now + pause
        facts = {"worker": worker.place, "pid": worker.pid, "exit_code": code, "why": self._failed}
        if self._told is not None:
            self._failed = None
        _log.error("a worker ended; another is started in its place", extra=facts)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _stop(self) -> None:
        """Take nothing new, have the workers finish, and wait for them."""
        self._stopping = True
        if self._accepting:
            self._selector.unregister(self._listener)
            self._accepting = False
        self._listener.close()
        for worker in self._workers.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGTERM)
        while self._workers:
            self._turn(0.2)


def _nothing(number: int, frame: FrameType | None) -> None:
    """A child ended: the parent wakes up and looks."""
