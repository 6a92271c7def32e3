"""Owns walking a history: what came since what is known, oldest first and in batches, and what went. In the child."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import pygit2
from pygit2.enums import SortMode

from holdfast.engines.git.reading.commits import CommitReader
from holdfast.engines.git.reading.repository import ReadingProblem, find_commit

Send = Callable[[object], None]
Ask = Callable[[], Collection[bytes]]

_BATCH = 200
_BATCH_CHARACTERS = 1_000_000


def walk(repo: pygit2.Repository, head: str, limits: dict[str, Any], known_head: str, ask: Ask, send: Send) -> None:
    """Send what came since what is known, in batches, then what went."""
    if not head:
        _send_removed(ask(), send)
        return
    start = find_commit(repo, head)
    if known_head and _is_ancestor(repo, known_head, start):
        send({"total": _count(_walker(repo, start, known_head))})
        _send_rows(CommitReader(repo, limits), _walker(repo, start, known_head), send)
        return
    known = set(ask())
    total = 0
    gone = set(known)
    for commit in repo.walk(start.id, SortMode.NONE):
        sha = commit.id.raw
        total += sha not in known
        gone.discard(sha)
    send({"total": total})
    fresh = (commit for commit in _walker(repo, start, "") if commit.id.raw not in known)
    _send_rows(CommitReader(repo, limits), fresh, send)
    _send_removed(gone, send)


def _walker(repo: pygit2.Repository, start: pygit2.Commit, hidden: str) -> Iterable[pygit2.Commit]:
    walker = repo.walk(start.id, SortMode.TOPOLOGICAL | SortMode.REVERSE)
    if hidden:
        walker.hide(pygit2.Oid(hex=hidden))
    return walker


def _count(commits: Iterable[object]) -> int:
    return sum(1 for _ in commits)


def _is_ancestor(repo: pygit2.Repository, sha: str, head: pygit2.Commit) -> bool:
    try:
        older = find_commit(repo, sha)
        return older.id == head.id or repo.descendant_of(head.id, older.id)
    except (ReadingProblem, pygit2.GitError):
        return False


def _send_rows(reader: CommitReader, commits: Iterable[pygit2.Commit], send: Send) -> None:
    held: list[list[Any]] = []
    size = 0
    for commit in commits:
        row = reader.row(commit)
        held.append(row)
        size += len(row[6]) + len(row[7]) + 100 * len(row[8])
        if len(held) == _BATCH or size > _BATCH_CHARACTERS:
            send({"added": held})
            held, size = [], 0
    if held:
        send({"added": held})


def _send_removed(gone: Collection[bytes], send: Send) -> None:
    for batch in _batches(gone, 5_000):
        send({"removed": [sha.hex() for sha in batch]})


def _batches(values: Collection[bytes], size: int) -> Iterator[list[bytes]]:
    held: list[bytes] = []
    for value in values:
        held.append(value)
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held
