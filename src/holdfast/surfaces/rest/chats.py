"""Owns the REST operations of chats: list, read, rename, delete, export, and answering questions."""

from typing import Any, Literal

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.clock import iso, iso_or_none
from holdfast.core.jsontext import dumps
from holdfast.core.model import Model, PageQuery
from holdfast.core.operations import Call, Download, Operation
from holdfast.core.paging import Page
from holdfast.features.chat.export import markdown
from holdfast.features.chat.model import Chat, Message, Question
from holdfast.features.chat.service import ChatService
from holdfast.features.documents.model import Document
from holdfast.features.documents.service import DocumentService

_BASE = "/api/workspaces/{workspace_id}/chats"
_ONE = _BASE + "/{chat_id}"
_TAG = "chats"


class ChatBody(Model):
    id: str | None = Field(default=None, max_length=128, description="The id to use as x_chat_id; made when left out")
    title: str = Field(default="New chat", max_length=1000)


class ChatChange(Model):
    title: str = Field(max_length=1000)


class ChatAnswer(Model):
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
    created_at: str
    updated_at: str


class MessageAnswer(Model):
    id: str
    number: int = Field(description="Counts the chat's messages in the order that they came")
    parent_id: str | None = Field(description="The message before it; two with one parent are branches")
    role: str
    message: dict[str, Any] = Field(description="The message as it was sent, or answered")
    state: Literal["complete", "waiting", "interrupted"]
    model: str
    finish_reason: str
    calls: list[dict[str, Any]] = Field(description="The tools that ran here for it")
    memories: list[dict[str, Any]] = Field(description="What the model was reminded of")
    tokens_in: int
    tokens_out: int
    cost: float
    author: str
    created_at: str


class AttachmentAnswer(Model):
    id: str
    filename: str
    media_type: str
    size_bytes: int
    state: str
    created_at: str


class QuestionAnswer(Model):
    correlation_id: str
    message_id: str
    question: dict[str, Any]
    state: Literal["pending", "answered", "resumed"]
    answer: Any
    answered_by: str | None
    asked_at: str
    answered_at: str | None


class AnswerBody(Model):
    answer: Any = Field(description="Words, options, yes or no, 1 to 5, or an object of a form's values")


class MessagesQuery(PageQuery):
    branch: str | None = Field(default=None, max_length=100, description="Only the conversation up to this message")


class ExportQuery(Model):
    format: Literal["json", "markdown"] = "json"


def chat_answer(chat: Chat) -> ChatAnswer:
    """A chat as REST shows it."""
    return ChatAnswer(
        id=chat.id,
        workspace_id=chat.workspace_id,
        title=chat.title,
        endpoint=chat.endpoint,
        messages=chat.messages,
        tokens_in=chat.tokens_in,
        tokens_out=chat.tokens_out,
        cost=chat.cost,
        created_by=chat.created_by,
        created_by_name=chat.created_by_name,
        created_at=iso(chat.created_at),
        updated_at=iso(chat.updated_at),
    )


def message_answer(message: Message) -> MessageAnswer:
    """A message as REST shows it."""
    return MessageAnswer(
        id=message.id,
        number=message.number,
        parent_id=message.parent_id,
        role=message.role,
        message=message.message,
        state=message.state,
        model=message.model,
        finish_reason=message.finish_reason,
        calls=list(message.calls),
        memories=list(message.memories),
        tokens_in=message.tokens_in,
        tokens_out=message.tokens_out,
        cost=message.cost,
        author=message.author,
        created_at=iso(message.created_at),
    )


def question_answer(question: Question) -> QuestionAnswer:
    """A question as REST shows it."""
    return QuestionAnswer(
        correlation_id=question.correlation_id,
        message_id=question.message_id,
        question=question.question,
        state=question.state,
        answer=question.answer,
        answered_by=question.answered_by,
        asked_at=iso(question.asked_at),
        answered_at=iso_or_none(question.answered_at),
    )


def _attachment(document: Document) -> AttachmentAnswer:
    return AttachmentAnswer(
        id=document.id,
        filename=document.filename,
        media_type=document.media_type,
        size_bytes=document.size_bytes,
        state=document.state,
        created_at=iso(document.created_at),
    )


def operations(service: ChatService, documents: DocumentService) -> list[Operation]:
    """Every operation of chats."""

    async def create(call: Call) -> ChatAnswer:
        given: ChatBody = call.body
        return chat_answer(
            await service.create(call.principal, call.path["workspace_id"], chat_id=given.id, title=given.title)
        )

    async def list_(call: Call) -> Page[ChatAnswer]:
        asked: PageQuery = call.query
        page = await service.list(call.principal, call.path["workspace_id"], limit=asked.limit, cursor=asked.cursor)
        return page.map(chat_answer)

    async def read(call: Call) -> ChatAnswer:
        return chat_answer(await service.get(call.principal, call.path["workspace_id"], call.path["chat_id"]))

    async def rename(call: Call) -> ChatAnswer:
        given: ChatChange = call.body
        renamed = await service.rename(call.principal, call.path["workspace_id"], call.path["chat_id"], given.title)
        return chat_answer(renamed)

    async def delete(call: Call) -> None:
        await service.delete(call.principal, call.path["workspace_id"], call.path["chat_id"])

    async def messages(call: Call) -> Page[MessageAnswer]:
        asked: MessagesQuery = call.query
        workspace_id, chat_id = call.path["workspace_id"], call.path["chat_id"]
        if asked.branch is not None:
            path = await service.branch(call.principal, workspace_id, chat_id, asked.branch)
            return Page([message_answer(message) for message in path])
        page = await service.messages(call.principal, workspace_id, chat_id, limit=asked.limit, cursor=asked.cursor)
        return page.map(message_answer)

    async def attachments(call: Call) -> Page[AttachmentAnswer]:
        asked: PageQuery = call.query
        found = await service.get(call.principal, call.path["workspace_id"], call.path["chat_id"])
        page = await documents.page(
            call.principal, found.workspace_id, chat_id=found.id, limit=asked.limit, cursor=asked.cursor
        )
        return page.map(_attachment)

    async def export(call: Call) -> Download:
        asked: ExportQuery = call.query
        chat, kept, questions = await service.export(call.principal, call.path["workspace_id"], call.path["chat_id"])
        if asked.format == "markdown":
            return _download(markdown(chat, kept, questions).encode("utf-8", "replace"), chat, "md", "text/markdown")
        whole = {
            "chat": chat_answer(chat).model_dump(),
            "messages": [message_answer(message).model_dump() for message in kept],
            "questions": [question_answer(question).model_dump() for question in questions],
        }
        return _download(dumps(whole), chat, "json", "application/json")

    async def questions(call: Call) -> Page[QuestionAnswer]:
        asked: PageQuery = call.query
        page = await service.questions(
            call.principal, call.path["workspace_id"], call.path["chat_id"], limit=asked.limit, cursor=asked.cursor
        )
        return page.map(question_answer)

    async def answer(call: Call) -> QuestionAnswer:
        given: AnswerBody = call.body
        path = call.path
        kept = await service.answer(
            call.principal, path["workspace_id"], path["chat_id"], path["correlation_id"], given.answer
        )
        return question_answer(kept)

    def reading(path: str, handler: Any, summary: str, answer: Any, query: Any = PageQuery) -> Operation:
        return Operation(
            method="GET",
            path=path,
            handler=handler,
            summary=summary,
            tag=_TAG,
            access=READ,
            query=query,
            answer=answer,
            paged=True,
        )

    return [
        reading(_BASE, list_, "List chats, the last used first", ChatAnswer),
        reading(
            _ONE + "/messages", messages, "A chat's messages, of every branch or of one", MessageAnswer, MessagesQuery
        ),
        reading(_ONE + "/attachments", attachments, "The documents uploaded to a chat", AttachmentAnswer),
        reading(_ONE + "/questions", questions, "What models asked in a chat", QuestionAnswer),
        Operation(
            method="POST",
            path=_BASE,
            handler=create,
            summary="Make a chat before its first message",
            tag=_TAG,
            access=WRITE,
            body=ChatBody,
            answer=ChatAnswer,
            status=201,
        ),
        Operation(
            method="GET", path=_ONE, handler=read, summary="Read a chat", tag=_TAG, access=READ, answer=ChatAnswer
        ),
        Operation(
            method="PATCH",
            path=_ONE,
            handler=rename,
            summary="Rename a chat",
            tag=_TAG,
            access=WRITE,
            body=ChatChange,
            answer=ChatAnswer,
        ),
        Operation(
            method="DELETE",
            path=_ONE,
            handler=delete,
            summary="Delete a chat with its messages",
            tag=_TAG,
            access=WRITE,
            status=204,
        ),
        Operation(
            method="GET",
            path=_ONE + "/export",
            handler=export,
            summary="Download a whole chat as JSON or Markdown",
            tag=_TAG,
            access=READ,
            query=ExportQuery,
        ),
        Operation(
            method="POST",
            path=_ONE + "/questions/{correlation_id}/answer",
            handler=answer,
            summary="Answer a question; the chat's next turn goes on from there",
            tag=_TAG,
            access=WRITE,
            body=AnswerBody,
            answer=QuestionAnswer,
        ),
    ]


def _download(body: bytes, chat: Chat, suffix: str, media_type: str) -> Download:
    name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in chat.id)
    return Download(body, media_type, f"chat-{name}.{suffix}")
