"""Owns the REST operations that read a repository live: its tree, files, the history of a path, blame and commits."""

import re
from typing import Any, Literal

from pydantic import Field

from holdfast.core.access import READ
from holdfast.core.clock import iso
from holdfast.core.errors import NotFound
from holdfast.core.model import Model
from holdfast.core.operations import Call, Operation
from holdfast.engines.git.model import BlameLine, Change, Commit
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.surfaces.rest.repositories import ONE, TAG, Gate, Text

_Path = Text
_MAX_LINE = 10_000_000
_BLAMED_LINES = 200
"""Without a last line."""
_SHA = re.compile(r"[0-9a-f]{4,64}")


class TreeQuery(Model):
    path: _Path = Field(default="", max_length=4000, description="A directory; the root when left out")
    recursive: bool = Field(default=False, description="Whether to list everything below it")
    limit: int = Field(default=500, ge=1, le=2000, description="How many names at most")


class FileQuery(Model):
    path: _Path = Field(min_length=1, max_length=4000, description="A file")
    start: int = Field(default=1, ge=1, le=_MAX_LINE, description="The first line")
    end: int | None = Field(default=None, ge=1, le=_MAX_LINE, description="The last line; as far as is shown at once")


class LogQuery(Model):
    path: _Path = Field(default="", max_length=4000, description="A file or a directory; renames are followed")
    limit: int = Field(default=20, ge=1, le=200, description="How many commits at most")


class BlameQuery(Model):
    path: _Path = Field(min_length=1, max_length=4000, description="A file")
    start: int = Field(default=1, ge=1, le=_MAX_LINE, description="The first line")
    end: int | None = Field(default=None, ge=1, le=_MAX_LINE, description="The last line")


class NameAnswer(Model):
    path: str
    kind: Literal["file", "directory", "submodule", "symlink"]
    size: int


class TreeAnswer(Model):
    slug: str
    entries: list[NameAnswer]


class FileAnswer(Model):
    slug: str
    path: str
    commit: str
    text: str
    start_line: int
    end_line: int
    total_lines: int


class ChangeAnswer(Model):
    status: str = Field(description="A added, M modified, D deleted, R renamed")
    path: str
    old_path: str
    insertions: int
    deletions: int


class CommitAnswer(Model):
    sha: str
    parents: list[str]
    author: str
    email: str
    authored_at: str
    committed_at: str
    subject: str
    body: str
    changes: list[ChangeAnswer]
    more_changes: int = Field(description="Changes beyond those listed")


class LogAnswer(Model):
    slug: str
    commits: list[CommitAnswer]


class BlameLineAnswer(Model):
    start_line: int
    end_line: int
    sha: str
    author: str
    committed_at: str
    subject: str


class BlameAnswer(Model):
    slug: str
    path: str
    lines: list[BlameLineAnswer]


class ShownAnswer(CommitAnswer):
    patch: str
    truncated: bool


def operations(files: LiveFiles, gate: Gate) -> list[Operation]:
    """Everything that reads a repository as it is."""

    async def tree(call: Call) -> TreeAnswer:
        asked: TreeQuery = call.query
        slug = (await gate.find(call)).slug
        found = await files.tree(call.principal, slug, asked.path, recursive=asked.recursive, limit=asked.limit)
        return TreeAnswer(
            slug=slug, entries=[NameAnswer(path=each.path, kind=each.kind, size=each.size) for each in found]
        )

    async def file(call: Call) -> FileAnswer:
        asked: FileQuery = call.query
        slug = (await gate.find(call)).slug
        found = await files.read(call.principal, slug, asked.path, asked.start, asked.end)
        return FileAnswer(
            slug=slug,
            path=found.path,
            commit=found.commit,
            text=found.text,
            start_line=found.start_line,
            end_line=found.end_line,
            total_lines=found.total_lines,
        )

    async def log(call: Call) -> LogAnswer:
        asked: LogQuery = call.query
        slug = (await gate.find(call)).slug
        found = await files.log(call.principal, slug, asked.path, limit=asked.limit)
        return LogAnswer(slug=slug, commits=[CommitAnswer(**_commit(each)) for each in found])

    async def blame(call: Call) -> BlameAnswer:
        asked: BlameQuery = call.query
        slug = (await gate.find(call)).slug
        end = asked.start + _BLAMED_LINES - 1 if asked.end is None else asked.end
        found = await files.blame(call.principal, slug, asked.path, asked.start, end)
        return BlameAnswer(slug=slug, path=asked.path, lines=[_blame_line(each) for each in found])

    async def show(call: Call) -> ShownAnswer:
        slug = (await gate.find(call)).slug
        sha = call.path["sha"].lower()
        if _SHA.fullmatch(sha) is None:
            raise NotFound("commit", sha[:64])
        found = await files.show(call.principal, slug, sha)
        return ShownAnswer(**_commit(found.commit), patch=found.patch, truncated=found.truncated)

    return [
        Operation(
            method="GET",
            path=ONE + "/tree",
            handler=tree,
            summary="List a directory of a repository",
            tag=TAG,
            access=READ,
            query=TreeQuery,
            answer=TreeAnswer,
        ),
        Operation(
            method="GET",
            path=ONE + "/file",
            handler=file,
            summary="Read lines of a file of a repository",
            tag=TAG,
            access=READ,
            query=FileQuery,
            answer=FileAnswer,
        ),
        Operation(
            method="GET",
            path=ONE + "/log",
            handler=log,
            summary="List the commits that changed a path, newest first",
            tag=TAG,
            access=READ,
            query=LogQuery,
            answer=LogAnswer,
        ),
        Operation(
            method="GET",
            path=ONE + "/blame",
            handler=blame,
            summary="Tell who last changed lines of a file, and in which commit",
            tag=TAG,
            access=READ,
            query=BlameQuery,
            answer=BlameAnswer,
        ),
        Operation(
            method="GET",
            path=ONE + "/commits/{sha}",
            handler=show,
            summary="Show a commit with its patch",
            tag=TAG,
            access=READ,
            answer=ShownAnswer,
        ),
    ]


def _commit(commit: Commit) -> dict[str, Any]:
    return {
        "sha": commit.sha,
        "parents": list(commit.parents),
        "author": commit.author,
        "email": commit.email,
        "authored_at": iso(commit.authored_at),
        "committed_at": iso(commit.committed_at),
        "subject": commit.subject,
        "body": commit.body,
        "changes": [_change(each) for each in commit.changes],
        "more_changes": commit.more_changes,
    }


def _change(change: Change) -> ChangeAnswer:
    return ChangeAnswer(
        status=change.status,
        path=change.path,
        old_path=change.old_path,
        insertions=change.insertions,
        deletions=change.deletions,
    )


def _blame_line(line: BlameLine) -> BlameLineAnswer:
    return BlameLineAnswer(
        start_line=line.start_line,
        end_line=line.end_line,
        sha=line.sha,
        author=line.author,
        committed_at=iso(line.committed_at),
        subject=line.subject,
    )
