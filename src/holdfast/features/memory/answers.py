"""Owns what REST and the command line show of memories."""

from pydantic import Field

from holdfast.core.model import Answer, Time
from holdfast.features.memory.model import Status, Trust, Visibility


class MemoryAnswer(Answer):
    """A memory."""

    id: str
    workspace_id: str
    slug: str
    title: str
    content: str
    category: str
    tags: list[str]
    status: Status
    status_note: str
    created_at: Time = Field(validation_alias="learned_at", description="When we learned it")
    updated_at: Time
    occurred_at: Time | None = Field(description="When it became true, where that differs")
    valid_until: Time | None
    superseded_by: str | None
    author: str
    author_name: str
    trust: Trust
    session_id: str | None
    chat_id: str | None
    visibility: Visibility = Field(description="Whether the workspace recalls it, or only its chat")
    source: str
    revision: int


class RecalledAnswer(MemoryAnswer):
    """A memory that answers a query."""

    relevance: float = Field(ge=0, le=1)
    snippet: str


class RevisionAnswer(Answer):
    """What a memory said until its next edit."""

    revision: int
    title: str
    content: str
    category: str
    tags: list[str]
    occurred_at: Time | None
    written_at: Time
    edited_by: str = Field(validation_alias="editor")


class ContradictionAnswer(Answer):
    """Two memories of which perhaps only one holds; `memory` is the newer."""

    id: str
    memory: MemoryAnswer
    other: MemoryAnswer
    reason: str
    found_at: Time
