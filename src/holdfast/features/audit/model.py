"""Owns what an audit event is, how it is searched for, and what can be wrong with a chain of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["allowed", "denied"]
ProblemKind = Literal["altered", "removed", "reordered", "added"]


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One thing that was done or refused. `sequence` and `hash` are None until it is sealed, within a second."""

    number: int
    id: str
    organization_id: str
    project_id: str | None
    workspace_id: str | None
    at: int
    actor: str
    actor_name: str
    proof: str
    action: str
    resource: str
    resource_id: str
    outcome: Outcome
    times: int
    detail: Mapping[str, Any]
    sequence: int | None
    hash: str | None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which events to show; None means any. `action` also matches everything below it: `workspace.secret`."""

    actor: str | None = None
    action: str | None = None
    resource: str | None = None
    resource_id: str | None = None
    workspace_id: str | None = None
    outcome: Outcome | None = None
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a chain: which event (its id where a row is left to name) and what happened to it."""

    kind: ProblemKind
    sequence: int
    event_id: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What checking a chain found. `head_hash` is worth keeping elsewhere: it fixes everything before it."""

    organization_id: str
    events: int
    unsealed: int
    head_hash: str | None
    problems: tuple[Problem, ...]

    @property
    def intact(self) -> bool:
        return not self.problems
