"""Owns the names by which chats call the artifact tools: create_artifact and update_artifact."""

from pydantic import Field

from holdfast.core.tools.alias import Alias, AliasInput, AliasTarget, AnyAlias, json_text
from holdfast.core.tools.outcome import Json, Outcome
from holdfast.features.artifacts.model import TYPES
from holdfast.features.artifacts.tools import WrittenOutput


class CreateArtifactInput(AliasInput):
    identifier: str = Field(
        description="A stable name for later updates: 1 to 128 ASCII letters, digits, hyphens, underscores and dots."
    )
    title: str = Field(description="What people see.")
    type: str = Field(description=f"MIME type: {', '.join(TYPES)}, or text/x-LANGUAGE for code, such as text/x-python.")
    language: str | None = Field(None, description="Programming language for highlighting; leave out for prose.")
    content: str = Field(description="The whole content, at most 1 MiB.")


class UpdateArtifactInput(AliasInput):
    identifier: str = Field(description="The identifier that the artifact was created with in this chat.")
    content: str = Field(description="The whole new content; it replaces the version before.")


def aliases() -> list[AnyAlias]:
    """Both, for the artifacts of the chat that calls them."""
    return [
        Alias(
            name="create_artifact",
            consumer="chat",
            description="Keep something whole that the person will want to use or come back to: a document, code file, "
            "page, drawing or diagram. It is version 1; change it later with update_artifact.",
            tools=("xerotier.artifact.create",),
            input=CreateArtifactInput,
            target=lambda given: AliasTarget("xerotier.artifact.create", given.model_dump()),
            show=_created,
            event=None,
        ),
        Alias(
            name="update_artifact",
            consumer="chat",
            description="Write the next version of an artifact of this chat. Give the whole content, not a difference.",
            tools=("xerotier.artifact.update",),
            input=UpdateArtifactInput,
            target=lambda given: AliasTarget("xerotier.artifact.update", given.model_dump()),
            show=_updated,
            event=None,
        ),
    ]


def _created(given: CreateArtifactInput, output: WrittenOutput) -> Outcome:
    event = {
        "type": "x_artifact.created",
        "identifier": output.identifier,
        "title": output.title,
        "version": output.version,
    }
    return Outcome(json_text(_written(output)), events=[event])


def _updated(given: UpdateArtifactInput, output: WrittenOutput) -> Outcome:
    event = {"type": "x_artifact.updated", "identifier": output.identifier, "version": output.version}
    return Outcome(json_text(_written(output)), events=[event])


def _written(output: WrittenOutput) -> Json:
    return {
        "status": output.status,
        "artifact_id": output.artifact_id,
        "identifier": output.identifier,
        "title": output.title,
        "type": output.type,
        "version": output.version,
    }
