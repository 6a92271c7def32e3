"""Owns what a chat is: a tree of messages in a workspace, the questions in it, and who answers there."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound
from holdfast.engines.llm.model import Json, LanguageModel, Tally

MessageState = Literal["complete", "waiting", "interrupted"]
QuestionState = Literal["pending", "answered", "resumed"]

TYPE = "chat"
"""What search calls the exchanges of a chat."""
MAX_TITLE = 200
# An id stands in paths and in header values.
_ID = re.compile(r"[A-Za-z0-9._~:@+=-]{1,128}")


def _free(tally: Tally) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Served:
    """An endpoint that is ready to answer: its model, the tools it leaves out, and what tokens cost there."""

    name: str
    model: LanguageModel
    disabled_tools: frozenset[str] = frozenset()
    cost: Callable[[Tally], float] = _free


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation. The client chose its id."""

    workspace_id: str
    id: str
    title: str
    endpoint: str
    created_by: str
    created_by_name: str
    created_at: int
    updated_at: int
    messages: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message, as it was sent or answered; `parent_id` is the one before it, so that branches are kept."""

    id: str
    chat_id: str
    number: int
    parent_id: str | None
    trail: str
    role: str
    message: Json
    author: str
    created_at: int
    state: MessageState = "complete"
    model: str = ""
    finish_reason: str = ""
    calls: Sequence[Json] = ()
    """What ran here for it: id, name, arguments, failed and the beginning of the result."""
    memories: Sequence[Json] = ()
    """What the model was reminded of."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """What a model asked a person, and how far that is."""

    correlation_id: str
    chat_id: str
    message_id: str
    """The model's message that it belongs to."""
    call_id: str
    question: Json
    transcript: Sequence[Json]
    """What the model had seen when it asked."""
    state: QuestionState
    answer: Any
    answered_by: str | None
    asked_at: int
    answered_at: int | None

    @property
    def is_approval(self) -> bool:
        """Whether a signed-in person decides it on its own page: no words in a chat stand for that."""
        return self.question.get("style") == "approval"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a message stands among the others."""

    id: str
    parent_id: str | None


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """A message of the conversation that is looked at, with what was said in its place on other branches."""

    message: ChatMessage
    siblings: Sequence[str]
    """The ids of every message that follows the same one, this one's included, in the order that they came."""
    question: ChatQuestion | None = None
    """What the model asked with it."""


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that has the words somebody looked for."""

    chat: Chat
    message_id: str
    role: str
    snippet: str
    """The words around the first that matched."""
    created_at: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A turn that begins: what the model is to see, and where its answer belongs."""

    chat: Chat
    parent_id: str | None
    parent_trail: str
    messages: list[Json]
    said: Sequence[Json] = ()
    """The conversation as the client has it."""
    unseen: Sequence[Json] = ()
    """What of the messages the client does not have, where a question is answered."""
    resumed: ChatQuestion | None = None
    asked: str = ""
    """The person's last words."""


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that ended, as it is kept."""

    message: Json
    state: MessageState
    model: str
    finish_reason: str = ""
    calls: Sequence[Json] = ()
    memories: Sequence[Json] = ()
    tally: Tally = field(default_factory=Tally)
    cost: float = 0.0


class ChatNotFound(NotFound):
    """No such chat in this workspace."""

    def __init__(self, chat_id: str) -> None:
        super().__init__("chat", chat_id[:128])


class MessageNotFound(NotFound):
    """No such message in the chat."""

    def __init__(self, message_id: str) -> None:
        super().__init__("message", message_id[:80])


class QuestionNotFound(NotFound):
    """No such question in the chat."""

    def __init__(self, correlation_id: str) -> None:
        super().__init__("question", correlation_id[:80])


class AnsweredAlready(Conflict):
    """Somebody answered the question before."""

    def __init__(self) -> None:
        super().__init__("The question has been answered already.", code="answered_already")


def checked_id(chat_id: str) -> str:
    """The chat's id, if it can stand in a path."""
    if not _ID.fullmatch(chat_id):
        problem = "use 1 to 128 ASCII letters, digits and . _ ~ : @ + = -"
        raise Invalid("The chat cannot be named so.", fields=[FieldError("x_chat_id", problem)])
    return chat_id


def checked_title(title: str) -> str:
    """The title on one line."""
    kept = " ".join("".join(letter if letter.isprintable() else " " for letter in title).split())
    if not 1 <= len(kept) <= MAX_TITLE:
        problem = f"write 1 to {MAX_TITLE} characters"
        raise Invalid("The chat cannot have this title.", fields=[FieldError("title", problem)])
    return kept
