"""Owns finding where a name came from: the first commit whose files have it. In the child."""

import re
import time
from typing import Any

import pygit2
from pygit2.enums import DeltaStatus, SortMode

from holdfast.engines.git.reading.commits import CommitReader
from holdfast.engines.git.reading.repository import find_commit
from holdfast.engines.git.reading.sorts import is_binary

_MOST_BYTES = 2_000_000
"""Of a file that is looked into: nobody writes longer ones by hand."""
_BROUGHT_ALONG = re.compile(r"(?:^|/)(?:node_modules|vendor|third_party|Godeps)/|\.min\.(?:js|css)$")
"""What others wrote: a name in it was not introduced here."""


def introduced(
    repo: pygit2.Repository, limits: dict[str, Any], commit: str, name: str, seconds: float
) -> list[Any] | None:
    """The oldest commit after which a file has the name as a word of its own; None where there is none, or no time.

    Merges are passed over: what they bring was written in a commit of their own.
    """
    word = re.compile(rb"(?<![\w])" + re.escape(name.encode()) + rb"(?![\w])")
    # Processor time: what others do on the machine is no reason for another answer.
    end = time.process_time() + seconds
    looked_at: set[pygit2.Oid] = set()
    start = find_commit(repo, commit)
    for each in repo.walk(start.id, SortMode.TOPOLOGICAL | SortMode.TIME | SortMode.REVERSE):
        if time.process_time() > end:
            return None
        if len(each.parent_ids) < 2 and _has(repo, each, word, looked_at):
            row: list[Any] = CommitReader(repo, limits).row(each)
            return row
    return None


def _has(repo: pygit2.Repository, commit: pygit2.Commit, word: re.Pattern[bytes], looked_at: set[pygit2.Oid]) -> bool:
    older = repo.get(commit.parent_ids[0]) if commit.parent_ids else None
    if isinstance(older, pygit2.Commit):
        changes = repo.diff(older.tree, commit.tree)
    else:
        # Of a first commit everything is new; of one whose parent a shallow clone lacks, nothing can be told.
        if commit.parent_ids:
            return False
        changes = commit.tree.diff_to_tree(swap=True)
    for change in changes.deltas:
        blob = change.new_file.id
        if change.status == DeltaStatus.DELETED or blob in looked_at or blob not in repo.odb:
            continue
        if _BROUGHT_ALONG.search(change.new_file.path):
            continue
        looked_at.add(blob)
        if repo.odb.read_header(blob)[1] > _MOST_BYTES:
            continue
        data = repo.odb.read(blob)[1]
        if word.search(data) and not is_binary(data):
            return True
    return False
