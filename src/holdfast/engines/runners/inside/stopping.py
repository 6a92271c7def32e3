"""Owns being interrupted: whoever waits for something says how to break that off."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """A person asked to stop."""


class Stopping:
    """Whether a turn is to end, and what has to be broken off for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._breaks: list[Callable[[], None]] = []

    def begin(self) -> None:
        """A new turn: what was asked before is over."""
        with self._lock:
            self._asked.clear()

    def stop(self) -> None:
        """End the turn."""
        with self._lock:
            self._asked.set()
            breaks = list(self._breaks)
        for break_off in breaks:
            break_off()

    def check(self) -> None:
        """Interrupted where the turn is to end."""
        if self._asked.is_set():
            raise Interrupted

    def pause(self, seconds: float) -> None:
        """Wait so long; Interrupted at once where the turn is to end meanwhile."""
        if self._asked.wait(seconds):
            raise Interrupted

    @contextmanager
    def breaking(self, break_off: Callable[[], None]) -> Iterator[None]:
        """While something is waited for that this breaks off."""
        with self._lock:
            self._breaks.append(break_off)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._breaks.remove(break_off)
