"""Owns how search knows an exchange of a chat: what was asked with what was answered."""

from holdfast.engines.llm.extractive.embedded import NAME as EMBEDDED
from holdfast.engines.search.model import Entry
from holdfast.features.chat.model import TYPE, Chat, ChatMessage
from holdfast.features.chat.turn.trail import text_of

_CHARACTERS = 8_000


def exchange(chat: Chat, asked: str, answer: ChatMessage) -> Entry | None:
    """What search is to find; None where the answer was itself quoted from what search finds, or did not end."""
    said = text_of(answer.message)
    if answer.role != "assistant" or answer.state != "complete" or not said.strip() or answer.model == EMBEDDED:
        return None
    return Entry(
        workspace_id=chat.workspace_id,
        type=TYPE,
        id=answer.id,
        title=chat.title,
        text=f"{asked}\n\n{said}".strip()[:_CHARACTERS],
        learned_at=answer.created_at,
        source=chat.id,
        position=answer.number,
        meta={"chat_id": chat.id},
    )
