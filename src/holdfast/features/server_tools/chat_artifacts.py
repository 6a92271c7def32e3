"""Owns the content tools of chats: create_artifact and update_artifact."""

from pydantic import Field

from holdfast.core.principal import Principal
from holdfast.engines.llm.model import Json, LoopTool, Outcome
from holdfast.features.artifacts.model import TYPES, Artifact, ArtifactReference, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.server_tools.chat_adapter import ChatInput, adapted, json_text


class CreateArtifactInput(ChatInput):
    identifier: str = Field(
        description="A stable name for later updates: 1 to 128 ASCII letters, digits, hyphens, underscores and dots."
    )
    title: str = Field(description="What people see.")
    type: str = Field(description=f"MIME type: {', '.join(TYPES)}, or text/x-LANGUAGE for code, such as text/x-python.")
    language: str | None = Field(None, description="Programming language for highlighting; leave out for prose.")
    content: str = Field(description="The whole content, at most 1 MB.")


class UpdateArtifactInput(ChatInput):
    identifier: str = Field(description="The identifier that the artifact was created with in this chat.")
    content: str = Field(description="The whole new content; it replaces the version before.")


def artifact_tools(
    service: ArtifactService, principal: Principal, workspace_id: str, chat_id: str | None
) -> list[LoopTool]:
    """Both tools, for the artifacts of one chat."""

    async def create(given: CreateArtifactInput) -> Outcome:
        new = NewArtifact(given.identifier, given.title, given.type, given.content, given.language, chat_id)
        made = await service.create(principal, workspace_id, new)
        event = {
            "type": "x_artifact.created",
            "identifier": made.identifier,
            "title": made.title,
            "version": made.version,
        }
        return Outcome(json_text(_written("created", made)), events=[event])

    async def update(given: UpdateArtifactInput) -> Outcome:
        reference = ArtifactReference(identifier=given.identifier, chat_id=chat_id)
        made = await service.update(principal, workspace_id, reference, given.content)
        event = {"type": "x_artifact.updated", "identifier": made.identifier, "version": made.version}
        return Outcome(json_text(_written("updated", made)), events=[event])

    return [
        adapted(
            "create_artifact",
            "Keep something whole that the person will want to use or come back to: a document, code file, page, "
            "drawing or diagram. It is version 1; change it later with update_artifact.",
            CreateArtifactInput,
            create,
        ),
        adapted(
            "update_artifact",
            "Write the next version of an artifact of this chat. Give the whole content, not a difference.",
            UpdateArtifactInput,
            update,
        ),
    ]


def _written(status: str, artifact: Artifact) -> Json:
    return {
        "status": status,
        "artifact_id": artifact.id,
        "identifier": artifact.identifier,
        "title": artifact.title,
        "type": artifact.type,
        "version": artifact.version,
    }
