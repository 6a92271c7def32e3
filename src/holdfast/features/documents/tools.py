"""Owns `file_search`, which the chat loop offers where documents were uploaded."""

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.access import READ
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.features.documents.service import DocumentService


class FileSearchInput(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str = Field(description="What to find in the uploaded documents.", min_length=1, max_length=4000)
    max_results: int = Field(5, ge=1, le=50, description="How many passages at most.")


class FoundPassage(BaseModel):
    filename: str
    chunk_text: str
    relevance_score: float
    artifact_id: str


class FileSearchOutput(BaseModel):
    results: list[FoundPassage]


def chat_tools(service: DocumentService) -> list[AnyTool]:
    """The tools of a chat; they see the documents of that chat only, or of the workspace outside of a chat."""

    async def search(call: ToolCall, given: FileSearchInput) -> FileSearchOutput:
        found = await service.search(
            call.principal, call.workspace(), given.query, limit=given.max_results, chat_id=call.chat_id
        )
        return FileSearchOutput(
            results=[
                FoundPassage(
                    filename=each.filename,
                    chunk_text=each.text,
                    relevance_score=each.score,
                    artifact_id=each.document_id,
                )
                for each in found
            ]
        )

    return [
        Tool(
            name="file_search",
            title="Search uploaded documents",
            description="Find the passages of the uploaded documents that answer a question.",
            input=FileSearchInput,
            output=FileSearchOutput,
            handler=search,
            annotations=Annotations(read_only=True, idempotent=True),
            access=READ,
        )
    ]
