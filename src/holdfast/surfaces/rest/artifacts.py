"""Owns the REST operations of artifacts."""

from typing import Literal

from pydantic import Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.clock import iso
from holdfast.core.model import Model, NoQuery, PageQuery
from holdfast.core.operations import Call, Download, Operation
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.artifacts.model import (
    Artifact,
    ArtifactDiff,
    ArtifactReading,
    ArtifactReference,
    ArtifactVersion,
    NewArtifact,
)
from holdfast.features.artifacts.service import ArtifactService

_BASE = "/api/workspaces/{workspace_id}/artifacts"
_ONE = _BASE + "/{artifact_id}"
_TAG = "artifacts"
_MOST = 2**53


class ArtifactBody(Model):
    identifier: str = Field(description="1 to 128 ASCII letters, digits, hyphens, underscores and dots")
    title: str = Field(description="What people see")
    type: str = Field(description="MIME type of the content")
    content: str = Field(description="The whole content")
    language: str | None = Field(default=None, description="Programming language, for highlighting")
    chat_id: str | None = Field(default=None, description="The chat it belongs to; none for the workspace")


class ArtifactChange(Model):
    content: str = Field(description="The whole new content")
    title: str | None = Field(default=None, description="A new title")
    expected_version: int | None = Field(
        default=None, ge=1, le=_MOST, description="Refuse unless this is still the newest version"
    )


class ArtifactQuery(PageQuery):
    chat_id: str | None = Field(default=None, max_length=200, description="Only those of this chat")
    artifact_type: str | None = Field(default=None, max_length=200, description="Only those of this MIME type")


class VersionQuery(NoQuery):
    version: int | None = Field(default=None, ge=1, le=_MOST, description="The newest when left out")


class DiffQuery(NoQuery):
    from_version: int | None = Field(default=None, ge=1, le=_MOST, description="The one before `to` when left out")
    to_version: int | None = Field(default=None, ge=1, le=_MOST, description="The newest when left out")


class ArtifactAnswer(Model):
    id: str
    workspace_id: str
    chat_id: str | None
    identifier: str
    title: str
    type: str
    language: str | None
    version: int
    size_bytes: int
    created_by: str
    created_at: str
    updated_at: str


class ArtifactContentAnswer(ArtifactAnswer):
    latest_version: int
    sha256: str
    author: str
    content: str | None = Field(description="Null when it is over 1 MiB: download it at …/content")
    content_truncated: bool


class ArtifactVersionAnswer(Model):
    version: int
    title: str
    size_bytes: int
    sha256: str
    author: str
    created_at: str


class ArtifactDiffAnswer(Model):
    artifact_id: str
    format: Literal["unified"]
    from_version: int
    to_version: int
    added_lines: int
    removed_lines: int
    diff: str


def artifact_answer(artifact: Artifact) -> ArtifactAnswer:
    """An artifact as REST and the CLI show it."""
    return ArtifactAnswer(
        id=artifact.id,
        workspace_id=artifact.workspace_id,
        chat_id=artifact.chat_id,
        identifier=artifact.identifier,
        title=artifact.title,
        type=artifact.type,
        language=artifact.language,
        version=artifact.version,
        size_bytes=artifact.size_bytes,
        created_by=artifact.created_by,
        created_at=iso(artifact.created_at),
        updated_at=iso(artifact.updated_at),
    )


def _content_answer(reading: ArtifactReading) -> ArtifactContentAnswer:
    fields = artifact_answer(reading.artifact).model_dump()
    fields |= {
        "title": reading.version.title,
        "version": reading.version.version,
        "size_bytes": reading.version.size_bytes,
        "updated_at": iso(reading.version.created_at),
    }
    return ArtifactContentAnswer(
        **fields,
        latest_version=reading.artifact.version,
        sha256=reading.version.sha256,
        author=reading.version.author,
        content=reading.content,
        content_truncated=reading.content is None,
    )


def _version_answer(version: ArtifactVersion) -> ArtifactVersionAnswer:
    return ArtifactVersionAnswer(
        version=version.version,
        title=version.title,
        size_bytes=version.size_bytes,
        sha256=version.sha256,
        author=version.author,
        created_at=iso(version.created_at),
    )


def _diff_answer(diff: ArtifactDiff) -> ArtifactDiffAnswer:
    return ArtifactDiffAnswer(
        artifact_id=diff.artifact.id,
        format="unified",
        from_version=diff.from_version,
        to_version=diff.to_version,
        added_lines=diff.added_lines,
        removed_lines=diff.removed_lines,
        diff=diff.diff,
    )


def operations(service: ArtifactService) -> list[Operation]:
    """Every operation of artifacts."""

    async def create(call: Call) -> ArtifactAnswer:
        given: ArtifactBody = call.body
        new = NewArtifact(given.identifier, given.title, given.type, given.content, given.language, given.chat_id)
        return artifact_answer(await service.create(call.principal, call.path["workspace_id"], new))

    async def page(call: Call) -> Page[ArtifactAnswer]:
        asked: ArtifactQuery = call.query
        found = await service.page(
            call.principal,
            call.path["workspace_id"],
            chat_id=asked.chat_id,
            type=asked.artifact_type,
            limit=asked.limit,
            cursor=asked.cursor,
        )
        return found.map(artifact_answer)

    async def read(call: Call) -> ArtifactContentAnswer:
        asked: VersionQuery = call.query
        return _content_answer(await service.read(*_at(call), version=asked.version))

    async def content(call: Call) -> Download:
        asked: VersionQuery = call.query
        reading, text = await service.download(*_at(call), version=asked.version)
        # Always a download: an artifact may be a page with scripts, and must not run in our origin.
        headers = {
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "ETag": f'"{reading.version.sha256}"',
        }
        return Download(text.encode(), reading.artifact.type, reading.artifact.identifier, headers)

    async def update(call: Call) -> ArtifactAnswer:
        given: ArtifactChange = call.body
        principal, workspace_id, artifact_id = _at(call)
        made = await service.update(
            principal,
            workspace_id,
            ArtifactReference(artifact_id),
            given.content,
            title=given.title,
            expected_version=given.expected_version,
        )
        return artifact_answer(made)

    async def versions(call: Call) -> Page[ArtifactVersionAnswer]:
        asked: PageQuery = call.query
        found = await service.versions(*_at(call), limit=asked.limit, cursor=asked.cursor)
        return found.map(_version_answer)

    async def diff(call: Call) -> ArtifactDiffAnswer:
        asked: DiffQuery = call.query
        return _diff_answer(
            await service.diff(*_at(call), from_version=asked.from_version, to_version=asked.to_version)
        )

    async def delete(call: Call) -> None:
        await service.delete(*_at(call))

    return [
        Operation(
            method="GET",
            path=_BASE,
            handler=page,
            summary="List artifacts, the last changed first",
            tag=_TAG,
            access=READ_INTEL,
            query=ArtifactQuery,
            answer=ArtifactAnswer,
            paged=True,
        ),
        Operation(
            method="POST",
            path=_BASE,
            handler=create,
            summary="Create an artifact",
            tag=_TAG,
            access=WRITE_INTEL,
            body=ArtifactBody,
            answer=ArtifactAnswer,
            status=201,
        ),
        Operation(
            method="GET",
            path=_ONE,
            handler=read,
            summary="Read an artifact, the newest version or an earlier one",
            tag=_TAG,
            access=READ_INTEL,
            query=VersionQuery,
            answer=ArtifactContentAnswer,
        ),
        Operation(
            method="GET",
            path=_ONE + "/content",
            handler=content,
            summary="Download an artifact's content, however long",
            tag=_TAG,
            access=READ_INTEL,
            query=VersionQuery,
            produces="text/plain",
        ),
        Operation(
            method="PUT",
            path=_ONE,
            handler=update,
            summary="Write the next version of an artifact",
            tag=_TAG,
            access=WRITE_INTEL,
            body=ArtifactChange,
            answer=ArtifactAnswer,
        ),
        Operation(
            method="GET",
            path=_ONE + "/versions",
            handler=versions,
            summary="List an artifact's versions, newest first",
            tag=_TAG,
            access=READ_INTEL,
            query=PageQuery,
            answer=ArtifactVersionAnswer,
            paged=True,
        ),
        Operation(
            method="GET",
            path=_ONE + "/diff",
            handler=diff,
            summary="Compare two versions of an artifact",
            tag=_TAG,
            access=READ_INTEL,
            query=DiffQuery,
            answer=ArtifactDiffAnswer,
        ),
        Operation(
            method="DELETE",
            path=_ONE,
            handler=delete,
            summary="Delete an artifact with all its versions",
            tag=_TAG,
            access=WRITE_INTEL,
            status=204,
        ),
    ]


def _at(call: Call) -> tuple[Principal, str, str]:
    return call.principal, call.path["workspace_id"], call.path["artifact_id"]
