"""Owns the values of work items: cases, their criteria, claims, links, comments and history."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from holdfast.core.clock import iso
from holdfast.core.errors import Conflict, NotFound
from holdfast.features.cases.states import ACTIVE, Kind, State

LinkType = Literal["blocks", "related", "discovered_from"]
LINK_TYPES: tuple[LinkType, ...] = get_args(LinkType)

HIGHEST, LOWEST, USUAL = 0, 4, 2
"""Priorities: 0 comes first."""
MAX_BODY = 50_000
MAX_CRITERIA = 100
MAX_CRITERION = 2_000
MAX_LABELS = 50
MAX_LABEL = 80
MAX_REASON = 4_000
MAX_COMMENT = 20_000


class CaseNotFound(NotFound):
    def __init__(self, id: str) -> None:
        super().__init__("case", id)


class NothingReady(NotFound):
    """Nothing waits for somebody to take it."""

    code = "nothing_ready"

    def __init__(self) -> None:
        super().__init__("case", "ready")
        self.message = "No case is ready: each is claimed, blocked or over. Ask again later."
        self.args = (self.message,)


class CaseVersionConflict(Conflict):
    """Somebody changed the case in between."""

    code = "version_conflict"

    def __init__(self, case: "Case", expected: int) -> None:
        super().__init__(
            f"The case is at version {case.version}, not {expected}: read it again, then decide anew.",
        )


class LinkCycle(Conflict):
    """The link would close a circle; the message walks it."""

    code = "cycle"

    def __init__(self, path: list[str], word: str) -> None:
        super().__init__(f"That would be a circle: {f' {word} '.join(path)}.")
        self.path = tuple(path)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that has to be shown before a case is done."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class CaseClaim:
    """Who works on a case, and until when nobody else does. Each claim has a higher fence than the one before."""

    holder: str
    holder_name: str
    session_id: str | None
    expires_at: int
    fence: int


class Held(Conflict):
    """Somebody holds the case; the message says who, and until when."""

    code = "held"

    def __init__(self, claim: CaseClaim | None, given: int | None = None) -> None:
        stale = "" if given is None else f"The fence {given} is no longer good. "
        if claim is None:
            super().__init__(f"{stale}Nobody holds the case now: claim it again, then go on.")
        else:
            who = claim.holder_name or claim.holder
            session = f", session {claim.session_id}" if claim.session_id else ""
            super().__init__(
                f"{stale}The case is held by {who} ({claim.holder}{session}) until {iso(claim.expires_at)}, "
                f"fence {claim.fence}."
            )
        self.claim = claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A work item on record."""

    id: str
    workspace_id: str
    title: str
    body: str
    kind: Kind
    state: State
    blocked_from: State | None
    """Where it was before it was blocked, and goes back to."""
    reason: str
    """Why it is blocked or cancelled."""
    priority: int
    criteria: tuple[Criterion, ...]
    labels: tuple[str, ...]
    assignee: str | None
    due_at: int | None
    repository: str | None
    base_commit: str | None
    head_commit: str | None
    environment: str | None
    parent: str | None
    source: str | None
    """The issue that it was made from, such as `acme/shop#12`."""
    last_claim: CaseClaim | None
    """The newest claim, be it over or not."""
    fence: int
    version: int
    author: str
    author_name: str
    created_at: int
    updated_at: int

    def claim(self, now: int) -> CaseClaim | None:
        """Who holds it now."""
        held = self.last_claim
        return held if held is not None and held.expires_at > now else None

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE


@dataclass(frozen=True, slots=True)
class NewLink:
    """A tie to another case."""

    type: LinkType
    case_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCase:
    """What somebody wants done."""

    title: str
    body: str = ""
    kind: Kind = "task"
    priority: int = USUAL
    criteria: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    assignee: str | None = None
    due_at: int | None = None
    repository: str | None = None
    base_commit: str | None = None
    head_commit: str | None = None
    environment: str | None = None
    parent: str | None = None
    links: tuple[NewLink, ...] = ()
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Writing:
    """How a write proves that it still knows the case: the version it read, the fence of its claim."""

    expected_version: int | None = None
    fence: int | None = None


@dataclass(frozen=True, slots=True)
class CaseLink:
    """A tie between two cases, as it was told."""

    from_id: str
    type: LinkType
    to_id: str


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Something that happened to a case: who, when, and why."""

    version: int
    at: int
    actor: str
    actor_name: str
    action: str
    from_state: State | None
    to_state: State | None
    reason: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Comment:
    """What somebody remarked; `mentions` are the names after an @ in it."""

    id: str
    case_id: str
    at: int
    author: str
    author_name: str
    text: str
    mentions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaseFilter:
    """Which cases; None is no restriction."""

    state: State | None = None
    kind: Kind | None = None
    label: str | None = None
    assignee: str | None = None
    parent: str | None = None
    repository: str | None = None


@dataclass(frozen=True, slots=True)
class Taking:
    """How somebody takes a case: for which session, and for how long."""

    session_id: str | None = None
    lease_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class CaseDetail:
    """A case with all that belongs to it."""

    case: Case
    claim: CaseClaim | None
    links: tuple[CaseLink, ...]
    blocked_by: tuple[str, ...]
    children: tuple[str, ...]
    history: tuple[HistoryEntry, ...]
    comments: tuple[Comment, ...]
