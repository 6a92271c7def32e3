"""Owns what a conversation is: items in the order that they came, to which each response adds its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.engines.llm.model import Json

MAX_ITEMS = 10_000
MAX_PAIRS = 16
MAX_KEY = 64
MAX_VALUE = 512


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation without its items."""

    id: str
    workspace_id: str
    project_id: str
    metadata: Mapping[str, str]
    created_at: int

    def object(self) -> Json:
        """As OpenAI's clients read it."""
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at // 1000,
            "metadata": dict(self.metadata),
        }


class ConversationNotFound(NotFound):
    """No such conversation for this caller."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__("conversation", conversation_id[:80])


class ConversationItemNotFound(NotFound):
    """The conversation has no such item."""

    def __init__(self, item_id: str) -> None:
        super().__init__("item in this conversation", item_id[:80])


def checked_metadata(given: Any) -> dict[str, str]:
    """Pairs of texts within OpenAI's limits."""
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > MAX_PAIRS:
        raise wrong("metadata", f"write an object of at most {MAX_PAIRS} pairs")
    for key, value in given.items():
        if not 1 <= len(key) <= MAX_KEY or not isinstance(value, str) or len(value) > MAX_VALUE:
            problem = f"write texts: names of at most {MAX_KEY} characters, values of at most {MAX_VALUE}"
            raise wrong(f"metadata.{key[:MAX_KEY]}", problem)
    return dict(given)


def conversation_id(given: Any) -> str | None:
    """The id in a request's `conversation`: a text, or an object with `id`."""
    named = given.get("id") if isinstance(given, dict) else given
    if given is not None and (not isinstance(named, str) or not named):
        raise wrong("conversation", "write the id of a conversation, or an object with it as id")
    return named


def full() -> Invalid:
    """What a conversation that cannot grow says."""
    return wrong("items", f"a conversation has at most {MAX_ITEMS:,}; begin another")


def wrong(field: str, problem: str) -> Invalid:
    """Invalid, saying what to write instead."""
    return Invalid("The conversation can't be so.", fields=[FieldError(field, problem)])
