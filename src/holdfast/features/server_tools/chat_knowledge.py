"""Owns the knowledge tools of chats: save_memory, recall_memory and file_search."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from pydantic import Field

from holdfast.core.clock import iso
from holdfast.core.principal import Principal
from holdfast.engines.llm.loop import TOOL_CALL
from holdfast.engines.llm.model import Json, LoopTool, Outcome
from holdfast.features.documents.model import Passage
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores import VectorStoreService
from holdfast.features.memory.model import NewMemory, Recalled, Saved
from holdfast.features.memory.service import MemoryService
from holdfast.features.server_tools.chat_adapter import ChatInput, adapted, json_text

RECALLED = 5
# Below this a memory only shares a common word with the query.
_RECALLED_RELEVANCE = 0.1
_MAX_QUERY = 4_000


class SaveMemoryInput(ChatInput):
    content: str = Field(description="The fact, preference or instruction, as one sentence that stands alone.")
    category: Literal["preference", "fact", "instruction"] | None = Field(
        None, description="What kind of thing it is; inferred when left out."
    )


class RecallMemoryInput(ChatInput):
    query: str = Field(min_length=1, max_length=_MAX_QUERY, description="What to remember, in plain words.")


class FileSearchInput(ChatInput):
    query: str = Field(min_length=1, max_length=_MAX_QUERY, description="What to find in the uploaded documents.")
    max_results: int = Field(5, ge=1, le=50, description="How many passages at most.")


def memory_tools(
    service: MemoryService, principal: Principal, workspace_id: str, chat_id: str | None
) -> list[LoopTool]:
    """Saving and recalling, in the chat's workspace."""

    async def save(given: SaveMemoryInput) -> Outcome:
        # A model's word, whoever's key it is under.
        new = NewMemory(content=given.content, category=given.category, chat_id=chat_id, trust="agent")
        return Outcome(json_text(_saved(await service.save(principal, workspace_id, new))))

    async def recall(given: RecallMemoryInput) -> Outcome:
        found = await service.recall(
            principal, workspace_id, given.query, limit=RECALLED, minimum_relevance=_RECALLED_RELEVANCE
        )
        return Outcome(json_text({"memories": [_memory(each) for each in found]}))

    return [
        adapted(
            "save_memory",
            "Remember something for later: what the person prefers, a fact about their work, how they want things "
            "done. What is known already is not kept twice. Never save credentials.",
            SaveMemoryInput,
            save,
            event=TOOL_CALL,
        ),
        adapted(
            "recall_memory",
            "Look up what was remembered about something, by meaning, best match first.",
            RecallMemoryInput,
            recall,
            event=TOOL_CALL,
        ),
    ]


def chat_file_search(
    service: DocumentService, principal: Principal, workspace_id: str, chat_id: str | None
) -> LoopTool:
    """file_search over the documents of a chat, or of the workspace outside of one."""

    async def search(given: FileSearchInput) -> Outcome:
        limit = given.max_results
        return _passages(await service.search(principal, workspace_id, given.query, limit=limit, chat_id=chat_id))

    return _file_search(search)


def store_file_search(
    service: VectorStoreService, principal: Principal, workspace_id: str, vector_store_ids: Sequence[str]
) -> LoopTool:
    """file_search over named vector stores."""

    async def search(given: FileSearchInput) -> Outcome:
        limit = given.max_results
        found = await service.search(principal, workspace_id, vector_store_ids, given.query, limit=limit)
        return _passages([each.passage for each in found])

    return _file_search(search)


def _file_search(search: Callable[[FileSearchInput], Awaitable[Outcome]]) -> LoopTool:
    return adapted(
        "file_search",
        "Find the passages of the uploaded documents that answer a question.",
        FileSearchInput,
        search,
        event=TOOL_CALL,
    )


def _passages(found: Sequence[Passage]) -> Outcome:
    results = [
        {
            "filename": passage.filename,
            "chunk_text": passage.text,
            "relevance_score": round(passage.score, 4),
            "artifact_id": passage.document_id,
        }
        for passage in found
    ]
    return Outcome(
        json_text({"results": results}), sources=len({each.document_id for each in found}), untrusted=bool(results)
    )


def _saved(saved: Saved) -> Json:
    memory = saved.memory
    if memory is None:
        return {"status": saved.outcome, "reason": saved.reason}
    told: Json = {
        "status": saved.outcome,
        "memory_id": memory.id,
        "content": memory.content,
        "category": memory.category,
    }
    if saved.contradicts:
        told["contradicts"] = [
            {"memory_id": each.memory.id, "content": each.memory.content, "reason": each.reason}
            for each in saved.contradicts
        ]
    return told


def _memory(recalled: Recalled) -> Json:
    memory = recalled.memory
    return {
        "id": memory.id,
        "content": memory.content,
        "category": memory.category,
        "relevance": round(recalled.relevance, 4),
        "created_at": iso(memory.learned_at),
    }
