"""Owns the summing of repeated refusals, so that a caller who goes on asking after a refusal fills no disk."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.clock import Clock
from holdfast.core.principal import Principal
from holdfast.storage.database import Tx

if TYPE_CHECKING:
    from holdfast.features.audit.service import Audit

WINDOW_MILLIS = 60_000
MAX_WINDOWS = 10_000


@dataclass(frozen=True, slots=True)
class Denial:
    """A refusal as it is repeated: who was refused what, and why."""

    principal: Principal
    action: str
    resource: str
    resource_id: str
    workspace_id: str | None
    reason: str

    def record(self, audit: "Audit", tx: Tx, *, times: int) -> None:
        """Append it to the trail."""
        audit.record(
            tx,
            self.principal,
            self.action,
            resource=self.resource,
            resource_id=self.resource_id,
            workspace_id=self.workspace_id,
            outcome="denied",
            detail={"reason": self.reason} if self.reason else {},
            times=times,
        )


@dataclass(slots=True)
class _Window:
    opened_at: int
    repeats: int = 0


class Denials:
    """The refusals of the last minute. What it sums is lost if the process is killed; each first one never is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[Denial, _Window] = {}

    def note(
        self,
        principal: Principal,
        action: str,
        resource: str,
        resource_id: str,
        workspace_id: str | None,
        reason: str,
    ) -> Denial | None:
        """The denial if it is the first in its minute; None when it was only counted."""
        denial = Denial(principal, action, resource, resource_id, workspace_id, reason)
        window = self._windows.get(denial)
        if window is not None and self._open(window):
            window.repeats += 1
            return None
        if window is None and len(self._windows) >= MAX_WINDOWS:
            return denial
        # A window that has closed with repeats still to write stays open for one more event instead.
        if window is not None and window.repeats:
            window.repeats += 1
            return None
        self._windows[denial] = _Window(self._clock.now())
        return denial

    def due(self, *, everything: bool) -> list[tuple[Denial, int]]:
        """Denials whose minute is over (or all), with the number of their repeats; they are forgotten here."""
        over = [denial for denial, window in self._windows.items() if everything or not self._open(window)]
        return [(denial, window.repeats) for denial in over if (window := self._windows.pop(denial)).repeats]

    def _open(self, window: _Window) -> bool:
        # A clock that was set back must not keep a window open for hours.
        return 0 <= self._clock.now() - window.opened_at < WINDOW_MILLIS
