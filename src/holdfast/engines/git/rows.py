"""Owns turning what a child answered into the model's values; anything else than expected is a failure."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from holdfast.engines.git.model import (
    BlameLine,
    BranchHead,
    Commit,
    Excerpt,
    File,
    FileChange,
    FilePassage,
    GitFailed,
    ShownCommit,
    Symbol,
    Tag,
    TreeEntry,
)

Row = Sequence[Any]
T = TypeVar("T")


def commit(row: Row) -> Commit:
    """A commit with its changes."""
    sha, parents, author, email, authored, committed, subject, body, changes, more = row
    listed = tuple([FileChange(*change) for change in changes])
    return Commit(sha, tuple(parents), author, email, authored, committed, subject, body, listed, more)


def file(row: Row) -> File:
    """A file with its passages and symbols."""
    path, blob, kind, size, language, lines, passages, symbols, truncated = row
    kept = tuple([FilePassage(*passage) for passage in passages])
    return File(path, blob, kind, size, language, lines, kept, tuple([Symbol(*each) for each in symbols]), truncated)


def head(value: dict[str, Any]) -> BranchHead:
    """Where a repository stands."""
    return BranchHead(value["branch"], value["commit"], value["shallow"], value["origin"])


def tag(row: Row) -> Tag:
    """A tag."""
    return Tag(*row)


def tree_entry(row: Row) -> TreeEntry:
    """A name in a directory."""
    return TreeEntry(*row)


def excerpt(row: Row) -> Excerpt:
    """Lines of a file."""
    return Excerpt(*row)


def blame_line(row: Row) -> BlameLine:
    """A run of lines."""
    return BlameLine(*row)


def shown(row: Row) -> ShownCommit:
    """A commit with its patch."""
    return ShownCommit(commit(row[0]), row[1], row[2])


def understood(make: Callable[[Any], T], row: Any) -> T:
    """The value; GitFailed where the child answered something else."""
    try:
        return make(row)
    except (TypeError, ValueError, KeyError, IndexError):
        raise GitFailed("The repository's reader answered nonsense.", code="crashed") from None
