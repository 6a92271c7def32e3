"""Owns the rules of chats: who sees one, renaming, deleting and back, reading its branches, answering its questions."""

import builtins
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, encode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.chat import store
from holdfast.features.chat.answers import answer_text, checked_answer
from holdfast.features.chat.deleted.content import DeletedChat, keep, take
from holdfast.features.chat.model import (
    TYPE,
    AnsweredAlready,
    Chat,
    ChatMessage,
    ChatNotFound,
    ChatQuestion,
    MessageNotFound,
    QuestionNotFound,
    ThreadMessage,
    checked_id,
    checked_title,
)
from holdfast.features.chat.thread import followed, others
from holdfast.features.chat.turn.indexing import exchange
from holdfast.features.chat.turn.trail import text_of, trail_of
from holdfast.features.memory.service import MemoryService
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

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
        """Remove a chat with its messages, questions and unshared memories; its documents and artifacts stay.

        For an hour `restore` puts it back.
        """
        principal.require("inference")

        def work(tx: Tx) -> None:
            found = self._found(tx, principal, workspace_id, chat_id)
            said = store.messages(tx, found.workspace_id, found.id, limit=MAX_EXPORTED)
            asked = store.questions(tx, found.workspace_id, found.id, limit=MAX_EXPORTED)
            for message in said:
                self._search.remove(tx, found.workspace_id, TYPE, message.id)
            forgotten = self._memory.forget_chat(tx, principal, found.workspace_id, found.id)
            keep(tx, DeletedChat(found, said, asked, forgotten), self._clock.now())
            store.delete(tx, found.workspace_id, found.id)
            self._record(tx, principal, "chat.delete", found)

        await self._database.write(work)

    async def restore(self, principal: Principal, workspace_id: str, chat_id: str) -> Chat:
        """Put back a chat that was deleted within the hour, twice is once; Conflict when its id is in use again."""
        principal.require("inference")

        def work(tx: Tx) -> Chat:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            was = take(tx, workspace.id, chat_id, self._clock.now())
            if was is None:
                return self._found(tx, principal, workspace.id, chat_id)
            if not store.insert(tx, was.chat):
                raise Conflict(f"There is another chat {chat_id!r} by now.", code="chat_exists")
            words = {message.id: text_of(message.message) for message in was.messages if message.role == "user"}
            for message in was.messages:
                store.insert_message(tx, workspace.id, message)
                entry = exchange(was.chat, words.get(message.parent_id or "", ""), message)
                if entry is not None:
                    self._search.put(tx, [entry])
            for question in was.questions:
                store.insert_question(tx, workspace.id, question)
            self._memory.restore_chat(tx, principal, was.memories)
            self._record(tx, principal, "chat.restore", was.chat)
            return store.find(tx, workspace.id, was.chat.id) or was.chat

        return await self._database.write(work)

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

    async def thread(
        self,
        principal: Principal,
        workspace_id: str,
        chat_id: str,
        at: str | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[ThreadMessage]:
        """One conversation of the chat from its end on: the one through `at`, or else the last that was held.

        The last messages come first as a page, each page in the order of speaking; a cursor leads to what was before.
        """
        principal.require_any("read", "inference")
        before = str(decode_cursor(cursor, str)[0]) if cursor else None

        def work(tx: Tx) -> Page[ThreadMessage]:
            found = self._found(tx, principal, workspace_id, chat_id)
            placed = store.outline(tx, found.workspace_id, found.id)
            path = followed(placed, at)
            if at is not None and not path:
                raise MessageNotFound(at)
            until = path.index(before) if before in path else len(path)
            shown = path[max(0, until - limit) : until]
            said = store.by_ids(tx, found.workspace_id, found.id, shown)
            asked = store.questions_of(tx, found.workspace_id, found.id, shown)
            siblings = others(placed)
            rows = [ThreadMessage(said[id], siblings[id], asked.get(id)) for id in shown if id in said]
            return Page(rows, encode_cursor(shown[0]) if shown and until > limit else None)

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
        if question.is_approval:
            url = str(question.question.get("approval_url", ""))
            raise Invalid(
                "No answer stands for an approval.",
                fields=[FieldError("x_ask_user", f"a person who is signed in decides at {url}; the chat then goes on")],
            )
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
