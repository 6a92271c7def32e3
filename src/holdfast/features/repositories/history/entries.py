"""Owns how a repository's commits, files and tags become entries of the search index."""

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.engines.git.model import Commit, File, Tag
from holdfast.engines.search import Entry
from holdfast.features.repositories.model import COMMIT, FILE, TAG, Repository

MOST_BODY = 4_000
"""Characters of a message that are searched; the whole is kept with the commit."""
MOST_PATHS = 20
"""Changed files that an entry names."""
MOST_HEADING = 120


def entry_id(repository_id: str, name: str) -> str:
    """How search calls what a repository calls `name`: a commit's hash, a path, a tag, a number."""
    return f"{repository_id}/{name}"


def commit_entry(repository: Repository, commit: Commit, now: int) -> Entry:
    """A commit by its message and by the files it changed."""
    paths = _changed(commit)
    named = paths[:MOST_PATHS]
    more = len(paths) - len(named) + commit.more_changes
    changed = f"Files: {', '.join(named)}{f' and {more} more' if more else ''}" if named else ""
    return Entry(
        workspace_id=repository.workspace_id,
        type=COMMIT,
        id=entry_id(repository.id, commit.sha),
        title=commit.subject or f"Commit {commit.sha[:10]}",
        text="\n\n".join(part for part in (commit.body[:MOST_BODY].strip(), changed) if part),
        learned_at=min(commit.committed_at, now),
        # When it was written: a rebase or a merge queue commits anew, years later at times.
        occurred_at=commit.authored_at,
        author=commit.author,
        meta={"repository": repository.slug, "sha": commit.sha, "files": named},
        collection=repository.id,
    )


def file_entries(repository: Repository, file: File, now: int) -> Iterable[Entry]:
    """A file by its passages; one that has none is known by its path alone."""
    for number, passage in enumerate(file.passages):
        heading = passage.heading[:MOST_HEADING].strip()
        meta: dict[str, Any] = {
            "repository": repository.slug,
            "path": file.path,
            "start_line": passage.start_line,
            "end_line": passage.end_line,
        }
        if file.language:
            meta["language"] = file.language
        yield Entry(
            workspace_id=repository.workspace_id,
            type=FILE,
            id=entry_id(repository.id, file.path),
            title=f"{file.path}: {heading}" if heading else file.path,
            text=passage.text,
            learned_at=now,
            part=number,
            source=entry_id(repository.id, file.path),
            position=number,
            meta=meta,
            collection=repository.id,
        )


def tag_entry(repository: Repository, tag: Tag, now: int) -> Entry:
    """A tag by its name and message."""
    return Entry(
        workspace_id=repository.workspace_id,
        type=TAG,
        id=entry_id(repository.id, tag.name),
        title=f"Tag {tag.name}",
        text=tag.message[:MOST_BODY].strip() or f"Tag {tag.name} on commit {tag.sha[:10]}",
        learned_at=min(tag.tagged_at, now),
        occurred_at=tag.tagged_at,
        meta={"repository": repository.slug, "sha": tag.sha, "tag": tag.name},
        collection=repository.id,
    )


def _changed(commit: Commit) -> Sequence[str]:
    """The paths that a commit touched, with the name before a rename, each once."""
    paths = (path for change in commit.changes for path in (change.path, change.old_path) if path)
    return list(dict.fromkeys(paths))
