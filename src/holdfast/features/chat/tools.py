"""Owns which tools a turn offers its model: research that was asked for, and in a chat what always belongs to it."""

from dataclasses import dataclass

from holdfast.core.principal import Principal
from holdfast.engines.llm.model import LoopTool
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores import VectorStoreService
from holdfast.features.memory.service import MemoryService
from holdfast.features.server_tools.chat_artifacts import artifact_tools
from holdfast.features.server_tools.chat_ask import ask_user_tool
from holdfast.features.server_tools.chat_knowledge import chat_file_search, memory_tools, store_file_search
from holdfast.features.server_tools.chat_research import ResearchTools
from holdfast.features.server_tools.chat_selection import SELECTABLE, ToolOptions, selected

_CODE = frozenset({"code_search", "gitlab_code_search"})


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
        available = SELECTABLE - disabled
        if principal.tier not in ("intel", "all"):
            available -= _CODE
        files = None if "file_search" in disabled else await self._file_search(place, options)
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
        return tools if files is None else [*tools, files]

    async def _file_search(self, place: Place, options: ToolOptions) -> LoopTool | None:
        principal, workspace_id, chat_id = place.principal, place.workspace_id, place.chat_id
        if options.vector_store_ids:
            return store_file_search(self._vector_stores, principal, workspace_id, options.vector_store_ids)
        if chat_id is not None and await self._documents.has_documents(principal, workspace_id, chat_id):
            return chat_file_search(self._documents, principal, workspace_id, chat_id)
        if options.file_search:
            return chat_file_search(self._documents, principal, workspace_id, chat_id)
        return None
