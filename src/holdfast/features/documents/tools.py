"""Owns `file_search`, which chats offer where documents were uploaded."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from holdfast.core.access import READ
from holdfast.core.tools.alias import TOOL_CALL, AliasInput, AnyAlias, json_text, under_its_name
from holdfast.core.tools.outcome import Outcome
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.features.documents.model import DocumentPassage
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores.service import VectorStoreService
from holdfast.registry.precedence import near_the_best

DESCRIPTION = "Find the passages of the uploaded documents that answer a question."


class FileSearchInput(AliasInput):
    query: str = Field(min_length=1, max_length=4_000, description="What to find in the uploaded documents.")
    max_results: int = Field(5, ge=1, le=50, description="How many passages at most.")
    vector_store_ids: list[str] | None = Field(None, description="The vector stores that a request names.")


class FoundPassage(BaseModel):
    filename: str
    chunk_text: str
    relevance_score: float
    artifact_id: str


class FileSearchOutput(BaseModel):
    results: list[FoundPassage]


def tools(documents: DocumentService, vector_stores: VectorStoreService) -> list[AnyTool]:
    """Searches named vector stores, or the documents of the chat, or outside of one those of the workspace."""

    async def search(call: ToolCall, given: FileSearchInput) -> FileSearchOutput:
        return _found(await passages(call, given))

    async def passages(call: ToolCall, given: FileSearchInput) -> Sequence[DocumentPassage]:
        who, where, limit = call.principal, call.workspace(), given.max_results
        if given.vector_store_ids:
            found = await vector_stores.search(who, where, given.vector_store_ids, given.query, limit=limit)
            return [each.passage for each in found]
        return await documents.search(who, where, given.query, limit=limit, chat_id=call.chat_id, keep=near_the_best)

    return [
        Tool(
            name="file_search",
            title="Search uploaded documents",
            description=DESCRIPTION,
            input=FileSearchInput,
            output=FileSearchOutput,
            handler=search,
            annotations=Annotations(read_only=True, idempotent=True),
            access=READ,
            consumer=None,
        )
    ]


def aliases() -> list[AnyAlias]:
    """Only chats have uploads to search."""
    return [under_its_name("file_search", "chat", DESCRIPTION, FileSearchInput, _shown, event=TOOL_CALL)]


def _found(passages: Sequence[DocumentPassage]) -> FileSearchOutput:
    return FileSearchOutput(
        results=[
            FoundPassage(
                filename=each.filename,
                chunk_text=each.text,
                relevance_score=round(each.score, 4),
                artifact_id=each.document_id,
            )
            for each in passages
        ]
    )


def _shown(output: FileSearchOutput) -> Outcome:
    read = len({each.artifact_id for each in output.results})
    return Outcome(json_text(output.model_dump()), sources=read, untrusted=bool(output.results))
