"""Owns reading one commit: who, when, what it says and what it changed. Runs in the child."""

from collections.abc import Sequence
from typing import Any

import pygit2
from pygit2.enums import ObjectType

from holdfast.engines.extract.text import clean
from holdfast.engines.git.reading.renames import paired
from holdfast.engines.git.reading.repository import declared_encoding, shallow_roots, spell, words
from holdfast.engines.git.reading.trees import Difference, Side, Trees

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
        self._trees = Trees(repo.odb)
        self._file_bytes: int = limits["file_bytes"]
        self._most_changes: int = limits["changes_per_commit"]
        self._most_characters: int = limits["message_characters"]
        self._cut_off = shallow_roots(repo)

    def row(self, commit: pygit2.Commit) -> list[Any]:
        """A commit in the order of the model's fields."""
        author, encoding = commit.author, declared_encoding(commit)
        subject, body = _parts(words(commit.raw_message, encoding))
        differences = self.differences(commit)
        return [
            str(commit.id),
            [str(parent) for parent in commit.parent_ids],
            words(author.raw_name, encoding),
            words(author.raw_email, encoding),
            millis(author.time),
            millis(commit.commit_time),
            subject[: self._most_characters],
            body[: self._most_characters],
            [self._change(each) for each in differences[: self._most_changes]],
            max(0, len(differences) - self._most_changes),
        ]

    def differences(self, commit: pygit2.Commit) -> Sequence[Difference]:
        """What a commit changed; nothing for a merge and where a shallow clone was cut off."""
        parents = commit.parent_ids
        if len(parents) > 1 or (self._cut_off and str(commit.id) in self._cut_off):
            return ()
        before: bytes | None = None
        if parents:
            parent = self._repo.get(parents[0])
            if not isinstance(parent, pygit2.Commit):
                return ()
            before = parent.tree_id.raw
        found = self._trees.differences(before, commit.tree_id.raw)
        return paired(found, self._content) if len(found) > 1 else found

    def patch(self, difference: Difference) -> str:
        """One file's patch in text; only a line about it where it is binary or too large."""
        path, former = spell(difference.path), spell(difference.old_path or difference.path)
        if self._is_small(difference.old) and self._is_small(difference.new):
            old, new = self._blob(difference.old), self._blob(difference.new)
            patch = pygit2.Patch.create_from(old, new, former, path)
            if not patch.delta.is_binary:
                return clean((patch.data or b"").decode(errors="replace"))
        sides = (side for side in (difference.old, difference.new) if side is not None)
        sort = "submodule" if any(side.is_submodule for side in sides) else "binary or large file"
        return f"diff --git a/{former} b/{path}\n({sort} changed)\n"

    def _change(self, difference: Difference) -> list[Any]:
        """A change in the order of the model's fields."""
        insertions, deletions = self._counts(difference)
        if difference.old_path:
            return ["R", spell(difference.path), spell(difference.old_path), insertions, deletions]
        letter = "A" if difference.old is None else "D" if difference.new is None else "M"
        return [letter, spell(difference.path), "", insertions, deletions]

    def _counts(self, difference: Difference) -> tuple[int, int]:
        """Lines that came and went; none for what is binary, too large to compare, or no file."""
        old, new = difference.old, difference.new
        if old is not None and new is not None and old.id == new.id:
            return 0, 0
        if not self._is_small(old) or not self._is_small(new):
            return 0, 0
        if old is None or new is None:
            lines = _lines(self._content(difference) or b"")
            return (lines, 0) if old is None else (0, lines)
        patch = pygit2.Patch.create_from(self._blob(old), self._blob(new), context_lines=0)
        if patch.delta.is_binary:
            return 0, 0
        _, insertions, deletions = patch.line_stats
        return insertions, deletions

    def _content(self, difference: Difference) -> bytes | None:
        side = difference.new or difference.old
        return self._odb.read(side.id)[1] if side is not None and self._is_small(side) else None

    def _blob(self, side: Side | None) -> pygit2.Blob | None:
        found = self._repo[side.id] if side is not None else None
        return found if isinstance(found, pygit2.Blob) else None

    def _is_small(self, side: Side | None) -> bool:
        """Whether a side may be loaded; asked of the object's header, since a blob may be larger than memory."""
        if side is None:
            return True
        if side.is_submodule:
            return False
        try:
            kind, size = self._odb.read_header(side.id)
        except KeyError:
            return False
        return kind == ObjectType.BLOB and size <= self._file_bytes


def _lines(data: bytes) -> int:
    if b"\0" in data[:8000]:
        return 0
    return data.count(b"\n") + (data != b"" and not data.endswith(b"\n"))


def _parts(message: str) -> tuple[str, str]:
    """Subject and body: the subject is the first paragraph on one line, as git itself takes it."""
    head, _, body = message.strip().partition("\n\n")
    return " ".join(head.split()), body.strip()
