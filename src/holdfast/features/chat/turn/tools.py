"""Owns which tools a turn offers its model: research that was asked for, and in a chat what always belongs to it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.principal import Principal
from holdfast.core.tools.gateway import Gateway
from holdfast.core.tools.tool import ToolCall
from holdfast.engines.llm.model import TOOL_SECONDS, LoopTool
from holdfast.engines.llm.offered import Offer, enrolled_tool, loop_tool, turning_away
from holdfast.features.chat.turn.limits import ToolLimits, limited
from holdfast.features.chat.turn.selection import SELECTABLE, ContextSize, ToolOptions, selected
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.vector_stores.service import VectorStoreService

IN_CHATS = ("create_artifact", "update_artifact", "save_memory", "recall_memory", "ask_user")
"""What every chat offers; outside of one there is nothing that these belong to."""

_HITS: dict[ContextSize, int] = {"low": 5, "medium": 8, "high": 12}


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Whose turn it is, and where."""

    principal: Principal
    project_id: str
    workspace_id: str
    chat_id: str | None


@dataclass(frozen=True, slots=True)
class Offered:
    """The tools of one turn, and who is told of calls of others."""

    tools: Sequence[LoopTool]
    turn_away: Callable[[str], Awaitable[None]]


class ChatTools:
    """Chooses among the tools of the gateway that chats list."""

    def __init__(self, gateway: Gateway, documents: DocumentService, vector_stores: VectorStoreService) -> None:
        self._gateway = gateway
        self._documents = documents
        self._vector_stores = vector_stores

    async def choose(self, place: TurnPlace, options: ToolOptions, disabled: frozenset[str]) -> Offered:
        """The tools of one turn."""
        call = ToolCall(
            place.principal,
            place.workspace_id,
            "chat",
            project_id=place.project_id,
            chat_id=place.chat_id,
            seconds=TOOL_SECONDS,
        )
        # What is not here does not exist for the model, and a call of it runs nothing.
        allowed = self._gateway.visible_aliases(place.principal, "chat")
        available = (SELECTABLE - disabled) & allowed.keys()
        has_files = "file_search" in available and await self._has_files(place, options)
        if not has_files:
            available -= {"file_search"}
        names: list[str] = []
        if options.research:
            names += [name for name in selected(options.names, available) if name in available - {"file_search"}]
        if place.chat_id is not None:
            names += IN_CHATS
        if has_files:
            names.append("file_search")
        fixed: dict[str, dict[str, Any]] = {
            "web_search": {"max_results": _HITS[options.context_size], **_limits(options, "web_search").fixed},
            "fetch_url": {**_limits(options, "fetch_url").fixed},
            "file_search": {"vector_store_ids": list(options.vector_store_ids)},
        }
        offers = [Offer(allowed[name], fixed.get(name, {})) for name in names if name in allowed]
        made = [loop_tool(self._gateway, call, offer) for offer in offers]
        tools = [limited(tool, options.limits[tool.name]) if tool.name in options.limits else tool for tool in made]
        tools += await self._enrolled(place, call, options)
        return Offered(tools, turning_away(self._gateway, call))

    async def _enrolled(self, place: TurnPlace, call: ToolCall, options: ToolOptions) -> list[LoopTool]:
        """The tools of other servers that the request names, of those that its maker may call."""
        wanted = [name for name in dict.fromkeys(options.names) if "." in name]
        if not wanted:
            return []
        there = {tool.name: tool for tool in await self._gateway.enrolled(place.principal, place.workspace_id)}
        return [enrolled_tool(self._gateway, call, there[name]) for name in wanted if name in there]

    async def _has_files(self, place: TurnPlace, options: ToolOptions) -> bool:
        principal, workspace_id, chat_id = place.principal, place.workspace_id, place.chat_id
        for id in options.vector_store_ids:
            await self._vector_stores.get(principal, workspace_id, id)
        if options.vector_store_ids or options.file_search:
            return True
        return chat_id is not None and await self._documents.has_documents(principal, workspace_id, chat_id)


def _limits(options: ToolOptions, name: str) -> ToolLimits:
    return options.limits.get(name, ToolLimits())
