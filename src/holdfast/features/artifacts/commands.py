"""Owns `holdfast artifacts`: list, show, create, update, versions, diff, delete."""

import sys
from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, Commands, InWorkspace, Option, Session
from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.features.artifacts.model import Artifact, ArtifactReference, NewArtifact
from holdfast.features.artifacts.operations import (
    ArtifactAnswer,
    ArtifactDiffAnswer,
    ArtifactVersionAnswer,
    content_answer,
)
from holdfast.features.artifacts.service import ArtifactService

artifacts = Commands("artifacts", help="Documents, pages, diagrams and code that agents and people keep, by version.")

_TYPES = {
    ".md": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".txt": "text/plain",
    ".svg": "image/svg+xml",
    ".mmd": "text/x-mermaid",
    ".json": "application/json",
    ".py": "text/x-python",
    ".js": "text/x-javascript",
    ".ts": "text/x-typescript",
    ".go": "text/x-go",
    ".rs": "text/x-rust",
    ".java": "text/x-java",
    ".c": "text/x-c",
    ".cpp": "text/x-c++",
    ".rb": "text/x-ruby",
    ".sh": "text/x-shellscript",
    ".sql": "text/x-sql",
    ".swift": "text/x-swift",
}

_Chat = Annotated[str | None, Option(metavar="CHAT"), Field(description="The chat that the artifact belongs to.")]
_Artifact = Annotated[str, Argument("ID_OR_IDENTIFIER")]
_File = Annotated[Path, Argument(reads="dash")]
_Version = Annotated[int | None, Option(metavar="N"), Field(ge=1)]


class One(InWorkspace):
    """An artifact that is named."""

    artifact: _Artifact
    chat: _Chat = None


class Listing(InWorkspace):
    """What `list` is given."""

    chat: _Chat = None
    type: Annotated[str | None, Option(metavar="MIME")] = Field(None, description="Only those of this type.")
    limit: int = Field(50, ge=1, le=200)


@artifacts.command("list", help="List artifacts, the last changed first.")
async def list_(session: Session, service: ArtifactService, given: Listing) -> None:
    id = await session.workspace(given.workspace)
    found, total = await service.list(session.principal, id, chat_id=given.chat, type=given.type, limit=given.limit)
    session.out.table(map(ArtifactAnswer.of, found), ["id", "identifier", "title", "type", "version", "updated_at"])
    if total > len(found):
        session.out.note(f"{total - len(found)} more; raise --limit to see them.")


class Show(One):
    """What `show` is given."""

    version: int | None = Field(None, ge=1, description="An earlier version.")


@artifacts.command("show", help="Print an artifact's content.")
async def show(session: Session, service: ArtifactService, given: Show) -> None:
    id, found = await _find(session, service, given)
    reading, content = await service.download(session.principal, id, found.id, version=given.version)
    if session.out.as_json:
        session.out.record(content_answer(reading, content))
    else:
        session.out.write(content if content.endswith("\n") else f"{content}\n")


class Create(InWorkspace):
    """What `create` is given."""

    identifier: Annotated[str, Argument()]
    file: _File
    chat: _Chat = None
    title: str | None = Field(None, description="What people see (default: the identifier).")
    type: Annotated[str | None, Option(metavar="MIME")] = Field(
        None, description="The type (default: by the file's name)."
    )
    language: str | None = Field(None, description="Programming language, for highlighting.")


@artifacts.command("create", help="Keep a file (- for standard input) as a new artifact.", begins_store=True)
async def create(session: Session, service: ArtifactService, given: Create) -> None:
    id = await session.workspace(given.workspace)
    by_name = (_TYPES.get(path.suffix.lower()) for path in (given.file, Path(given.identifier)))
    type = given.type or next(filter(None, by_name), "text/plain")
    title = given.title or given.identifier
    new = NewArtifact(given.identifier, title, type, _content(given.file), given.language, given.chat)
    made = await service.create(session.principal, id, new)
    session.out.record(ArtifactAnswer.of(made), [f"Created {made.identifier} ({made.id}), version 1."])


class Update(InWorkspace):
    """What `update` is given."""

    artifact: _Artifact
    file: _File
    chat: _Chat = None
    title: str | None = Field(None, description="A new title.")
    expect: _Version = Field(None, description="Refuse unless N is the newest version.")


@artifacts.command("update", help="Write a file (- for standard input) as the next version.")
async def update(session: Session, service: ArtifactService, given: Update) -> None:
    id, found = await _find(session, service, given)
    made = await service.update(
        session.principal,
        id,
        ArtifactReference(found.id),
        _content(given.file),
        title=given.title,
        expected_version=given.expect,
    )
    session.out.record(ArtifactAnswer.of(made), [f"Updated {made.identifier} to version {made.version}."])


@artifacts.command("versions", help="List an artifact's versions, newest first.")
async def versions(session: Session, service: ArtifactService, given: One) -> None:
    id, found = await _find(session, service, given)
    cursor: str | None = None
    rows: list[ArtifactVersionAnswer] = []
    while True:
        page = await service.versions(session.principal, id, found.id, limit=200, cursor=cursor)
        rows += map(ArtifactVersionAnswer.of, page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    session.out.table(rows, ["version", "title", "size_bytes", "author", "created_at"])


class Diff(One):
    """What `diff` is given."""

    from_: Annotated[_Version, Option("--from", metavar="N")] = Field(None, description="Default: the version before.")
    to: _Version = Field(None, description="Default: the newest.")


@artifacts.command("diff", help="Show what changed between two versions.")
async def diff(session: Session, service: ArtifactService, given: Diff) -> None:
    id, found = await _find(session, service, given)
    change = await service.diff(session.principal, id, found.id, from_version=given.from_, to_version=given.to)
    session.out.record(ArtifactDiffAnswer.of(change), [change.diff.rstrip("\n") or "No difference."])


@artifacts.command("delete", help="Delete an artifact with all its versions.")
async def delete(session: Session, service: ArtifactService, given: One) -> None:
    id, found = await _find(session, service, given)
    await service.delete(session.principal, id, found.id)
    session.out.record({"artifact_id": found.id, "deleted": True}, [f"Deleted {found.identifier}."])


async def _find(session: Session, service: ArtifactService, given: One | Update) -> tuple[str, Artifact]:
    """By id first, then by identifier in the chat or the workspace."""
    id = await session.workspace(given.workspace)
    try:
        return id, await service.find(session.principal, id, ArtifactReference(artifact_id=given.artifact))
    except NotFound:
        named = ArtifactReference(identifier=given.artifact, chat_id=given.chat)
        return id, await service.find(session.principal, id, named)


def _content(file: Path) -> str:
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return raw.decode()
    except OSError as problem:
        reason = f"{file} cannot be read ({problem.strerror})"
    except UnicodeDecodeError:
        reason = f"{file} is not UTF-8 text; upload it with `holdfast docs add` instead"
    raise Invalid("There is no content.", fields=[FieldError("file", reason)])
