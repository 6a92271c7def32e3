"""Owns the REST operations of chats: list, find, read, rename, delete and back, export, and answering questions."""

from typing import Any, Literal

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.model import Answer, Model, PageQuery, Time
from holdfast.core.operations import Download, Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.core.text.jsontext import dumps
from holdfast.features.chat.export import markdown
from holdfast.features.chat.finding.service import ChatFinding
from holdfast.features.chat.model import (
    Chat,
    ChatMessage,
    ChatQuestion,
    FoundMessage,
    MessageState,
    QuestionState,
    ThreadMessage,
)
from holdfast.features.chat.service import ChatService
from holdfast.features.documents.service import DocumentService

_BASE = "/api/workspaces/{workspace_id}/chats"
_ONE = _BASE + "/{chat_id}"

api = Operations("chats")


class ChatBody(Model):
    id: str | None = Field(default=None, max_length=128, description="The id to use as x_chat_id; made when left out")
    title: str = Field(default="New chat", max_length=1000)


class ChatChangeBody(Model):
    title: str = Field(max_length=1000)


class AnswerBody(Model):
    answer: Any = Field(description="Words, options, yes or no, 1 to 5, or an object of a form's values")


class MessagesQuery(PageQuery):
    branch: str | None = Field(default=None, max_length=100, description="Only the conversation up to this message")


class ThreadQuery(PageQuery):
    at: str | None = Field(default=None, max_length=100, description="A message that the conversation goes through")


class ChatSearchQuery(PageQuery):
    q: str = Field(max_length=1000, description="Words that a message has, or the title of its chat")
    workspace_id: str | None = Field(default=None, max_length=100, description="Only in this workspace")


class ChatExportQuery(Model):
    format: Literal["json", "markdown"] = "json"


class ChatAnswer(Answer):
    id: str
    workspace_id: str
    title: str
    endpoint: str = Field(description="The endpoint of its last turn; empty before the first")
    messages: int
    tokens_in: int
    tokens_out: int
    cost: float
    created_by: str
    created_by_name: str
    created_at: Time
    updated_at: Time


class MessageAnswer(Answer):
    id: str
    number: int = Field(description="Counts the chat's messages in the order that they came")
    parent_id: str | None = Field(description="The message before it; two with one parent are branches")
    role: str
    message: dict[str, Any] = Field(description="The message as it was sent, or answered")
    state: MessageState
    model: str
    finish_reason: str
    calls: list[dict[str, Any]] = Field(description="The tools that ran here for it")
    memories: list[dict[str, Any]] = Field(description="What the model was reminded of")
    tokens_in: int
    tokens_out: int
    cost: float
    author: str
    created_at: Time


class AttachmentAnswer(Answer):
    id: str
    filename: str
    media_type: str
    size_bytes: int
    state: str
    created_at: Time


class QuestionAnswer(Answer):
    correlation_id: str
    message_id: str
    question: dict[str, Any]
    state: QuestionState
    answer: Any
    answered_by: str | None
    asked_at: Time
    answered_at: Time | None


class ThreadAnswer(MessageAnswer):
    siblings: list[str] = Field(description="Every message that follows the same one, this one included")
    question: QuestionAnswer | None = Field(description="What the model asked with it")


class FoundMessageAnswer(Answer):
    workspace_id: str
    chat_id: str
    title: str = Field(description="The chat's")
    message_id: str = Field(description="Empty where it is the title of the chat that matches")
    role: str
    snippet: str = Field(description="The words around the first that matched")
    created_at: Time


@api.get("/api/chats", READ, "List chats of every workspace that you see, the last used first")
async def recent(finding: ChatFinding, principal: Principal, query: PageQuery) -> Page[ChatAnswer]:
    return (await finding.recent(principal, limit=query.limit, cursor=query.cursor)).map(ChatAnswer.of)


@api.get("/api/chat-messages", READ, "Find messages by their words, in one workspace or in every one that you see")
async def search(finding: ChatFinding, principal: Principal, query: ChatSearchQuery) -> Page[FoundMessageAnswer]:
    found = await finding.search(
        principal, query.q, workspace_id=query.workspace_id, limit=query.limit, cursor=query.cursor
    )
    return found.map(_found)


def _found(found: FoundMessage) -> FoundMessageAnswer:
    chat = found.chat
    return FoundMessageAnswer.of(found, workspace_id=chat.workspace_id, chat_id=chat.id, title=chat.title)


@api.get(_BASE, READ, "List chats, the last used first")
async def page(chats: ChatService, principal: Principal, workspace_id: str, query: PageQuery) -> Page[ChatAnswer]:
    found = await chats.list(principal, workspace_id, limit=query.limit, cursor=query.cursor)
    return found.map(ChatAnswer.of)


@api.get(_ONE + "/messages", READ, "A chat's messages, of every branch or of one")
async def messages(
    chats: ChatService, principal: Principal, workspace_id: str, chat_id: str, query: MessagesQuery
) -> Page[MessageAnswer]:
    if query.branch is not None:
        return Page(await chats.branch(principal, workspace_id, chat_id, query.branch)).map(MessageAnswer.of)
    found = await chats.messages(principal, workspace_id, chat_id, limit=query.limit, cursor=query.cursor)
    return found.map(MessageAnswer.of)


@api.get(
    _ONE + "/thread", READ, "The conversation that a chat ends with, or one through a message; the end comes first"
)
async def thread(
    chats: ChatService, principal: Principal, workspace_id: str, chat_id: str, query: ThreadQuery
) -> Page[ThreadAnswer]:
    found = await chats.thread(principal, workspace_id, chat_id, query.at, limit=query.limit, cursor=query.cursor)
    return found.map(_threaded)


def _threaded(found: ThreadMessage) -> ThreadAnswer:
    return ThreadAnswer.of(found.message, siblings=found.siblings, question=found.question)


@api.get(_ONE + "/attachments", READ, "The documents uploaded to a chat")
async def attachments(
    chats: ChatService,
    documents: DocumentService,
    principal: Principal,
    workspace_id: str,
    chat_id: str,
    query: PageQuery,
) -> Page[AttachmentAnswer]:
    chat = await chats.get(principal, workspace_id, chat_id)
    found = await documents.page(principal, chat.workspace_id, chat_id=chat.id, limit=query.limit, cursor=query.cursor)
    return found.map(AttachmentAnswer.of)


@api.get(_ONE + "/questions", READ, "What models asked in a chat")
async def questions(
    chats: ChatService, principal: Principal, workspace_id: str, chat_id: str, query: PageQuery
) -> Page[QuestionAnswer]:
    found = await chats.questions(principal, workspace_id, chat_id, limit=query.limit, cursor=query.cursor)
    return found.map(QuestionAnswer.of)


@api.post(_BASE, WRITE, "Make a chat before its first message", status=201)
async def create(chats: ChatService, principal: Principal, workspace_id: str, body: ChatBody) -> ChatAnswer:
    return ChatAnswer.of(await chats.create(principal, workspace_id, chat_id=body.id, title=body.title))


@api.get(_ONE, READ, "Read a chat")
async def read(chats: ChatService, principal: Principal, workspace_id: str, chat_id: str) -> ChatAnswer:
    return ChatAnswer.of(await chats.get(principal, workspace_id, chat_id))


@api.patch(_ONE, WRITE, "Rename a chat")
async def rename(
    chats: ChatService, principal: Principal, workspace_id: str, chat_id: str, body: ChatChangeBody
) -> ChatAnswer:
    return ChatAnswer.of(await chats.rename(principal, workspace_id, chat_id, body.title))


@api.delete(_ONE, WRITE, "Delete a chat with its messages; for an hour it can be restored")
async def delete(chats: ChatService, principal: Principal, workspace_id: str, chat_id: str) -> None:
    await chats.delete(principal, workspace_id, chat_id)


@api.post(_ONE + "/restore", WRITE, "Put back a chat that was deleted within the hour")
async def restore(chats: ChatService, principal: Principal, workspace_id: str, chat_id: str) -> ChatAnswer:
    return ChatAnswer.of(await chats.restore(principal, workspace_id, chat_id))


def whole(chat: Chat, messages: list[ChatMessage], questions: list[ChatQuestion]) -> dict[str, Any]:
    """A chat with everything that was said in it."""
    return {
        "chat": ChatAnswer.of(chat).model_dump(),
        "messages": [MessageAnswer.of(message).model_dump() for message in messages],
        "questions": [QuestionAnswer.of(question).model_dump() for question in questions],
    }


@api.get(_ONE + "/export", READ, "Download a whole chat as JSON or Markdown", produces="application/json")
async def export(
    chats: ChatService, principal: Principal, workspace_id: str, chat_id: str, query: ChatExportQuery
) -> Download:
    chat, kept, asked = await chats.export(principal, workspace_id, chat_id)
    name = "chat-" + "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in chat.id)
    if query.format == "markdown":
        return Download(markdown(chat, kept, asked).encode("utf-8", "replace"), "text/markdown", f"{name}.md")
    return Download(dumps(whole(chat, kept, asked)), "application/json", f"{name}.json")


@api.post(
    _ONE + "/questions/{correlation_id}/answer",
    WRITE,
    "Answer a question; the chat's next turn goes on from there",
)
async def answer(
    chats: ChatService,
    principal: Principal,
    workspace_id: str,
    chat_id: str,
    correlation_id: str,
    body: AnswerBody,
) -> QuestionAnswer:
    return QuestionAnswer.of(await chats.answer(principal, workspace_id, chat_id, correlation_id, body.answer))
