"""Owns what the search engine is told and what it answers: entries, queries and hits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.text.counting import many

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece of text to be found again. (workspace, type, id, part) names it; putting it again replaces it."""

    workspace_id: str
    type: str
    id: str
    title: str
    text: str
    learned_at: int
    part: int = 0
    """The chunk's number within the entity."""
    occurred_at: int | None = None
    """When it was true or happened, where that is known."""
    author: str = ""
    """The person or agent whose words these are; a query that names them prefers them."""
    source: str = ""
    """What it is part of (a session, a document): entries of one source at adjacent positions are neighbours."""
    position: int = 0
    valid_until: int | None = None
    """From then on it is no longer part of present answers; `as_of` still finds it."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Provenance shown on hits: slug, url, path, category, trust."""
    collection: str = ""
    """What whole it belongs to, such as a repository; a query can be narrowed to some."""
    spoken: bool = False
    """Whether its source is a conversation: then it is also found by what was said around it."""
    codes: bytes | None = field(default=None, compare=False, repr=False)
    """The words of its title and text where they were read before the transaction: see `SearchEngine.codes`."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question to one workspace."""

    workspace_id: str
    text: str
    types: frozenset[str] | None = None
    limit: int = 10
    as_of: int | None = None
    """Answer with what was known at that moment."""
    meta: Mapping[str, Scalar | frozenset[str]] = field(default_factory=dict)
    """Only entries whose provenance has these values; a set means any of them."""
    ids: frozenset[str] | None = None
    """Only entries of these entities."""
    collections: frozenset[str] | None = None
    """Only entries of these collections."""
    snippets: bool = True
    """Whether hits show the passage that matched; callers that show the whole text spare the work."""
    explain: bool = False
    """Whether hits tell what made their place."""


@dataclass(frozen=True, slots=True)
class VectorCount:
    """How many entries of a collection have a vector of the present embedder, and how many wait for one."""

    vectors: int
    waiting: int
    seconds: float | None = None
    """How long it takes until none waits, at the rate measured last; None where that is not known."""

    @property
    def said(self) -> str:
        """What people are told while some wait; empty when none does."""
        if not self.waiting:
            return ""
        waits = f"{many(self.waiting, 'passage')} {'waits' if self.waiting == 1 else 'wait'} for vectors"
        return f"{waits} and {'is' if self.waiting == 1 else 'are'} found by words only; {self._left}."

    @property
    def _left(self) -> str:
        if self.seconds is None:
            return "how long it takes is not known, since none was embedded in the last ten minutes"
        if self.seconds < 90:
            left = max(1, round(self.seconds))
            return f"about {many(left, 'second')} {'is' if left == 1 else 'are'} left at the present rate"
        return f"about {many(round(self.seconds / 60), 'minute')} are left at the present rate"


@dataclass(frozen=True, slots=True)
class Hit:
    """One found entry. `score` is 0–1 and means the same for every type: 0.3 separates what is about the query."""

    type: str
    id: str
    part: int
    title: str
    snippet: str
    """The passage that matched, its matching words between `**`."""
    score: float
    learned_at: int
    occurred_at: int | None
    meta: Mapping[str, Any]
    author: str = ""
    source: str = ""
    text: str = ""
    """The whole entry, for callers that read on."""
    valid_until: int | None = None
    collection: str = ""
    explanation: Mapping[str, float] = field(default_factory=dict)
    """What each feature added to what it is ordered by, and what its score is made of, where that was asked for."""
