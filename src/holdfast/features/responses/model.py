"""Owns what a response is: where it belongs, what it was asked, and the object that clients read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.engines.llm.model import Json
from holdfast.features.responses.conversations.model import conversation_id
from holdfast.features.responses.items import Translated, translate

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
OPEN: frozenset[str] = frozenset({"queued", "in_progress"})

_ECHOED: Mapping[str, object] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}


class ResponseNotFound(NotFound):
    """No such response for this caller."""

    def __init__(self, response_id: str) -> None:
        super().__init__("response", response_id[:80])


class ItemNotFound(NotFound):
    """No item of this id is kept for this caller."""

    def __init__(self, field: str, item_id: str) -> None:
        super().__init__("item", item_id[:80])
        problem = "send the item itself; those of responses with store: false are not kept, others for 30 days"
        self.fields = (FieldError(field, problem),)


@dataclass(frozen=True, slots=True)
class ResponseRequest:
    """A request for a response, read and with everything that came before it."""

    id: str
    project_id: str
    workspace_id: str
    endpoint: str
    request: Json
    items: list[Json]
    history: list[Json]
    created_at: int

    @property
    def stored(self) -> bool:
        return self.request.get("store") is not False

    @property
    def background(self) -> bool:
        return bool(self.request.get("background"))

    @property
    def streamed(self) -> bool:
        return bool(self.request.get("stream"))

    @property
    def previous_id(self) -> str | None:
        return self.request.get("previous_response_id")

    @property
    def conversation_id(self) -> str | None:
        return conversation_id(self.request.get("conversation"))

    @property
    def chat_id(self) -> str | None:
        return self.request.get("x_chat_id")

    def translated(self) -> Translated:
        """The same question in the words of Chat Completions."""
        return translate(self.request, self.items, self.history)

    def object(self, status: Status) -> Json:
        """The response before anything was answered."""
        given = {name: self.request.get(name) for name in _ECHOED}
        echoed = {name: _ECHOED[name] if value is None else value for name, value in given.items()}
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at // 1000,
            "status": status,
            "background": self.background,
            "completed_at": None,
            "conversation": {"id": self.conversation_id} if self.conversation_id else None,
            "error": None,
            "incomplete_details": None,
            "model": self.request.get("model") or "",
            "output": [],
            "usage": None,
            **echoed,
        }


@dataclass(frozen=True, slots=True)
class Stored:
    """A response that is kept."""

    asked: ResponseRequest
    status: Status
    response: Json
    principal: Principal
    job_id: str | None

    def ended(self, status: Status, error: Json | None = None) -> "Stored":
        """The same, over for this reason."""
        return replace(self, status=status, response={**self.response, "status": status, "error": error})

    def first_events(self) -> list[Json]:
        """What is told of a response that waits for its turn."""
        types = ("response.created", "response.queued")
        return [{"type": type, "sequence_number": n, "response": self.response} for n, type in enumerate(types)]

    def last_event(self, number: int) -> Json:
        """What is told of one that is over without an answer."""
        type = "response.failed" if self.status == "failed" else "response.incomplete"
        return {"type": type, "sequence_number": number, "response": self.response}


def check(request: Json) -> None:
    """Invalid for what makes no sense, or would be silently ignored."""
    if request.get("prompt") is not None:
        raise wrong("prompt", "leave it out: prompts are not kept here; send instructions and input")
    previous = request.get("previous_response_id")
    if previous is not None and not isinstance(previous, str):
        raise wrong("previous_response_id", "write the id of a response as text")
    if conversation_id(request.get("conversation")) is not None and previous is not None:
        raise wrong("previous_response_id", "leave it out: the conversation has what came before")
    for name in ("store", "background", "stream"):
        if request.get(name) is not None and not isinstance(request[name], bool):
            raise wrong(name, "use true or false")
    if request.get("background") and request.get("store") is False:
        raise wrong("store", "a background response has to be stored")


def fresh_id() -> str:
    """An id for a new response."""
    return new_id("resp")


def wrong(field: str, problem: str) -> Invalid:
    """Invalid, saying what to write instead."""
    return Invalid("The response can't be made.", fields=[FieldError(field, problem)])
