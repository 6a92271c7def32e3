"""Owns `holdfast artifacts`: list, show, create, update, versions, diff, delete."""

import sys
from pathlib import Path
from typing import Any

import click

from holdfast.core.clock import iso
from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.features.artifacts.model import Artifact, ArtifactReference, NewArtifact
from holdfast.surfaces.cli.frame import Session, command, workspace_option

group = click.Group("artifacts", help="Documents, pages, diagrams and code that agents and people keep, by version.")

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

_artifact = click.argument("artifact", metavar="ID_OR_IDENTIFIER")
_chat = click.option("--chat", metavar="CHAT", help="The chat that the artifact belongs to.")
_file = click.argument("file", type=click.Path(allow_dash=True, path_type=Path))


@command(
    group,
    "list",
    workspace_option,
    _chat,
    click.option("--type", "type_", metavar="MIME", help="Only those of this type."),
    click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True),
    help="List artifacts, the last changed first.",
)
async def list_(session: Session, workspace: str | None, chat: str | None, type_: str | None, limit: int) -> None:
    id = await session.workspace(workspace)
    found, total = await session.services.artifacts.list(session.principal, id, chat_id=chat, type=type_, limit=limit)
    session.out.table((_record(each) for each in found), ["id", "identifier", "title", "type", "version", "updated_at"])
    if total > len(found):
        session.out.note(f"{total - len(found)} more; raise --limit to see them.")


@command(
    group,
    "show",
    _artifact,
    workspace_option,
    _chat,
    click.option("--version", type=click.IntRange(1), help="An earlier version."),
    help="Print an artifact's content.",
)
async def show(session: Session, artifact: str, workspace: str | None, chat: str | None, version: int | None) -> None:
    id, found = await _find(session, workspace, artifact, chat)
    reading, content = await session.services.artifacts.download(session.principal, id, found.id, version=version)
    record = {**_record(found), "version": reading.version.version, "content": content}
    session.out.record(record, [content])


@command(
    group,
    "create",
    click.argument("identifier"),
    _file,
    workspace_option,
    _chat,
    click.option("--title", help="What people see (default: the identifier)."),
    click.option("--type", "type_", metavar="MIME", help="The type (default: by the file's name)."),
    click.option("--language", help="Programming language, for highlighting."),
    help="Keep a file (- for standard input) as a new artifact.",
)
async def create(
    session: Session,
    identifier: str,
    file: Path,
    workspace: str | None,
    chat: str | None,
    title: str | None,
    type_: str | None,
    language: str | None,
) -> None:
    id = await session.workspace(workspace)
    type = type_ or _TYPES.get(file.suffix.lower()) or _TYPES.get(Path(identifier).suffix.lower()) or "text/plain"
    new = NewArtifact(identifier, title or identifier, type, _content(file), language, chat)
    made = await session.services.artifacts.create(session.principal, id, new)
    session.out.record(_record(made), [f"Created {made.identifier} ({made.id}), version 1."])


@command(
    group,
    "update",
    _artifact,
    _file,
    workspace_option,
    _chat,
    click.option("--title", help="A new title."),
    click.option("--expect", type=click.IntRange(1), metavar="N", help="Refuse unless N is the newest version."),
    help="Write a file (- for standard input) as the next version.",
)
async def update(
    session: Session,
    artifact: str,
    file: Path,
    workspace: str | None,
    chat: str | None,
    title: str | None,
    expect: int | None,
) -> None:
    id, found = await _find(session, workspace, artifact, chat)
    made = await session.services.artifacts.update(
        session.principal, id, ArtifactReference(found.id), _content(file), title=title, expected_version=expect
    )
    session.out.record(_record(made), [f"Updated {made.identifier} to version {made.version}."])


@command(group, "versions", _artifact, workspace_option, _chat, help="List an artifact's versions, newest first.")
async def versions(session: Session, artifact: str, workspace: str | None, chat: str | None) -> None:
    id, found = await _find(session, workspace, artifact, chat)
    cursor: str | None = None
    rows: list[dict[str, Any]] = []
    while True:
        page = await session.services.artifacts.versions(session.principal, id, found.id, limit=200, cursor=cursor)
        rows += [
            {
                "version": each.version,
                "title": each.title,
                "size_bytes": each.size_bytes,
                "sha256": each.sha256,
                "author": each.author,
                "created_at": iso(each.created_at),
            }
            for each in page.items
        ]
        cursor = page.next_cursor
        if cursor is None:
            break
    session.out.table(rows, ["version", "title", "size_bytes", "author", "created_at"])


@command(
    group,
    "diff",
    _artifact,
    workspace_option,
    _chat,
    click.option("--from", "from_", type=click.IntRange(1), metavar="N", help="Default: the version before."),
    click.option("--to", type=click.IntRange(1), metavar="N", help="Default: the newest."),
    help="Show what changed between two versions.",
)
async def diff(
    session: Session, artifact: str, workspace: str | None, chat: str | None, from_: int | None, to: int | None
) -> None:
    id, found = await _find(session, workspace, artifact, chat)
    change = await session.services.artifacts.diff(session.principal, id, found.id, from_version=from_, to_version=to)
    record = {
        "artifact_id": found.id,
        "from_version": change.from_version,
        "to_version": change.to_version,
        "added_lines": change.added_lines,
        "removed_lines": change.removed_lines,
        "diff": change.diff,
    }
    session.out.record(record, [change.diff.rstrip("\n") or "No difference."])


@command(group, "delete", _artifact, workspace_option, _chat, help="Delete an artifact with all its versions.")
async def delete(session: Session, artifact: str, workspace: str | None, chat: str | None) -> None:
    id, found = await _find(session, workspace, artifact, chat)
    await session.services.artifacts.delete(session.principal, id, found.id)
    session.out.record({"artifact_id": found.id, "deleted": True}, [f"Deleted {found.identifier}."])


async def _find(session: Session, workspace: str | None, named: str, chat: str | None) -> tuple[str, Artifact]:
    """By id first, then by identifier in the chat or the workspace."""
    id = await session.workspace(workspace)
    service = session.services.artifacts
    try:
        return id, await service.find(session.principal, id, ArtifactReference(artifact_id=named))
    except NotFound:
        return id, await service.find(session.principal, id, ArtifactReference(identifier=named, chat_id=chat))


def _content(file: Path) -> str:
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return raw.decode()
    except OSError as problem:
        reason = f"{file} cannot be read ({problem.strerror})"
    except UnicodeDecodeError:
        reason = f"{file} is not UTF-8 text; upload it with `holdfast docs add` instead"
    raise Invalid("There is no content.", fields=[FieldError("file", reason)])


def _record(artifact: Artifact) -> dict[str, Any]:
    return {
        "id": artifact.id,
        "identifier": artifact.identifier,
        "title": artifact.title,
        "type": artifact.type,
        "language": artifact.language,
        "version": artifact.version,
        "chat_id": artifact.chat_id,
        "size_bytes": artifact.size_bytes,
        "created_at": iso(artifact.created_at),
        "updated_at": iso(artifact.updated_at),
    }
