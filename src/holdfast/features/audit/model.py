"""Owns what an audit event is, how it is searched for, and what can be wrong with a chain of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.core.errors import FieldError, Invalid

_HASH = re.compile(r"[0-9a-f]{64}")
TOPIC = "audit"
"""Below it, events name the kind of thing that was recorded: `audit.key`. Nothing of its contents is told."""
Outcome = Literal["allowed", "denied"]
ProblemKind = Literal["altered", "removed", "reordered", "added", "unproven"]


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
class ChainProblem:
    """Something wrong with a chain: which event (its id where a row is left to name) and what happened to it."""

    kind: ProblemKind
    sequence: int
    event_id: str | None
    message: str


@dataclass(frozen=True, slots=True)
class ChainHead:
    """How long a chain was at a moment and its last seal, marked by the key: it fixes everything before it."""

    organization_id: str
    sequence: int
    hash: str
    sealed_at: int
    key_id: str | None
    mac: str | None

    def __str__(self) -> str:
        return f"{self.organization_id}:{self.sequence}:{self.hash}"


@dataclass(frozen=True, slots=True)
class Witness:
    """A seal that is known from outside the store, and from where."""

    sequence: int
    hash: str
    source: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What checking a chain found. `head_hash` is worth keeping elsewhere: it fixes everything before it."""

    organization_id: str
    events: int
    unsealed: int
    head_hash: str | None
    problems: tuple[ChainProblem, ...]
    notes: tuple[str, ...] = ()
    """What could not be compared, and what is known to have happened: nobody needs to have changed anything."""

    @property
    def intact(self) -> bool:
        return not self.problems


def expected_head(text: str) -> tuple[str, Witness]:
    """The organization and the seal in a head as `holdfast audit head` prints it."""
    organization_id, _, rest = text.strip().partition(":")
    sequence, _, hash = rest.partition(":")
    if not organization_id or re.fullmatch(r"[1-9][0-9]{0,17}", sequence) is None or _HASH.fullmatch(hash) is None:
        problem = "write it as `holdfast audit head` printed it: ORGANIZATION:SEQUENCE:HASH"
        raise Invalid("The expected head cannot be read.", fields=[FieldError("expect", problem)])
    return organization_id, Witness(int(sequence), hash, "the head that you expect")
