"""Owns what a repository says of its own files in `.gitattributes`: made by a program, or taken from elsewhere."""

from collections.abc import Iterable

import pygit2
from pygit2.enums import AttrCheck

_NAME = b".gitattributes"
_MARKS = ("linguist-generated", "linguist-vendored")
# What the commit itself says; neither the machine's settings nor a working tree.
_WHERE = AttrCheck.INDEX_ONLY | AttrCheck.NO_SYSTEM | AttrCheck.INCLUDE_COMMIT


class Attributes:
    """The marks of a commit's files."""

    def __init__(self, repo: pygit2.Repository, commit: pygit2.Commit, paths: Iterable[bytes]) -> None:
        self._repo = repo
        self._commit = commit
        self._speaks = any(path == _NAME or path.endswith(b"/" + _NAME) for path in paths)

    def is_foreign(self, path: bytes) -> bool:
        """Whether a file is marked as one that nobody here writes."""
        return self._speaks and any(
            self._repo.get_attr(path, mark, _WHERE, self._commit.id) in (True, "true") for mark in _MARKS
        )
