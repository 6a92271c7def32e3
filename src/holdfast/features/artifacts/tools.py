"""Owns the artifact tools: `xerotier.artifact.create`, `update`, `read` and `list`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.core.clock import iso
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.features.artifacts.model import (
    MAX_PART_CHARACTERS,
    PART_CHARACTERS,
    TYPES,
    Artifact,
    ArtifactReading,
    ArtifactReference,
    ContentPart,
    NewArtifact,
)
from holdfast.features.artifacts.service import ArtifactService

_Version = Annotated[int, Field(ge=1, le=2**53)]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CreateInput(_Input):
    identifier: str = Field(
        description="Stable name for later updates.",
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9._-]+$",
    )
    title: str = Field(description="What people see.", min_length=1, max_length=300)
    type: str = Field(description=f"MIME type: {', '.join(TYPES)}, or text/x-LANGUAGE for code, such as text/x-python.")
    content: str = Field(description="The whole content, at most 1 MiB in a chat.")
    language: str | None = Field(None, description="Of code, for highlighting.")
    chat_id: str | None = Field(None, description="The chat to keep it with, if not the workspace.")


class _Named(_Input):
    artifact_id: str | None = Field(None, description="Its id.")
    identifier: str | None = Field(None, description="Or its identifier.")
    chat_id: str | None = Field(None, description="The chat of that identifier, if it has one.")

    @model_validator(mode="after")
    def _names_one(self) -> "_Named":
        if (self.artifact_id is None) == (self.identifier is None):
            raise ValueError("give either artifact_id or identifier")
        return self

    def reference(self, call: ToolCall) -> ArtifactReference:
        """Which one is meant; an identifier is looked for in the chat that calls."""
        chat = (self.chat_id or call.chat_id) if self.identifier is not None else None
        return ArtifactReference(self.artifact_id, self.identifier, chat)


class UpdateInput(_Named):
    content: str = Field(description="The whole new content.")
    title: str | None = Field(None, description="A new title, if it changes.", min_length=1, max_length=300)
    expected_version: _Version | None = Field(None, description="Refuse unless this is still the newest version.")


class ReadInput(_Named):
    version: _Version | None = Field(None, description="The newest when left out.")
    offset: int | None = Field(None, ge=0, le=2**53, description="Read a part, from this character on.")
    length: int | None = Field(
        None,
        ge=1,
        le=MAX_PART_CHARACTERS,
        description=f"Its characters at most; {PART_CHARACTERS} when left out.",
    )

    @property
    def part(self) -> ContentPart | None:
        """Which part is wanted; None for the whole."""
        if self.offset is None and self.length is None:
            return None
        return ContentPart(self.offset or 0, self.length or PART_CHARACTERS)


class ListInput(_Input):
    chat_id: str | None = Field(None, description="Only those of this chat.")
    artifact_type: str | None = Field(None, description="Only those of this MIME type.")
    limit: int = Field(20, ge=1, le=100, description="How many at most.")
    offset: int = Field(0, ge=0, le=2**53, description="How many to skip.")


class WrittenOutput(BaseModel):
    artifact_id: str
    identifier: str
    version: int
    status: Literal["created", "updated"]
    title: str
    type: str


class ArtifactOutput(BaseModel):
    artifact_id: str
    identifier: str
    title: str
    type: str
    language: str | None
    version: int
    chat_id: str | None
    size_bytes: int
    created_at: str
    updated_at: str


class ReadOutput(ArtifactOutput):
    latest_version: int
    sha256: str
    author: str
    content: str | None = None
    content_truncated: bool
    next_offset: int | None = None


class ListOutput(BaseModel):
    artifacts: list[ArtifactOutput]
    total: int


def artifact_output(artifact: Artifact) -> ArtifactOutput:
    """An artifact as the wire has it."""
    return ArtifactOutput(
        artifact_id=artifact.id,
        identifier=artifact.identifier,
        title=artifact.title,
        type=artifact.type,
        language=artifact.language,
        version=artifact.version,
        chat_id=artifact.chat_id,
        size_bytes=artifact.size_bytes,
        created_at=iso(artifact.created_at),
        updated_at=iso(artifact.updated_at),
    )


def read_output(reading: ArtifactReading) -> ReadOutput:
    """One version of an artifact as the wire has it."""
    fields = artifact_output(reading.artifact).model_dump()
    fields |= {
        "title": reading.version.title,
        "version": reading.version.version,
        "size_bytes": reading.version.size_bytes,
        "updated_at": iso(reading.version.created_at),
    }
    return ReadOutput(
        **fields,
        latest_version=reading.artifact.version,
        sha256=reading.version.sha256,
        author=reading.version.author,
        content=reading.content,
        # A part that begins later is no whole either, though nothing follows it.
        content_truncated=len((reading.content or "").encode()) < reading.version.size_bytes,
        next_offset=reading.next_offset,
    )


def tools(service: ArtifactService) -> list[AnyTool]:
    """Every artifact tool, over one service."""

    async def create(call: ToolCall, given: CreateInput) -> WrittenOutput:
        chat = given.chat_id or call.chat_id
        new = NewArtifact(given.identifier, given.title, given.type, given.content, given.language, chat)
        return _written(await service.create(call.principal, call.workspace(), new), "created")

    async def update(call: ToolCall, given: UpdateInput) -> WrittenOutput:
        made = await service.update(
            call.principal,
            call.workspace(),
            given.reference(call),
            given.content,
            title=given.title,
            expected_version=given.expected_version,
        )
        return _written(made, "updated")

    async def read(call: ToolCall, given: ReadInput) -> ReadOutput:
        who, where, part = call.principal, call.workspace(), given.part
        id = (await service.find(who, where, given.reference(call))).id
        if part is None:
            return read_output(await service.read(who, where, id, version=given.version))
        return read_output(await service.read_part(who, where, id, part, version=given.version))

    async def list_all(call: ToolCall, given: ListInput) -> ListOutput:
        found, total = await service.list(
            call.principal,
            call.workspace(),
            chat_id=given.chat_id,
            type=given.artifact_type,
            limit=given.limit,
            offset=given.offset,
        )
        return ListOutput(artifacts=[artifact_output(artifact) for artifact in found], total=total)

    return [
        Tool(
            name="xerotier.artifact.create",
            title="Create an artifact",
            description="Keep a document, page, diagram, data file or code in the workspace as version 1. "
            "Example: identifier plan.md, type text/markdown",
            input=CreateInput,
            output=WrittenOutput,
            handler=create,
            annotations=Annotations(read_only=False),
            access=WRITE_INTEL,
            in_workspace=True,
        ),
        Tool(
            name="xerotier.artifact.update",
            title="Update an artifact",
            description="Write the next version of an artifact of this workspace; earlier versions stay readable. "
            "Example: identifier plan.md",
            input=UpdateInput,
            output=WrittenOutput,
            handler=update,
            annotations=Annotations(read_only=False),
            access=WRITE_INTEL,
            in_workspace=True,
        ),
        Tool(
            name="xerotier.artifact.read",
            title="Read an artifact",
            description="One artifact with its content, the newest version or an earlier one. "
            "Content over 1 MiB is left out (content_truncated): read parts from offset 0, then from each next_offset. "
            "Example: identifier plan.md, version 2",
            input=ReadInput,
            output=ReadOutput,
            handler=read,
            annotations=Annotations(read_only=True, idempotent=True),
            access=READ_INTEL,
            in_workspace=True,
            whole=True,
        ),
        Tool(
            name="xerotier.artifact.list",
            title="List artifacts",
            description="The artifacts of this workspace, the last changed first, optionally of one chat or type. "
            "Example: artifact_type text/html",
            input=ListInput,
            output=ListOutput,
            handler=list_all,
            annotations=Annotations(read_only=True, idempotent=True),
            access=READ_INTEL,
            in_workspace=True,
        ),
    ]


def _written(artifact: Artifact, status: Literal["created", "updated"]) -> WrittenOutput:
    return WrittenOutput(
        artifact_id=artifact.id,
        identifier=artifact.identifier,
        version=artifact.version,
        status=status,
        title=artifact.title,
        type=artifact.type,
    )
