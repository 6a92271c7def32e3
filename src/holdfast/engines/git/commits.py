"""Owns reading commits: what each says and what it changed, streamed oldest first. Runs in the child."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import pygit2
from pygit2.enums import DeltaStatus, DiffFind, FileMode, ObjectType, SortMode

from holdfast.engines.extract.text import clean
from holdfast.engines.git.repository import Problem, find_commit, shallow_roots, spell, words

Send = Callable[[object], None]
Ask = Callable[[], Collection[bytes]]

_BATCH = 200
_BATCH_CHARACTERS = 1_000_000
_RENAME_PAIRS = 40_000
"""More pairs of removed and added files than this are compared by their content's hash only."""
_LETTERS = {DeltaStatus.ADDED: "A", DeltaStatus.DELETED: "D", DeltaStatus.RENAMED: "R", DeltaStatus.COPIED: "A"}
_LAST_SECOND = 253_402_300_799
"""Of the year 9999: whoever writes a commit chooses its moment, and calendars end."""


def millis(seconds: int) -> int:
    """A moment of git's in ours, within what can be kept and shown."""
    return min(max(seconds, 0), _LAST_SECOND) * 1000


class CommitReader:
    """Turns a repository's commits into rows, within the limits."""

    def __init__(self, repo: pygit2.Repository, limits: dict[str, Any]) -> None:
        self._repo = repo
        self._odb = repo.odb
        self._file_bytes: int = limits["file_bytes"]
        self._most_changes: int = limits["changes_per_commit"]
        self._most_characters: int = limits["message_characters"]
        self._cut_off = shallow_roots(repo)

    def row(self, commit: pygit2.Commit) -> list[Any]:
        """A commit in the order of the model's fields."""
        author, encoding = commit.author, commit.message_encoding
        subject, body = _parts(words(commit.raw_message, encoding))
        parents = commit.parent_ids
        sha = str(commit.id)
        changes, more = self._changes(commit, sha, parents)
        return [
            sha,
            [str(parent) for parent in parents],
            words(author.raw_name, encoding),
            words(author.raw_email, encoding),
            millis(author.time),
            millis(commit.commit_time),
            subject[: self._most_characters],
            body[: self._most_characters],
            changes,
            more,
        ]

    def diff(self, commit: pygit2.Commit, context_lines: int = 0) -> pygit2.Diff | None:
        """What a commit changed against its only parent; None for a merge and where a shallow clone was cut off."""
        parents = commit.parent_ids
        if len(parents) > 1 or str(commit.id) in self._cut_off:
            return None
        if not parents:
            return commit.tree.diff_to_tree(context_lines=context_lines, swap=True)
        parent = self._repo.get(parents[0])
        if not isinstance(parent, pygit2.Commit):
            return None
        return parent.tree.diff_to_tree(commit.tree, context_lines=context_lines)

    def _changes(self, commit: pygit2.Commit, sha: str, parents: list[pygit2.Oid]) -> tuple[list[list[Any]], int]:
        if len(parents) > 1 or sha in self._cut_off:
            return [], 0
        diff = self.diff(commit)
        if diff is None:
            return [], 0
        deltas, renamed = self.renames(diff)
        changes: list[list[Any]] = []
        for number, delta in deltas:
            if len(changes) == self._most_changes:
                break
            letter = _LETTERS.get(delta.status, "M")
            path, old = delta.new_file.raw_path, delta.old_file.raw_path
            insertions, deletions = self._counts(diff, number, delta)
            if number in renamed:
                letter, old, insertions, deletions = "R", renamed[number], 0, 0
            changes.append([letter, spell(path), spell(old) if letter == "R" else "", insertions, deletions])
        return changes, len(deltas) - len(changes)

    def renames(self, diff: pygit2.Diff) -> tuple[list[tuple[int, pygit2.DiffDelta]], dict[int, bytes]]:
        """The changes by number, renames put together; and, where there are too many to compare, by equal content."""
        deltas = list(enumerate(diff.deltas))
        if len(deltas) < 2:
            return deltas, {}
        added = [(number, delta) for number, delta in deltas if delta.status == DeltaStatus.ADDED]
        removed = [(number, delta) for number, delta in deltas if delta.status == DeltaStatus.DELETED]
        if not added or not removed:
            return deltas, {}
        few = len(added) * len(removed) <= _RENAME_PAIRS
        if (
            few
            and all(self._is_small(delta.new_file) for _, delta in added)
            and all(self._is_small(delta.old_file) for _, delta in removed)
        ):
            diff.find_similar(DiffFind.FIND_RENAMES)
            return list(enumerate(diff.deltas)), {}
        gone = {str(delta.old_file.id): (number, delta.old_file.raw_path) for number, delta in removed}
        renamed: dict[int, bytes] = {}
        merged: set[int] = set()
        for number, delta in added:
            if found := gone.pop(str(delta.new_file.id), None):
                merged.add(found[0])
                renamed[number] = found[1]
        return [(number, delta) for number, delta in deltas if number not in merged], renamed

    def _counts(self, diff: pygit2.Diff, number: int, delta: pygit2.DiffDelta) -> tuple[int, int]:
        """Lines that came and went; none for what is binary, too large to compare, or no file."""
        if not self._is_small(delta.new_file) or not self._is_small(delta.old_file):
            return 0, 0
        patch = diff[number]
        if patch is None or patch.delta.is_binary:
            return 0, 0
        _, insertions, deletions = patch.line_stats
        return insertions, deletions

    def patch(self, diff: pygit2.Diff, number: int, delta: pygit2.DiffDelta) -> str:
        """One file's patch in text; only a line about it where it is binary or too large."""
        if self._is_small(delta.new_file) and self._is_small(delta.old_file):
            patch = diff[number]
            if patch is not None and not patch.delta.is_binary:
                return clean((patch.data or b"").decode(errors="replace"))
        sort = "submodule" if FileMode.COMMIT in (delta.new_file.mode, delta.old_file.mode) else "binary or large file"
        return f"diff {spell(delta.old_file.raw_path)} {spell(delta.new_file.raw_path)}\n({sort} changed)\n"

    def _is_small(self, file: pygit2.DiffFile) -> bool:
        """Whether a side may be loaded; asked of the object's header, since a blob may be larger than memory."""
        if file.mode == FileMode.UNREADABLE:
            return True
        if file.mode == FileMode.COMMIT:
            return False
        try:
            kind, size = self._odb.read_header(file.id)
        except KeyError:
            return False
        return kind == ObjectType.BLOB and size <= self._file_bytes


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
    except (Problem, pygit2.GitError):
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


def _parts(message: str) -> tuple[str, str]:
    """Subject and body: the subject is the first paragraph on one line, as git itself takes it."""
    head, _, body = message.strip().partition("\n\n")
    return " ".join(head.split()), body.strip()
