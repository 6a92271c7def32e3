"""Owns the books of a soak: what was acknowledged, what failed and whether it was meant to, how long things took."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

GRACE_SECONDS = 20.0
"""So long after it ended an injury may still be felt: a process starts anew, a client finds its connection closed."""
Kinds = frozenset[str]


class Refused(Exception):
    """An answer that is no success; the kind says which."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text[:300]}")
        self.kind = kind


class SessionOver(Exception):
    """The server ended a session, as it may: its client begins another and asks anew, which is put down instead."""


@dataclass(slots=True)
class Injury:
    """Something that was done to the server, and the kinds of failures that it excuses."""

    name: str
    excuses: Kinds
    surfaces: Kinds
    """Those that it can be felt on; empty: all of them."""
    began: float
    ended: float | None = None

    def excused(self, surface: str, kind: str, began: float, ended: float) -> bool:
        """Whether a request that failed this way could not help it."""
        if self.surfaces and surface not in self.surfaces:
            return False
        until = float("inf") if self.ended is None else self.ended + GRACE_SECONDS
        return kind in self.excuses and ended >= self.began and began <= until


@dataclass(slots=True)
class Books:
    """One soak's."""

    started: float = field(default_factory=time.monotonic)
    injuries: list[Injury] = field(default_factory=list)
    acknowledged: dict[str, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    unexcused: list[str] = field(default_factory=list)
    took: list[tuple[float, str, float]] = field(default_factory=list)
    """When, on which surface, for how many seconds."""

    @contextmanager
    def injury(self, name: str, *excuses: str, surfaces: Kinds = frozenset()) -> Iterator[Injury]:
        """Something is being done; what fails meanwhile, and shortly after, in these ways was injected."""
        made = Injury(name, frozenset(excuses), surfaces, time.monotonic())
        self.injuries.append(made)
        try:
            yield made
        finally:
            made.ended = time.monotonic()

    @contextmanager
    def asking(self, surface: str) -> Iterator[None]:
        """One request; a failure is put down and goes no further."""
        began = time.monotonic()
        try:
            yield
        except SessionOver:
            raise
        except Exception as problem:  # Whatever a client runs into is what is looked for here.
            self._failed(surface, problem, began)
        else:
            now = time.monotonic()
            self.done[surface] += 1
            self.took.append((now - self.started, surface, now - began))

    def _failed(self, surface: str, problem: Exception, began: float) -> None:
        now = time.monotonic()
        while isinstance(problem, ExceptionGroup):
            inside: Exception = problem.exceptions[0]
            problem = inside
        kind = problem.kind if isinstance(problem, Refused) else "broken"
        for injury in self.injuries:
            if injury.excused(surface, kind, began, now):
                self.excused[f"{injury.name}: {surface} {kind}"] += 1
                return
        at = now - self.started
        self.unexcused.append(
            f"{at:.1f} s {surface} after {now - began:.1f} s {type(problem).__name__} {problem}"[:500]
        )
