"""Owns the names by which chats call the memory tools: save_memory and recall_memory."""

from typing import Literal

from pydantic import Field

from holdfast.core.tools.alias import Alias, AliasInput, AliasTarget, AnyAlias, json_text
from holdfast.core.tools.outcome import Json, Outcome
from holdfast.features.memory.tools import RecallOutput, SaveOutput

RECALLED = 5
# Below this a memory only shares a common word with the query.
_RECALLED_RELEVANCE = 0.1
_MAX_QUERY = 4_000


class SaveMemoryInput(AliasInput):
    content: str = Field(description="The fact, preference or instruction, as one sentence that stands alone.")
    category: Literal["preference", "fact", "instruction"] | None = Field(
        None, description="What kind of thing it is; inferred when left out."
    )


class RecallMemoryInput(AliasInput):
    query: str = Field(min_length=1, max_length=_MAX_QUERY, description="What to remember, in plain words.")


def aliases() -> list[AnyAlias]:
    """Saving and recalling, in the chat's workspace."""
    return [
        Alias(
            name="save_memory",
            consumer="chat",
            description="Remember something for later: what the person prefers, a fact about their work, how they want "
            "things done. What is known already is not kept twice. Never save credentials.",
            tools=("xerotier.memory.save",),
            input=SaveMemoryInput,
            target=lambda given: AliasTarget("xerotier.memory.save", given.model_dump()),
            show=_saved,
        ),
        Alias(
            name="recall_memory",
            consumer="chat",
            description="Look up what was remembered about something, by meaning, best match first.",
            tools=("xerotier.memory.recall",),
            input=RecallMemoryInput,
            target=lambda given: AliasTarget("xerotier.memory.recall", {"query": given.query, "limit": RECALLED}),
            show=_recalled,
        ),
    ]


def _saved(given: SaveMemoryInput, output: SaveOutput) -> Outcome:
    if output.memory_id is None:
        return Outcome(json_text({"status": output.status, "reason": output.reason}))
    told: Json = {
        "status": output.status,
        "memory_id": output.memory_id,
        "content": output.content,
        "category": output.category,
    }
    if output.contradicts:
        told["contradicts"] = [
            {"memory_id": each.memory_id, "content": each.content, "reason": each.reason} for each in output.contradicts
        ]
    return Outcome(json_text(told))


def _recalled(given: RecallMemoryInput, output: RecallOutput) -> Outcome:
    memories = [
        {
            "id": each.id,
            "content": each.content,
            "category": each.category,
            "relevance": each.relevance,
            "created_at": each.created_at,
        }
        for each in output.memories
        if each.relevance >= _RECALLED_RELEVANCE
    ]
    return Outcome(json_text({"memories": memories}))
