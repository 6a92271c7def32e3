"""Owns the REST operations of artifacts."""

from typing import Literal

from pydantic import AliasPath, Field

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.model import Answer, Model, NoQuery, PageQuery, Time
from holdfast.core.operations import Download, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.artifacts.model import (
    ArtifactReading,
    ArtifactReference,
    NewArtifact,
)
from holdfast.features.artifacts.service import ArtifactService

api = Operations("artifacts")
_BASE = "/api/workspaces/{workspace_id}/artifacts"
_ONE = _BASE + "/{artifact_id}"
_MOST = 2**53


class ArtifactBody(Model):
    identifier: str = Field(description="1 to 128 ASCII letters, digits, hyphens, underscores and dots")
    title: str = Field(description="What people see")
    type: str = Field(description="MIME type of the content")
    content: str = Field(description="The whole content")
    language: str | None = Field(default=None, description="Programming language, for highlighting")
    chat_id: str | None = Field(default=None, description="The chat it belongs to; none for the workspace")


class ArtifactChangeBody(Model):
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


class ArtifactAnswer(Answer):
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
    created_at: Time
    updated_at: Time


class ArtifactContentAnswer(ArtifactAnswer):
    latest_version: int
    sha256: str
    author: str
    content: str | None = Field(description="Null when it is over 1 MiB: download it at …/content")
    content_truncated: bool


class ArtifactVersionAnswer(Answer):
    version: int
    title: str
    size_bytes: int
    sha256: str
    author: str
    created_at: Time


class ArtifactDiffAnswer(Answer):
    artifact_id: str = Field(validation_alias=AliasPath("artifact", "id"))
    format: Literal["unified"] = "unified"
    from_version: int
    to_version: int
    added_lines: int
    removed_lines: int
    diff: str


def content_answer(reading: ArtifactReading, content: str | None = None) -> ArtifactContentAnswer:
    """A version with its content, which is handed over where it is longer than a reading holds."""
    version = reading.version
    return ArtifactContentAnswer.of(
        reading.artifact,
        title=version.title,
        version=version.version,
        size_bytes=version.size_bytes,
        updated_at=version.created_at,
        latest_version=reading.artifact.version,
        sha256=version.sha256,
        author=version.author,
        content=reading.content if content is None else content,
        content_truncated=reading.content is None and content is None,
    )


@api.get(_BASE, READ_INTEL, "List artifacts, the last changed first")
async def page(
    artifacts: ArtifactService, principal: Principal, workspace_id: str, query: ArtifactQuery
) -> Page[ArtifactAnswer]:
    found = await artifacts.page(
        principal,
        workspace_id,
        chat_id=query.chat_id,
        type=query.artifact_type,
        limit=query.limit,
        cursor=query.cursor,
    )
    return found.map(ArtifactAnswer.of)


@api.post(_BASE, WRITE_INTEL, "Create an artifact", status=201)
async def create(
    artifacts: ArtifactService, principal: Principal, workspace_id: str, body: ArtifactBody
) -> ArtifactAnswer:
    return ArtifactAnswer.of(await artifacts.create(principal, workspace_id, body.into(NewArtifact)))


@api.get(_ONE, READ_INTEL, "Read an artifact, the newest version or an earlier one")
async def read(
    artifacts: ArtifactService, principal: Principal, workspace_id: str, artifact_id: str, query: VersionQuery
) -> ArtifactContentAnswer:
    return content_answer(await artifacts.read(principal, workspace_id, artifact_id, version=query.version))


@api.get(_ONE + "/content", READ_INTEL, "Download an artifact's content, however long", produces="text/plain")
async def content(
    artifacts: ArtifactService, principal: Principal, workspace_id: str, artifact_id: str, query: VersionQuery
) -> Download:
    reading, text = await artifacts.download(principal, workspace_id, artifact_id, version=query.version)
    # Always a download: an artifact may be a page with scripts, and must not run in our origin.
    headers = {
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "ETag": f'"{reading.version.sha256}"',
    }
    return Download(text.encode(), reading.artifact.type, reading.artifact.identifier, headers)


@api.put(_ONE, WRITE_INTEL, "Write the next version of an artifact")
async def update(
    artifacts: ArtifactService,
    principal: Principal,
    workspace_id: str,
    artifact_id: str,
    body: ArtifactChangeBody,
) -> ArtifactAnswer:
    made = await artifacts.update(
        principal,
        workspace_id,
        ArtifactReference(artifact_id),
        body.content,
        title=body.title,
        expected_version=body.expected_version,
    )
    return ArtifactAnswer.of(made)


@api.get(_ONE + "/versions", READ_INTEL, "List an artifact's versions, newest first")
async def versions(
    artifacts: ArtifactService, principal: Principal, workspace_id: str, artifact_id: str, query: PageQuery
) -> Page[ArtifactVersionAnswer]:
    found = await artifacts.versions(principal, workspace_id, artifact_id, limit=query.limit, cursor=query.cursor)
    return found.map(ArtifactVersionAnswer.of)


@api.get(_ONE + "/diff", READ_INTEL, "Compare two versions of an artifact")
async def diff(
    artifacts: ArtifactService, principal: Principal, workspace_id: str, artifact_id: str, query: DiffQuery
) -> ArtifactDiffAnswer:
    return ArtifactDiffAnswer.of(
        await artifacts.diff(
            principal, workspace_id, artifact_id, from_version=query.from_version, to_version=query.to_version
        )
    )


@api.delete(_ONE, WRITE_INTEL, "Delete an artifact with all its versions")
async def delete(artifacts: ArtifactService, principal: Principal, workspace_id: str, artifact_id: str) -> None:
    await artifacts.delete(principal, workspace_id, artifact_id)
