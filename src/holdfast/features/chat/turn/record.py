"""Owns how a turn is written down: what the client sent before the model runs, and what came of it afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.llm.model import Done, Json
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.chat import store
from holdfast.features.chat.answers import answer_text, checked_answer, tool_message
from holdfast.features.chat.model import (
    MAX_TITLE,
    AnsweredAlready,
    Chat,
    ChatMessage,
    ChatQuestion,
    EndedTurn,
    MessageNotFound,
    Opened,
    QuestionNotFound,
    checked_id,
)
from holdfast.features.chat.service import ChatService
from holdfast.features.chat.turn.indexing import exchange
from holdfast.features.chat.turn.trail import (
    ROOT,
    behind_last_words,
    conversation,
    last_words,
    text_of,
    trail_of,
    trails,
)
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx


@dataclass(frozen=True, slots=True)
class _Sent:
    """What the client sent, against what is kept: the message that it follows, and what is new after that."""

    instructions: list[Json]
    spoken: list[Json]
    new: list[Json]
    parent_id: str | None
    parent_trail: str
    history: Sequence[Json] = ()
    begins: bool = False
    """Whether the client says that nothing comes before it, whatever the chat has."""


class TurnRecord:
    """Writes turns down, each in two transactions: the model runs between them."""

    def __init__(
        self,
        database: Database,
        chats: ChatService,
        workspaces: Workspaces,
        search: SearchEngine,
        clock: Clock,
        events: EventBus,
    ) -> None:
        self._database = database
        self._chats = chats
        self._workspaces = workspaces
        self._search = search
        self._clock = clock
        self._events = events

    async def open(self, principal: Principal, workspace_id: str, chat_id: str, endpoint: str, body: Json) -> Opened:
        """Keep what is new of a request and find out what the model is to see."""
        instructions, spoken = conversation(body.get("messages"))
        id = checked_id(chat_id)

        def work(tx: Tx) -> Opened:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            chat = self._chat(tx, principal, workspace.id, id, endpoint, spoken)
            sent = _place(tx, chat, instructions, spoken, body.get("x_parent_message_id"))
            question = self._answered(tx, principal, chat, sent, body.get("x_ask_user"))
            if question is not None:
                return self._resume(tx, principal, chat, sent, question)
            parent_id, trail = self._keep(tx, principal, chat, sent.new, sent.parent_id, sent.parent_trail)
            messages = [*instructions, *sent.history, *spoken]
            return Opened(chat, parent_id, trail, messages, [*sent.history, *spoken], asked=last_words(spoken))

        return await self._database.write(work)

    async def close(
        self, principal: Principal, opened: Opened, answered: EndedTurn, done: Done | None, seen: Sequence[Json]
    ) -> str:
        """Keep the answer, the question that it ends with, and that a question before it is settled. The id."""
        chat, now = opened.chat, self._clock.now()
        message_id = new_id("msg")
        trail = trail_of(opened.parent_trail, answered.message)

        def work(tx: Tx) -> str:
            self._workspaces.check(tx, principal, chat.workspace_id)
            if not store.touch(tx, chat, now=now):
                # Deleted while the model spoke: nothing is left to add to.
                return message_id
            message = ChatMessage(
                id=message_id,
                chat_id=chat.id,
                number=store.next_number(tx, chat.workspace_id, chat.id),
                parent_id=opened.parent_id,
                trail=trail,
                role="assistant",
                message=answered.message,
                author=principal.actor,
                created_at=now,
                state=answered.state,
                model=answered.model,
                finish_reason=answered.finish_reason,
                calls=answered.calls,
                memories=answered.memories,
                tokens_in=answered.tally.input_tokens,
                tokens_out=answered.tally.output_tokens,
                cost=answered.cost,
            )
            kept_id = store.insert_message(tx, chat.workspace_id, message)
            if done is not None and done.pause is not None:
                store.insert_question(tx, chat.workspace_id, _question(chat, kept_id, done, seen, now))
            if opened.resumed is not None and answered.state != "interrupted":
                store.mark_resumed(tx, opened.resumed.correlation_id)
            entry = exchange(chat, opened.asked, replace(message, id=kept_id))
            if entry is not None:
                self._search.put(tx, [entry])
            told = {"chat_id": chat.id, "message_id": kept_id}
            self._events.publish(tx, "chat.message", told, workspace_id=chat.workspace_id)
            return kept_id

        return await self._database.write(work)

    def _chat(
        self, tx: Tx, principal: Principal, workspace_id: str, id: str, endpoint: str, spoken: Sequence[Json]
    ) -> Chat:
        now = self._clock.now()
        new = Chat(workspace_id, id, _title(spoken), endpoint, principal.actor, principal.name, now, now)
        store.insert(tx, new)
        store.touch(tx, new, now=now, endpoint=endpoint)
        return store.find(tx, workspace_id, id) or new

    def _answered(self, tx: Tx, principal: Principal, chat: Chat, sent: _Sent, explicit: Any) -> ChatQuestion | None:
        """The question that this request goes on from, answered by it or before; None for an ordinary turn."""
        if explicit is not None:
            if not isinstance(explicit, dict) or not isinstance(explicit.get("correlation_id"), str):
                problem = "write an object with correlation_id and answer"
                raise Invalid("The answer cannot be read.", fields=[FieldError("x_ask_user", problem)])
            found = store.find_question(tx, chat.workspace_id, chat.id, explicit["correlation_id"])
            if found is None:
                raise QuestionNotFound(explicit["correlation_id"])
            if found.state == "pending":
                return self._chats.answer_in(tx, principal, chat, found.correlation_id, explicit.get("answer"))
            if "answer" in explicit and not _is_retry(found, explicit["answer"]):
                raise AnsweredAlready
            return found
        for question in store.open_questions(tx, chat.workspace_id, chat.id) if not sent.begins else ():
            if not self._follows(tx, chat, sent, question) or (question.state == "pending" and question.is_approval):
                continue
            if question.state == "answered":
                return question
            if sent.new and sent.new[-1]["role"] == "user" and text_of(sent.new[-1]).strip():
                # In the person's own words: what style the question had is the model's to reconcile.
                text = text_of(sent.new[-1])
                now = self._clock.now()
                store.answer_question(tx, question.correlation_id, text, by=principal.actor, now=now)
                self._chats.say(tx, principal, chat, question, text)
                return store.find_question(tx, chat.workspace_id, chat.id, question.correlation_id)
        return None

    def _follows(self, tx: Tx, chat: Chat, sent: _Sent, question: ChatQuestion) -> bool:
        """Whether the request continues where the question was asked, rather than on another branch."""
        if sent.parent_id is None:
            # Only the answer, without the conversation before it.
            return len(sent.spoken) <= 1
        asked_in = store.find_message(tx, chat.workspace_id, chat.id, question.message_id)
        follows = store.find_message(tx, chat.workspace_id, chat.id, sent.parent_id)
        before = asked_in.parent_id if asked_in else None
        return sent.parent_id in (question.message_id, before) or (
            follows is not None and follows.parent_id == question.message_id
        )

    def _resume(self, tx: Tx, principal: Principal, chat: Chat, sent: _Sent, question: ChatQuestion) -> Opened:
        text = answer_text(question.answer)
        parent_id, trail = self._chats.say(tx, principal, chat, question, text)
        more = [message for message in sent.new if message["role"] == "user" and text_of(message) != text]
        parent, trail = self._keep(tx, principal, chat, more, parent_id, trail)
        seen = [*question.transcript, tool_message(question.call_id, question.answer)]
        return Opened(
            chat,
            parent,
            trail,
            [*seen, *more],
            [*sent.history, *sent.spoken],
            behind_last_words(seen),
            resumed=question,
            asked=text,
        )

    def _keep(
        self,
        tx: Tx,
        principal: Principal,
        chat: Chat,
        new: Sequence[Json],
        parent_id: str | None,
        trail: str,
    ) -> tuple[str | None, str]:
        """Keep messages below a parent; the id and trail of the last."""
        number = store.next_number(tx, chat.workspace_id, chat.id)
        for offset, said in enumerate(new):
            trail = trail_of(trail, said)
            message = ChatMessage(
                id=new_id("msg"),
                chat_id=chat.id,
                number=number + offset,
                parent_id=parent_id,
                trail=trail,
                role=said["role"],
                message=said,
                author=principal.actor,
                created_at=self._clock.now(),
            )
            parent_id = store.insert_message(tx, chat.workspace_id, message)
        return parent_id, trail


def _place(tx: Tx, chat: Chat, instructions: list[Json], spoken: list[Json], parent: Any) -> _Sent:
    """Find the longest beginning of the conversation that is kept."""
    if parent == "":
        return _Sent(instructions, spoken, spoken, None, ROOT, begins=True)
    if parent is not None:
        path = store.branch(tx, chat.workspace_id, chat.id, parent) if isinstance(parent, str) else []
        if not path:
            raise MessageNotFound(str(parent))
        history = [message.message for message in path]
        return _Sent(instructions, spoken, spoken, path[-1].id, path[-1].trail, history)
    known = store.message_ids(tx, chat.workspace_id, chat.id)
    found = trails(spoken)
    for length in range(len(spoken), 0, -1):
        if found[length - 1] in known:
            return _Sent(instructions, spoken, spoken[length:], known[found[length - 1]], found[length - 1])
    return _Sent(instructions, spoken, spoken, None, ROOT)


def _is_retry(question: ChatQuestion, answer: Any) -> bool:
    """Whether the same answer comes again because no turn could go on from it: the model failed, or was hung up on."""
    return question.state == "answered" and checked_answer(question.question, answer) == question.answer


def _question(chat: Chat, message_id: str, done: Done, seen: Sequence[Json], now: int) -> ChatQuestion:
    assert done.pause is not None
    return ChatQuestion(
        correlation_id=done.pause.correlation_id,
        chat_id=chat.id,
        message_id=message_id,
        call_id=done.pending_call_id or done.pause.correlation_id,
        question=done.pause.question,
        transcript=[*seen, *done.added],
        state="pending",
        answer=None,
        answered_by=None,
        asked_at=now,
        answered_at=None,
    )


def _title(spoken: Sequence[Json]) -> str:
    words = next((text_of(message) for message in spoken if message["role"] == "user"), "")
    printable = "".join(letter if letter.isprintable() else " " for letter in words[:1_000])
    return " ".join(printable.split())[: MAX_TITLE // 2].strip() or "New chat"
