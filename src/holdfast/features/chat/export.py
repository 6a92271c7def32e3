"""Owns how a chat reads outside of here: as Markdown for people; REST and the command line write the JSON."""

from collections.abc import Sequence

from holdfast.core.clock import iso
from holdfast.features.chat.model import Chat, ChatMessage, ChatQuestion
from holdfast.features.chat.turn.trail import text_of

_SPEAKERS = {"user": "Person", "assistant": "Model", "tool": "Tool"}


def markdown(chat: Chat, messages: Sequence[ChatMessage], questions: Sequence[ChatQuestion]) -> str:
    """The whole chat; a message that does not follow the one above it says which it follows."""
    asked = {question.message_id: question for question in questions}
    parts = [f"# {chat.title}\n\nChat `{chat.id}`, begun {iso(chat.created_at)}."]
    above: str | None = None
    for message in messages:
        speaker = _SPEAKERS.get(message.role, message.role)
        heading = f"## {message.number}. {speaker}, {iso(message.created_at)}"
        lines = [heading]
        if message.parent_id != above:
            follows = next((each.number for each in messages if each.id == message.parent_id), None)
            lines.append(f"(a branch after {follows})" if follows else "(another beginning)")
        lines += [f"- used `{call['name']}` with `{call['arguments']}`" for call in message.calls]
        lines.append(text_of(message.message) or "(no words)")
        if message.id in asked:
            lines.append(f"> {asked[message.id].question.get('question', '')}")
        if message.state == "interrupted":
            lines.append("(interrupted)")
        parts.append("\n\n".join(lines))
        above = message.id
    return "\n\n".join(parts) + "\n"
