"""Owns the values of project intelligence: decisions, milestones, relations, and what is drawn from them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.principal import Principal
from holdfast.registry.entities import Source

Status = Literal["proposed", "open", "accepted", "rejected", "deferred", "superseded"]
STATUSES: tuple[Status, ...] = get_args(Status)
UNDECIDED: frozenset[Status] = frozenset({"proposed", "open"})
"""A blocking decision with one of these holds work up."""

MAX_TITLE = 300
MAX_TEXT = 20_000
MAX_ALTERNATIVES = 30
MAX_NOTE = 2_000


class DecisionNotFound(NotFound):
    def __init__(self, id: str) -> None:
        super().__init__("decision", id)


class MilestoneNotFound(NotFound):
    def __init__(self, id: str) -> None:
        super().__init__("milestone", id)


class RelationNotFound(NotFound):
    def __init__(self, id: str) -> None:
        super().__init__("relation", id)


@dataclass(frozen=True, slots=True)
class NewDecision:
    """What somebody decided, or has to."""

    title: str
    rationale: str = ""
    alternatives: tuple[str, ...] = ()
    status: Status | None = None
    """Accepted where not said; open where it blocks."""
    blocking: bool = False
    supersedes: str | None = None
    decided_at: int | None = None


@dataclass(frozen=True, slots=True)
class DecisionEdit:
    """The fields to change; None leaves a field as it is."""

    title: str | None = None
    rationale: str | None = None
    alternatives: tuple[str, ...] | None = None
    status: Status | None = None
    blocking: bool | None = None
    decided_at: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision on record."""

    id: str
    workspace_id: str
    title: str
    rationale: str
    alternatives: tuple[str, ...]
    status: Status
    blocking: bool
    decided_at: int
    supersedes: str | None
    superseded_by: str | None
    superseded_at: int | None
    author: str
    author_name: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class NewMilestone:
    """Something the team reached."""

    title: str
    type: str = "milestone"
    description: str = ""
    occurred_at: int | None = None
    decisions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MilestoneEdit:
    """The fields to change; None leaves a field as it is. `decisions` names all that it relates to from now on."""

    title: str | None = None
    type: str | None = None
    description: str | None = None
    occurred_at: int | None = None
    decisions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Milestone:
    """A milestone on record; `decisions` are the decisions that any relation ties it to."""

    id: str
    workspace_id: str
    title: str
    type: str
    description: str
    occurred_at: int
    decisions: tuple[str, ...]
    author: str
    author_name: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Ref:
    """Any entity of a workspace, by type and id."""

    type: str
    id: str


@dataclass(frozen=True, slots=True)
class NewRelation:
    """A typed tie between two entities that exist."""

    start: Ref
    end: Ref
    relation: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """A tie on record, as it was told."""

    id: str
    workspace_id: str
    start: Ref
    end: Ref
    relation: str
    note: str
    author: str
    created_at: int


class DuplicateRelation(Conflict):
    """The same is on record, perhaps told from the other end."""

    code = "duplicate_relation"

    def __init__(self, relation: Relation) -> None:
        said = f"{relation.start.id} {relation.relation} {relation.end.id}"
        super().__init__(f"This is known already: {said} ({relation.id}).")
        self.relation = relation


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """Which decisions; None is no restriction."""

    status: Status | None = None
    blocking: bool | None = None
    since: int | None = None
    until: int | None = None
    as_of: int | None = None
    """As it stood at that moment: known by then and not superseded yet."""


@dataclass(frozen=True, slots=True)
class MilestoneFilter:
    """Which milestones; None is no restriction."""

    type: str | None = None
    since: int | None = None
    until: int | None = None
    decision: str | None = None


@dataclass(frozen=True, slots=True)
class FoundDecision:
    """A decision that answers a question; `score` is None where the list is simply by time."""

    decision: Decision
    score: float | None = None
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """Which part of the graph. Without a centre: the newest, with everything that relates to it."""

    centre: str | None = None
    depth: int = 2
    types: frozenset[str] | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An entity in the graph. `at` is when it happened, where we know."""

    id: str
    type: str
    title: str
    status: str | None = None
    at: int | None = None
    distance: int | None = None
    """Relations away from the centre, where there is one."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Entities and the relations among them; `truncated` when the limit left some out."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[Relation, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a brief."""

    id: str
    type: str
    title: str
    detail: str
    status: str
    at: int


SECTIONS = ("blockers", "decisions", "milestones", "connections", "memories", "repositories")


@dataclass(frozen=True, slots=True)
class Brief:
    """Where the project stands, within a token budget: the most useful first in each section."""

    workspace_id: str
    workspace_name: str
    sections: Mapping[str, tuple[Item, ...]]
    omitted: Mapping[str, int]
    """How many of each section the budget left out."""
    markdown: str
    tokens: int
    budget_tokens: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """A synthesis in Markdown; source number n is cited as [n]."""

    markdown: str
    sources: tuple[Source, ...]
    mode: Literal["model", "extractive"]
    tokens: int
    budget_tokens: int


Model = Callable[[Principal, str, str, int], Awaitable[str]]
"""(who asks, workspace id, prompt, most tokens to write) → what a language model wrote."""
