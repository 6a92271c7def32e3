"""Owns how chats and their turns are built."""

from typing import TYPE_CHECKING

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.alias import AnyAlias
from holdfast.core.tools.tool import AnyTool
from holdfast.features.chat.deleted.service import DeletedChats
from holdfast.features.chat.finding.filling import ChatWordsFilling
from holdfast.features.workspaces.service import ChatExists, Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database, Tx

if TYPE_CHECKING:
    from holdfast.features.chat.finding.service import ChatFinding
    from holdfast.features.chat.service import ChatService
    from holdfast.features.chat.turn.turns import ChatTurns

build = Building()

# Every command asks workspaces, and they ask whether a chat exists: what chats are made of is imported by what builds
# them, so that no other command loads it.


@build
def chats(parts: Parts) -> "ChatService":
    from holdfast.engines.events.bus import EventBus
    from holdfast.engines.search.engine import SearchEngine
    from holdfast.features.audit.service import Audit
    from holdfast.features.chat.service import ChatService
    from holdfast.features.memory.service import MemoryService

    return ChatService(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[SearchEngine],
        parts[EventBus],
        parts[Clock],
        parts[MemoryService],
    )


@build
def chat_finding(parts: Parts) -> "ChatFinding":
    from holdfast.features.chat.finding.service import ChatFinding

    return ChatFinding(parts[Database], parts[Workspaces])


@build
def chat_words_filling(parts: Parts) -> ChatWordsFilling:
    from holdfast.features.chat.finding.missing import fill

    return ChatWordsFilling(parts[Database], fill)


@build
def deleted_chats(parts: Parts) -> DeletedChats:
    return DeletedChats(parts[Database], parts[Clock])


@build
def chat_exists(parts: Parts) -> ChatExists:
    def exists(tx: Tx, workspace_id: str, chat_id: str, /) -> bool:
        from holdfast.features.chat import store

        return store.exists(tx, workspace_id, chat_id)

    return exists


@build
def turns(parts: Parts) -> "ChatTurns":
    from holdfast.core.tools.gateway import Gateway
    from holdfast.engines.events.bus import EventBus
    from holdfast.engines.llm.loop import Loop
    from holdfast.engines.search.engine import SearchEngine
    from holdfast.features.chat.service import ChatService
    from holdfast.features.chat.turn.continuation import Continuations
    from holdfast.features.chat.turn.record import TurnRecord
    from holdfast.features.chat.turn.reminders import Reminders
    from holdfast.features.chat.turn.tools import ChatTools
    from holdfast.features.chat.turn.turns import ChatTurns, DeepThinking
    from holdfast.features.documents.service import DocumentService
    from holdfast.features.documents.vector_stores.service import VectorStoreService
    from holdfast.features.memory.service import MemoryService
    from holdfast.features.usage.service import Usage

    tools = ChatTools(
        parts[Gateway],
        parts[DocumentService],
        parts[VectorStoreService],
    )
    return ChatTurns(
        TurnRecord(
            parts[Database],
            parts[ChatService],
            parts[Workspaces],
            parts[SearchEngine],
            parts[Clock],
            parts[EventBus],
        ),
        tools,
        Reminders(parts[MemoryService]),
        parts[Workspaces],
        parts[Usage],
        parts[Loop],
        Continuations(parts[Database], parts[Clock]),
        deep_think=parts[DeepThinking],
        max_rounds=parts[Settings].max_tool_rounds,
    )


def tools(parts: Parts) -> list[AnyTool]:
    """What models call."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.chat import questions

    return questions.tools()


def aliases(parts: Parts) -> list[AnyAlias]:
    """The names that chats know them by."""
    # Their models cost time to make, which commands that call no tool need not spend.
    from holdfast.features.chat import questions

    return questions.aliases()
