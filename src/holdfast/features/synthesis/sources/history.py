"""Owns the one walk over a repository's commits: what changed how often, by whom, what together, and what was decided.

The walk is from the newest commit to the oldest, so that a rename is known before the commits under the old name. What
it keeps grows with the files, the people and the tags, never with the number of commits."""

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from holdfast.engines.git.model import Commit
from holdfast.features.synthesis.sources import cues
from holdfast.features.synthesis.sources.quoting import shortened
from holdfast.features.synthesis.sources.touching import touched

HALF_LIFE_DAYS = 180.0
MOST_CANDIDATES = 300
MOST_REVERTS = 500
_DAY = 86_400_000
_MONTH = 30 * _DAY
_SPREAD = 25
"""A commit over more files than this says nothing about what belongs together."""
_LAST_FIXES = 3
_SUBJECTS = 8


@dataclass(slots=True)
class FileHistory:
    """What happened to a file that is still there."""

    commits: int = 0
    weight: float = 0.0
    """Its commits, a recent one counting 1 and older ones less."""
    lines: int = 0
    last: str = ""
    last_at: int = 0
    fixes: list[tuple[str, str]] = field(default_factory=list)
    added: str = ""
    added_at: int = 0


@dataclass(slots=True)
class Share:
    """What a person did in a directory."""

    weight: float = 0.0
    commits: int = 0
    lines: int = 0
    last_at: int = 0


@dataclass(frozen=True, slots=True)
class DecisionCandidate:
    """A commit that tells of a decision."""

    sha: str
    at: int
    author: str
    telling: cues.Telling
    pull: str | None = None
    reverts: str = ""
    """What it takes back: the beginning of a hash, or the subject where no hash is given."""
    reason: str = ""

    @property
    def order(self) -> tuple[float, int, str]:
        return self.telling.score, self.at, self.sha


@dataclass(slots=True)
class TagSpan:
    """What lies between two tags."""

    commits: int = 0
    people: Counter[str] = field(default_factory=Counter)
    subjects: list[tuple[float, int, str, str]] = field(default_factory=list)
    """The most telling commits: (score, moment, hash, subject)."""


class History:
    """The fold. `components` names the component of a path that is at the head; None for others."""

    def __init__(
        self,
        paths: Iterable[str],
        component_of: Callable[[str], str | None],
        boundaries: Sequence[int],
        *,
        until: int,
        kept: Collection[str] = (),
        placed: Mapping[str, int] | None = None,
    ) -> None:
        """`boundaries` are the tags' moments in ascending order; `kept` are commits that are findings already.

        `placed` has the numbers of the spans of those commits whose moment does not tell."""
        self.files: dict[str, FileHistory] = {path: FileHistory() for path in paths}
        self.people: dict[str, dict[str, Share]] = defaultdict(dict)
        self.together: Counter[tuple[str, str]] = Counter()
        self.touched: Counter[str] = Counter()
        self.spans: list[TagSpan] = [TagSpan() for _ in range(len(boundaries) + 1)]
        self.commits = 0
        self.reverts: dict[str, str] = {}
        self._names: dict[str, str] = {path: path for path in self.files}
        self._component_of = component_of
        self._boundaries = boundaries
        # Weights change once a month rather than with every commit, and so do the pages made of them.
        self._now = until // _MONTH * _MONTH
        self._kept = kept
        self._placed = placed or {}
        self._best: list[tuple[tuple[float, int, str], DecisionCandidate]] = []
        self._always: list[DecisionCandidate] = []

    @property
    def candidates(self) -> list[DecisionCandidate]:
        """The most telling commits, best first, and those that are findings already."""
        found = {candidate.sha: candidate for _, candidate in self._best}
        found |= {candidate.sha: candidate for candidate in self._always}
        return sorted(found.values(), key=lambda candidate: candidate.order, reverse=True)

    def add(self, commit: Commit) -> None:
        """Take in the next older commit."""
        self.commits += 1
        author = "" if cues.is_bot(commit.author) or cues.is_bot(commit.email) else person(commit)
        self._add_span(commit, author)
        self._add_changes(commit, author)
        if author:
            self._add_candidate(commit)

    def _add_span(self, commit: Commit, author: str) -> None:
        number = self._placed.get(commit.sha)
        span = self.spans[bisect_left(self._boundaries, commit.committed_at) if number is None else number]
        if len(commit.parents) > 1:
            return
        span.commits += 1
        if author:
            span.people[author] += 1
        size = sum(change.insertions + change.deletions for change in commit.changes)
        score = min(size, 2000) / 100 - (20 if cues.is_small(commit.subject) or not author else 0)
        _keep_best(span.subjects, (score, commit.committed_at, commit.sha, commit.subject), _SUBJECTS)

    def _add_changes(self, commit: Commit, author: str) -> None:
        weight = 0.5 ** (max(self._now - commit.committed_at, 0) / _DAY / HALF_LIFE_DAYS)
        fixes = cues.is_fix(commit.subject)
        components: set[str] = set()
        for change in commit.changes:
            path = self._names.get(change.path)
            if path is None:
                continue
            if change.status == "R" and change.old_path:
                self._names.setdefault(change.old_path, path)
            known = self.files[path]
            lines = change.insertions + change.deletions
            if not known.commits:
                known.last, known.last_at = commit.sha, commit.committed_at
            known.commits += 1
            known.weight += weight
            known.lines += lines
            known.added, known.added_at = commit.sha, commit.committed_at
            if fixes and len(known.fixes) < _LAST_FIXES:
                known.fixes.append((commit.sha, shortened(commit.subject, 100)))
            component = self._component_of(path)
            if component is not None:
                components.add(component)
                if author:
                    self._credit(component, author, weight * (1 + min(lines, 500) / 50), lines, commit.committed_at)
        if author:
            for component in components:
                self.people[component][author].commits += 1
        self.touched.update(components)
        if 2 <= len(commit.changes) <= _SPREAD:
            self.together.update(combinations(sorted(components), 2))

    def _credit(self, component: str, author: str, weight: float, lines: int, at: int) -> None:
        share = self.people[component].setdefault(author, Share())
        share.weight += weight
        share.lines += lines
        share.last_at = max(share.last_at, at)

    def _add_candidate(self, commit: Commit) -> None:
        back = cues.reverted(commit.subject, commit.body)
        pull = cues.pull_number(commit.subject)
        if back is not None:
            what, sha = back
            if len(self.reverts) < MOST_REVERTS:
                self.reverts[sha or what] = commit.sha
            reason = cues.reason_of_revert(commit.body)
            told = cues.of_revert(what, reason, of=touched(change.path for change in commit.changes))
            if told.score >= cues.LEAST_SCORE:
                self._keep(
                    DecisionCandidate(commit.sha, commit.authored_at, commit.author, told, pull, sha or what, reason)
                )
            return
        size = min(len(commit.changes) + commit.more_changes, 30) / 5
        of = touched(change.path for change in commit.changes)
        told = cues.tell(commit.subject, commit.body, of=of, weight=size)
        if told.quotes and told.score >= cues.LEAST_SCORE:
            self._keep(DecisionCandidate(commit.sha, commit.authored_at, commit.author, told, pull))

    def _keep(self, candidate: DecisionCandidate) -> None:
        if candidate.sha in self._kept:
            self._always.append(candidate)
            return
        _keep_best(self._best, (candidate.order, candidate), MOST_CANDIDATES)


def person(commit: Commit) -> str:
    """How people call an author: a whole name is one person whatever the address."""
    name = " ".join(commit.author.split())
    return name or commit.email.partition("@")[0] or "unknown"


def merged(people: Mapping[str, Mapping[str, Share]]) -> dict[str, Share]:
    """What each person did in all components together."""
    total: dict[str, Share] = {}
    for shares in people.values():
        for name, share in shares.items():
            known = total.setdefault(name, Share())
            known.weight += share.weight
            known.commits += share.commits
            known.lines += share.lines
            known.last_at = max(known.last_at, share.last_at)
    return total


def _keep_best(heap: list[Any], item: Any, most: int) -> None:
    if len(heap) < most:
        heapq.heappush(heap, item)
    elif item > heap[0]:
        heapq.heapreplace(heap, item)
