"""Owns limits and amounts: what a limit is, what taking from one answers, and what is counted."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.core.errors import RateLimited

UsageKind = Literal["requests", "tool_calls", "model_calls", "tokens_in", "tokens_out", "cost"]
Grouping = Literal["week", "day", "actor", "project", "workspace", "source", "model", "kind"]
KINDS: tuple[UsageKind, ...] = get_args(UsageKind)
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

DAY_MILLIS = 86_400_000
WEEK_MILLIS = 7 * DAY_MILLIS


@dataclass(frozen=True, slots=True)
class Limit:
    """`count` at once, and as many again over `per_seconds`."""

    count: int
    per_seconds: float

    def __post_init__(self) -> None:
        if self.count < 1 or not self.per_seconds > 0:
            raise ValueError(f"A limit is at least one in some time, not {self.count} per {self.per_seconds} s.")


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer of the limiter. `reset_at` (milliseconds) is when the whole limit is there again."""

    allowed: bool
    limit: int
    remaining: int
    reset_at: int
    retry_after_seconds: float

    def headers(self) -> dict[str, str]:
        """The headers that tell a client where it stands; `Retry-After` only when it was refused."""
        headers = {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(math.ceil(self.reset_at / 1000)),
        }
        if not self.allowed:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after_seconds)))
        return headers

    def check(self, what: str = "requests") -> None:
        """Raise RateLimited, with the headers, unless allowed."""
        if not self.allowed:
            wait = max(1, math.ceil(self.retry_after_seconds))
            raise RateLimited(
                f"Too many {what}: the limit is {self.limit}; try again in {wait} s.", headers=self.headers()
            )


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which usage to sum; None means any. Times are rounded down to days."""

    since: int | None = None
    until: int | None = None
    actor: str | None = None
    project_id: str | None = None
    workspace_id: str | None = None
    source: str | None = None
    model: str | None = None
    kind: UsageKind | None = None


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A sum. Fields that were not grouped by are None."""

    kind: UsageKind
    amount: float
    week: int | None = None
    day: int | None = None
    actor: str | None = None
    project_id: str | None = None
    workspace_id: str | None = None
    source: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """One call that used a model, as it is logged."""

    id: str
    organization_id: str
    at: int
    actor: str
    project_id: str
    workspace_id: str
    source: str
    operation: str
    model: str
    tokens_in: int
    tokens_out: int
    cost: float


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left of a week's tokens. The week ends on Monday 00:00 UTC."""

    limit: int
    used: int
    resets_at: int

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)


def day_of(millis: int) -> int:
    """The UTC midnight that began the day."""
    return millis // DAY_MILLIS * DAY_MILLIS


def week_of(millis: int) -> int:
    """The Monday 00:00 UTC that began the week (the epoch was a Thursday)."""
    return day_of(millis) - (millis // DAY_MILLIS + 3) % 7 * DAY_MILLIS
