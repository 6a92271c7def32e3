"""Owns the rules of chats: who sees one, renaming, deleting, reading its branches, and answering its questions."""

import builtins
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.chat import store
from holdfast.features.chat.answers import answer_text, checked_answer
from holdfast.features.chat.model import (
    AnsweredAlready,
    Chat,
    ChatMessage,
    ChatNotFound,
    ChatQuestion,
    MessageNotFound,
    QuestionNotFound,
    checked_id,
    checked_title,
)
from holdfast.features.chat.turn.trail import trail_of
from holdfast.features.memory.service import MemoryService
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

TYPE = "chat"
"""What search calls the exchanges of a chat."""
MAX_EXPORTED = 100_000


class ChatService:
    """Chats as people manage them; turns are taken in turns.py."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        search: SearchEngine,
        events: EventBus,
        clock: Clock,
        memory: MemoryService,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._search = search
        self._events = events
        self._clock = clock
        self._memory = memory

    async def create(
        self, principal: Principal, workspace_id: str, *, chat_id: str | None = None, title: str = "New chat"
    ) -> Chat:
        """An empty chat, for documents that come before the first message; Conflict when its id is taken."""
        principal.require("inference")
        id, name = checked_id(chat_id) if chat_id is not None else new_id("chat"), checked_title(title)

        def work(tx: Tx) -> Chat:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            now = self._clock.now()
            new = Chat(workspace.id, id, name, "", principal.actor, principal.name, now, now)
            if not store.insert(tx, new):
                raise Conflict(f"There is a chat {id!r} already.", code="chat_exists")
            self._record(tx, principal, "chat.create", new)
            return new

        return await self._database.write(work)

    async def list(
        self, principal: Principal, workspace_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Chat]:
        """Chats by their last message, newest first."""
        principal.require_any("read", "inference")
        before: tuple[int, str] | None = None
        if cursor:
            at, last = decode_cursor(cursor, int, str)
            before = int(at), str(last)

        def work(tx: Tx) -> Page[Chat]:
            rows = store.page(tx, self._workspaces.check(tx, principal, workspace_id).id, before, limit + 1)
            return page_of(rows, limit, lambda row: [row.updated_at, row.id])

        return await self._database.read(work)

    async def get(self, principal: Principal, workspace_id: str, chat_id: str) -> Chat:
        """One chat with the sums of its messages."""
        principal.require_any("read", "inference")
        return await self._database.read(lambda tx: self._found(tx, principal, workspace_id, chat_id))

    async def rename(self, principal: Principal, workspace_id: str, chat_id: str, title: str) -> Chat:
        """Give a chat another title."""
        principal.require("inference")
        name = checked_title(title)

        def work(tx: Tx) -> Chat:
            found = self._found(tx, principal, workspace_id, chat_id)
            store.touch(tx, found, now=found.updated_at, title=name)
            self._record(tx, principal, "chat.rename", found)
            return replace(found, title=name)

        return await self._database.write(work)

    async def delete(self, principal: Principal, workspace_id: str, chat_id: str) -> None:
        """Remove a chat with its messages, questions and unshared memories; its documents and artifacts stay."""
        principal.require("inference")

        def work(tx: Tx) -> None:
            found = self._found(tx, principal, workspace_id, chat_id)
            for message_id in store.message_ids(tx, found.workspace_id, found.id).values():
                self._search.remove(tx, found.workspace_id, TYPE, message_id)
            self._memory.forget_chat(tx, principal, found.workspace_id, found.id)
            store.delete(tx, found.workspace_id, found.id)
            self._record(tx, principal, "chat.delete", found)

        await self._database.write(work)

    async def messages(
        self, principal: Principal, workspace_id: str, chat_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ChatMessage]:
        """The messages of every branch, in the order that they came."""
        principal.require_any("read", "inference")
        after = int(decode_cursor(cursor, int)[0]) if cursor else 0

        def work(tx: Tx) -> Page[ChatMessage]:
            found = self._found(tx, principal, workspace_id, chat_id)
            rows = store.messages(tx, found.workspace_id, found.id, after=after, limit=limit + 1)
            return page_of(rows, limit, lambda row: [row.number])

        return await self._database.read(work)

    async def branch(
        self, principal: Principal, workspace_id: str, chat_id: str, message_id: str
    ) -> builtins.list[ChatMessage]:
        """The conversation that led to a message, that one included."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> builtins.list[ChatMessage]:
            found = self._found(tx, principal, workspace_id, chat_id)
            path = store.branch(tx, found.workspace_id, found.id, message_id)
            if not path:
                raise MessageNotFound(message_id)
            return path

        return await self._database.read(work)

    async def export(
        self, principal: Principal, workspace_id: str, chat_id: str
    ) -> tuple[Chat, builtins.list[ChatMessage], builtins.list[ChatQuestion]]:
        """The whole chat: every message of every branch, and every question."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> tuple[Chat, builtins.list[ChatMessage], builtins.list[ChatQuestion]]:
            found = self._found(tx, principal, workspace_id, chat_id)
            kept = store.messages(tx, found.workspace_id, found.id, limit=MAX_EXPORTED)
            return found, kept, store.questions(tx, found.workspace_id, found.id, limit=MAX_EXPORTED)

        return await self._database.read(work)

    async def questions(
        self, principal: Principal, workspace_id: str, chat_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ChatQuestion]:
        """What models asked in this chat, the first question first."""
        principal.require_any("read", "inference")
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""

        def work(tx: Tx) -> Page[ChatQuestion]:
            found = self._found(tx, principal, workspace_id, chat_id)
            rows = store.questions(tx, found.workspace_id, found.id, after=after, limit=limit + 1)
            return page_of(rows, limit, lambda row: [row.correlation_id])

        return await self._database.read(work)

    async def waiting(
        self, principal: Principal, workspace_id: str, *, limit: int = 20
    ) -> Sequence[tuple[ChatQuestion, str]]:
        """What models of every chat here still wait to be told, each with its chat's title, the last asked first."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Sequence[tuple[ChatQuestion, str]]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            return store.waiting_questions(tx, workspace.id, limit)

        return await self._database.read(work)

    async def answer(
        self, principal: Principal, workspace_id: str, chat_id: str, correlation_id: str, answer: Any
    ) -> ChatQuestion:
        """Answer a question; the chat's next turn goes on from there."""
        principal.require("inference")

        def work(tx: Tx) -> ChatQuestion:
            chat = self._found(tx, principal, workspace_id, chat_id)
            return self.answer_in(tx, principal, chat, correlation_id, answer)

        return await self._database.write(work)

    def answer_in(self, tx: Tx, principal: Principal, chat: Chat, correlation_id: str, answer: Any) -> ChatQuestion:
        """The same within a turn's transaction. The answer becomes a message of the chat."""
        question = store.find_question(tx, chat.workspace_id, chat.id, correlation_id)
        if question is None:
            raise QuestionNotFound(correlation_id)
        if question.state != "pending":
            raise AnsweredAlready
        kept = checked_answer(question.question, answer)
        now = self._clock.now()
        store.touch(tx, chat, now=now)
        if not store.answer_question(tx, correlation_id, kept, by=principal.actor, now=now):
            raise AnsweredAlready
        self.say(tx, principal, chat, question, answer_text(kept))
        self._audit.record(
            tx,
            principal,
            "chat.answer",
            resource="chat_question",
            resource_id=correlation_id,
            workspace_id=chat.workspace_id,
            detail={"chat_id": chat.id},
        )
        payload = {"chat_id": chat.id, "correlation_id": correlation_id}
        self._events.publish(tx, "chat.answer", payload, workspace_id=chat.workspace_id)
        return replace(question, state="answered", answer=kept, answered_by=principal.actor, answered_at=now)

    def say(self, tx: Tx, principal: Principal, chat: Chat, question: ChatQuestion, text: str) -> tuple[str, str]:
        """Keep an answer as the person's message below the question; its id and trail."""
        before = store.find_message(tx, chat.workspace_id, chat.id, question.message_id)
        said = {"role": "user", "content": text}
        trail = trail_of(before.trail if before else "", said)
        message = ChatMessage(
            id=new_id("msg"),
            chat_id=chat.id,
            number=store.next_number(tx, chat.workspace_id, chat.id),
            parent_id=question.message_id,
            trail=trail,
            role="user",
            message=said,
            author=principal.actor,
            created_at=self._clock.now(),
        )
        return store.insert_message(tx, chat.workspace_id, message), trail

    def _found(self, tx: Tx, principal: Principal, workspace_id: str, chat_id: str) -> Chat:
        workspace = self._workspaces.check(tx, principal, workspace_id)
        found = store.find(tx, workspace.id, chat_id)
        if found is None:
            raise ChatNotFound(chat_id)
        return found

    def _record(self, tx: Tx, principal: Principal, action: str, chat: Chat) -> None:
        self._audit.record(tx, principal, action, resource="chat", resource_id=chat.id, workspace_id=chat.workspace_id)
        self._events.publish(tx, action, {"chat_id": chat.id}, workspace_id=chat.workspace_id)
