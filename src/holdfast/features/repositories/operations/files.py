"""Owns the REST operations that read a repository live: its tree, files, the history of a path, blame and commits."""

import re
from typing import Literal

from pydantic import Field

from holdfast.core.access import READ
from holdfast.core.errors import NotFound
from holdfast.core.model import Answer, Model, Text, Time
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.operations.named import ONE, TAG, check_within
from holdfast.features.repositories.service import Repositories
from holdfast.features.workspaces.service import Workspaces

_MAX_LINE = 10_000_000
_BLAMED_LINES = 200
"""Without a last line."""
_SHA = re.compile(r"[0-9a-f]{4,64}")

api = Operations(TAG)


class TreeQuery(Model):
    path: Text = Field(default="", max_length=4000, description="A directory; the root when left out")
    recursive: bool = Field(default=False, description="Whether to list everything below it")
    limit: int = Field(default=500, ge=1, le=2000, description="How many names at most")


class FileQuery(Model):
    path: Text = Field(min_length=1, max_length=4000, description="A file")
    start: int = Field(default=1, ge=1, le=_MAX_LINE, description="The first line")
    end: int | None = Field(default=None, ge=1, le=_MAX_LINE, description="The last line; as far as is shown at once")


class LogQuery(Model):
    path: Text = Field(default="", max_length=4000, description="A file or a directory; renames are followed")
    limit: int = Field(default=20, ge=1, le=200, description="How many commits at most")


class BlameQuery(Model):
    path: Text = Field(min_length=1, max_length=4000, description="A file")
    start: int = Field(default=1, ge=1, le=_MAX_LINE, description="The first line")
    end: int | None = Field(default=None, ge=1, le=_MAX_LINE, description="The last line")


class TreeEntryAnswer(Answer):
    path: str
    kind: Literal["file", "directory", "submodule", "symlink"]
    size: int


class FileAnswer(Answer):
    slug: str
    path: str
    commit: str
    text: str
    start_line: int
    end_line: int
    total_lines: int


class ChangeAnswer(Answer):
    status: str = Field(description="A added, M modified, D deleted, R renamed")
    path: str
    old_path: str
    insertions: int
    deletions: int


class CommitAnswer(Answer):
    sha: str
    parents: list[str]
    author: str
    email: str
    authored_at: Time
    committed_at: Time
    subject: str
    body: str
    changes: list[ChangeAnswer]
    more_changes: int = Field(description="Changes beyond those listed")


class BlameAnswer(Answer):
    start_line: int
    end_line: int
    sha: str
    author: str
    committed_at: Time
    subject: str


class PatchAnswer(CommitAnswer):
    patch: str
    truncated: bool


@api.get(ONE + "/tree", READ, "List a directory of a repository")
async def tree(
    repositories: Repositories,
    workspaces: Workspaces,
    files: LiveFiles,
    principal: Principal,
    workspace_id: str,
    slug: str,
    query: TreeQuery,
) -> Page[TreeEntryAnswer]:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    found = await files.tree(principal, slug, query.path, recursive=query.recursive, limit=query.limit)
    return Page(found).map(TreeEntryAnswer.of)


@api.get(ONE + "/file", READ, "Read lines of a file of a repository")
async def file(
    repositories: Repositories,
    workspaces: Workspaces,
    files: LiveFiles,
    principal: Principal,
    workspace_id: str,
    slug: str,
    query: FileQuery,
) -> FileAnswer:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    return FileAnswer.of(await files.read(principal, slug, query.path, query.start, query.end), slug=slug)


@api.get(ONE + "/log", READ, "List the commits that changed a path, newest first")
async def log(
    repositories: Repositories,
    workspaces: Workspaces,
    files: LiveFiles,
    principal: Principal,
    workspace_id: str,
    slug: str,
    query: LogQuery,
) -> Page[CommitAnswer]:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    return Page(await files.log(principal, slug, query.path, limit=query.limit)).map(CommitAnswer.of)


@api.get(ONE + "/blame", READ, "Tell who last changed lines of a file, and in which commit")
async def blame(
    repositories: Repositories,
    workspaces: Workspaces,
    files: LiveFiles,
    principal: Principal,
    workspace_id: str,
    slug: str,
    query: BlameQuery,
) -> Page[BlameAnswer]:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    end = query.start + _BLAMED_LINES - 1 if query.end is None else query.end
    return Page(await files.blame(principal, slug, query.path, query.start, end)).map(BlameAnswer.of)


@api.get(ONE + "/commits/{sha}", READ, "Show a commit with its patch")
async def show(
    repositories: Repositories,
    workspaces: Workspaces,
    files: LiveFiles,
    principal: Principal,
    workspace_id: str,
    slug: str,
    sha: str,
) -> PatchAnswer:
    await check_within(repositories, workspaces, principal, workspace_id, [slug])
    if _SHA.fullmatch(sha.lower()) is None:
        raise NotFound("commit", sha.lower()[:64])
    found = await files.show(principal, slug, sha.lower())
    return PatchAnswer.of(found.commit, patch=found.patch, truncated=found.truncated)
