"""Owns which tools a turn offers its model: research that was asked for, and in a chat what always belongs to it."""

from dataclasses import dataclass

from holdfast.core.principal import Principal
from holdfast.engines.llm.model import LoopTool
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores import VectorStoreService
from holdfast.features.memory.service import MemoryService
from holdfast.features.server_tools.chat_access import open_to
from holdfast.features.server_tools.chat_artifacts import artifact_tools
from holdfast.features.server_tools.chat_ask import ask_user_tool
from holdfast.features.server_tools.chat_knowledge import chat_file_search, memory_tools, store_file_search
from holdfast.features.server_tools.chat_research import ResearchTools
from holdfast.features.server_tools.chat_selection import SELECTABLE, ToolOptions, selected


@dataclass(frozen=True, slots=True)
class Place:
    """Whose turn it is, and where."""

    principal: Principal
    project_id: str
    workspace_id: str
    chat_id: str | None


class ChatTools:
    """The eleven tools of chats, over the services that their MCP twins use."""

    def __init__(
        self,
        research: ResearchTools,
        memory: MemoryService,
        artifacts: ArtifactService,
        documents: DocumentService,
        vector_stores: VectorStoreService,
    ) -> None:
        self._research = research
        self._memory = memory
        self._artifacts = artifacts
        self._documents = documents
        self._vector_stores = vector_stores

    async def choose(self, place: Place, options: ToolOptions, disabled: frozenset[str]) -> list[LoopTool]:
        """The tools of one turn."""
        principal, workspace_id, chat_id = place.principal, place.workspace_id, place.chat_id
        allowed = open_to(principal)
        available = (SELECTABLE - disabled) & allowed
        files = await self._file_search(place, options) if "file_search" in available else None
        if files is None:
            available -= {"file_search"}
        tools: list[LoopTool] = []
        if options.research:
            names = [name for name in selected(options.names, available) if name in available]
            tools += self._research.tools(place.project_id, names, context_size=options.context_size)
        if chat_id is not None:
            tools += artifact_tools(self._artifacts, principal, workspace_id, chat_id)
            tools += memory_tools(self._memory, principal, workspace_id, chat_id)
            tools.append(ask_user_tool())
        if files is not None:
            tools.append(files)
        # What is not here does not exist for the model, and a call of it runs nothing.
        return [tool for tool in tools if tool.name in allowed]

    async def _file_search(self, place: Place, options: ToolOptions) -> LoopTool | None:
        principal, workspace_id, chat_id = place.principal, place.workspace_id, place.chat_id
        if options.vector_store_ids:
            for id in options.vector_store_ids:
                await self._vector_stores.get(principal, workspace_id, id)
            return store_file_search(self._vector_stores, principal, workspace_id, options.vector_store_ids)
        if chat_id is not None and await self._documents.has_documents(principal, workspace_id, chat_id):
            return chat_file_search(self._documents, principal, workspace_id, chat_id)
        if options.file_search:
            return chat_file_search(self._documents, principal, workspace_id, chat_id)
        return None
