"""Owns what a repository's rows and a query's hits say about its files, gathered for ranking."""

from collections.abc import Iterable, Mapping, Sequence, Set

from holdfast.engines.git.model import Commit
from holdfast.engines.search import Hit
from holdfast.features.repositories.finding.file_ranking import FileEvidence, Past
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.model import COMMIT, FILE, Match, Repository
from holdfast.storage.database import Tx

RECENT_COMMITS = 400
LONGEST_CHAIN = 8


def gathered(
    tx: Tx,
    repository: Repository,
    now: int,
    passages: Sequence[Hit],
    past: Sequence[Hit],
    named: Sequence[Match],
) -> FileEvidence:
    """What speaks for the files of one repository, of hits that may be of several."""
    current = history_store.blobs(tx, repository.id).keys()
    recent = history_store.page_commits(tx, repository.id, limit=RECENT_COMMITS)
    scores = {_name(repository, hit): hit.score for hit in past if _is(repository, hit, COMMIT)}
    commits = history_store.commits(tx, repository.id, list(scores))
    renamed = _renames([*reversed(recent), *commits])
    # Of several passages the most alike counts, which comes first.
    pulls = {_name(repository, hit): hit.score for hit in reversed(past) if _is(repository, hit, "pull_request")}
    alike = [_past(commit, current, renamed, scores[commit.sha]) for commit in commits]
    for number, score in pulls.items():
        item = item_store.find_item(tx, repository.id, "pull_request", number)
        # A pull request whose merge is known would speak twice.
        if item is not None and item.commit not in scores:
            paths = _now_called(item.files, current, renamed)
            alike.append(Past(f"pr:{number}", paths, max(1, len(item.files)), item.merged_at or item.created_at, score))
    return FileEvidence(
        now=now,
        passages=[(_name(repository, hit), hit.score) for hit in passages if _is(repository, hit, FILE)],
        alike=sorted(alike, key=lambda each: -each.score),
        recent=[_past(commit, current, renamed, 0.0) for commit in recent],
        named=frozenset(match.path for match in named if match.path),
    )


def _is(repository: Repository, hit: Hit, type: str) -> bool:
    return hit.collection == repository.id and hit.type == type


def _name(repository: Repository, hit: Hit) -> str:
    return hit.id.removeprefix(f"{repository.id}/")


def _past(commit: Commit, current: Set[str], renamed: Mapping[str, str], score: float) -> Past:
    paths = _now_called((change.path for change in commit.changes), current, renamed)
    breadth = max(1, len(commit.changes) + commit.more_changes)
    return Past(commit.sha, paths, breadth, commit.committed_at, score)


def _renames(commits: Iterable[Commit]) -> dict[str, str]:
    return {change.old_path: change.path for commit in commits for change in commit.changes if change.old_path}


def _now_called(paths: Iterable[str], current: Set[str], renamed: Mapping[str, str]) -> frozenset[str]:
    """The present names of files, of those that are still there."""
    found = set()
    for path in paths:
        for _ in range(LONGEST_CHAIN):
            if path in current or path not in renamed:
                break
            path = renamed[path]
        found.add(path)
    return frozenset(found & current)
