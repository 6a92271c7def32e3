"""Owns what is left of a deleted chat: how it is kept, and how it comes back."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache

from pydantic import TypeAdapter

from holdfast.core.text import jsontext
from holdfast.features.chat.deleted import store
from holdfast.features.chat.deleted.service import KEPT_MILLIS
from holdfast.features.chat.model import Chat, ChatMessage, ChatQuestion
from holdfast.features.memory.model import ForgottenMemory
from holdfast.storage.database import Tx


@dataclass(frozen=True, slots=True)
class DeletedChat:
    """Everything that went with a chat."""

    chat: Chat
    messages: Sequence[ChatMessage]
    questions: Sequence[ChatQuestion]
    memories: Sequence[ForgottenMemory]


@cache
def _adapter() -> TypeAdapter[DeletedChat]:
    return TypeAdapter(DeletedChat)


def keep(tx: Tx, deleted: DeletedChat, now: int) -> None:
    """Keep what is deleted in this transaction."""
    store.insert(tx, deleted.chat.workspace_id, deleted.chat.id, jsontext.dumps(asdict(deleted)).decode(), now)


def take(tx: Tx, workspace_id: str, chat_id: str, now: int) -> DeletedChat | None:
    """What the chat was, for whoever puts it back in this transaction; None when it is gone for good."""
    content = store.take(tx, workspace_id, chat_id, now - KEPT_MILLIS)
    return None if content is None else _adapter().validate_json(content)
