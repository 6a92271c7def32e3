"""Owns the memory tools: `xerotier.memory.save`, `recall` and `search`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from holdfast.core.access import READ, WRITE
from holdfast.core.clock import iso, iso_or_none, parse_moment
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.engines.search.model import Hit
from holdfast.features.memory.model import Memory, NewMemory, Recalled, Saved
from holdfast.features.memory.service import MemoryService
from holdfast.features.memory.writing.wording import checked_category

_Tag = Annotated[str, Field(max_length=200)]
_Time = Annotated[str, Field(max_length=64)]
SEARCHED_TYPES = (
    *("memory", "document", "artifact", "decision", "milestone", "chat", "case", "record"),
    *("repository", "commit", "file", "tag", "pull_request", "issue", "release", "discussion"),
)
"""What a search can be narrowed to, as agents are told; a test holds it to the types that there are."""
# Other spellings are taken too, such as plurals.
_Type = Annotated[str, Field(max_length=200), WithJsonSchema({"type": "string", "enum": list(SEARCHED_TYPES)})]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SaveInput(_Input):
    content: str = Field(
        description="What to remember: one self-contained statement, preference or instruction, with its reason."
    )
    category: str | None = Field(
        None,
        max_length=100,
        description="preference, fact, instruction, decision or a word of your own; inferred when left out.",
    )
    title: str | None = Field(
        None, max_length=1000, description="A short heading; made from the content when left out."
    )
    tags: list[_Tag] = Field(default_factory=list, max_length=100, description="Words to group memories by.")
    occurred_at: _Time | None = Field(
        None, description="When it became true or happened, as ISO 8601, where that is not now."
    )
    source: str | None = Field(None, max_length=2000, description="Where it comes from: a URL, a file, a person.")
    supersedes: str | None = Field(None, max_length=200, description="Id or slug of the memory that this one replaces.")


class ContradictionOutput(BaseModel):
    memory_id: str
    slug: str
    content: str
    reason: str
    similarity: float


class SaveOutput(BaseModel):
    memory_id: str | None = Field(description="The stored or the existing memory; null when rejected.")
    slug: str | None
    status: Literal["saved", "duplicate", "rejected"]
    category: str | None
    title: str | None = None
    reason: str | None = Field(None, description="Why it was rejected, or what it repeats.")
    content: str | None = Field(None, exclude=True)
    """What is remembered now, for those who did not just write it: a repetition gives the memory that exists."""
    contradicts: list[ContradictionOutput] = Field(
        default_factory=list, description="Memories that this one seems to change: candidates for supersedes."
    )


class RecallInput(_Input):
    query: str | None = Field(
        None, max_length=20_000, description="What to recall; left out or empty, the newest memories come first."
    )
    limit: int = Field(10, ge=1, le=50, description="How many at most.")
    category: str | None = Field(None, max_length=100, description="Only memories of this category.")
    as_of: _Time | None = Field(
        None, description="What held at this moment (ISO 8601, or 7d ago), superseded since or not."
    )


class MemoryOutput(BaseModel):
    id: str
    slug: str
    title: str
    content: str
    category: str
    relevance: float = Field(description="0 to 1; 1 where there was no query.")
    created_at: str
    updated_at: str
    occurred_at: str | None
    valid_until: str | None
    status: Literal["current", "superseded", "retracted"]
    superseded_by: str | None
    tags: list[str]
    source: str
    author: str
    trust: Literal["person", "agent", "web"] = Field(description="Whose word it is.")


class RecallOutput(BaseModel):
    memories: list[MemoryOutput]


class SearchInput(_Input):
    query: str = Field(max_length=20_000, description="What to look for, in words or by meaning.")
    limit: int = Field(10, ge=1, le=50, description="How many at most.")
    types: list[_Type] | None = Field(
        None, max_length=20, description="Only these; repository is all that was read from repositories."
    )
    as_of: _Time | None = Field(None, description="What held at this moment (ISO 8601, or 7d ago).")


class ResultOutput(BaseModel):
    type: str
    id: str
    slug: str | None
    title: str
    snippet: str
    score: float = Field(description="0 to 1, comparable across types.")
    created_at: str
    occurred_at: str | None
    author: str
    provenance: dict[str, object] = Field(description="Where it comes from: path, url, category, trust.")


class ExplainedOutput(ResultOutput):
    explanation: dict[str, float] | None = Field(
        None,
        exclude_if=lambda value: value is None,
        description="With explain: what each feature added to the total that orders a list, and the two halves of the "
        "score, how relevant it is by itself and beside the best. Empty for what the query names outright.",
    )


class SearchOutput(BaseModel):
    results: list[ResultOutput]


def save_output(saved: Saved) -> SaveOutput:
    """How a save ended, as the wire has it."""
    memory = saved.memory
    return SaveOutput(
        memory_id=memory.id if memory else None,
        slug=memory.slug if memory else None,
        status=saved.outcome,
        category=memory.category if memory else None,
        title=memory.title if memory else None,
        reason=saved.reason,
        content=memory.content if memory else None,
        contradicts=[
            ContradictionOutput(
                memory_id=each.memory.id,
                slug=each.memory.slug,
                content=each.memory.content,
                reason=each.reason,
                similarity=round(min(1.0, each.similarity), 4),
            )
            for each in saved.contradicts
        ],
    )


def memory_output(recalled: Recalled) -> MemoryOutput:
    """A recalled memory, as the wire has it."""
    memory: Memory = recalled.memory
    return MemoryOutput(
        id=memory.id,
        slug=memory.slug,
        title=memory.title,
        content=memory.content,
        category=memory.category,
        relevance=round(recalled.relevance, 4),
        created_at=iso(memory.learned_at),
        updated_at=iso(memory.updated_at),
        occurred_at=iso_or_none(memory.occurred_at),
        valid_until=iso_or_none(memory.valid_until),
        status=memory.status,
        superseded_by=memory.superseded_by,
        tags=list(memory.tags),
        source=memory.source,
        author=memory.author_name or memory.author,
        trust=memory.trust,
    )


def result_output(hit: Hit) -> ResultOutput:
    """A found passage, as the wire has it."""
    meta = dict(hit.meta)
    slug, learned_at = meta.pop("slug", None), meta.pop("learned_at", hit.learned_at)
    return ResultOutput(
        type=hit.type,
        id=hit.id,
        slug=slug,
        title=hit.title,
        snippet=hit.snippet,
        score=round(hit.score, 4),
        created_at=iso(int(learned_at)),
        occurred_at=iso_or_none(hit.occurred_at),
        author=hit.author,
        provenance=meta,
    )


def explained_output(hit: Hit, explain: bool) -> ExplainedOutput:
    """The same with what made its place, where somebody asks for it."""
    return ExplainedOutput(**result_output(hit).model_dump(), explanation=dict(hit.explanation) if explain else None)


def tools(service: MemoryService) -> list[AnyTool]:
    """The three tools over the service."""

    async def save(call: ToolCall, given: SaveInput) -> SaveOutput:
        new = NewMemory(
            content=given.content,
            category=given.category,
            title=given.title,
            tags=tuple(given.tags),
            occurred_at=parse_moment(given.occurred_at, "occurred_at") if given.occurred_at else None,
            source=given.source or "",
            supersedes=given.supersedes,
            session_id=call.session_id,
            session_is_connection=True,
            chat_id=call.chat_id,
            # In a chat it is a model's word, whoever's key the chat is under.
            trust="agent" if call.consumer == "chat" else None,
        )
        return save_output(await service.save(call.principal, call.workspace(), new))

    async def recall(call: ToolCall, given: RecallInput) -> RecallOutput:
        found = await service.recall(
            call.principal,
            call.workspace(),
            given.query,
            limit=given.limit,
            category=checked_category(given.category) if given.category else None,
            as_of=parse_moment(given.as_of, "as_of") if given.as_of else None,
            chat_id=call.chat_id,
        )
        return RecallOutput(memories=[memory_output(each) for each in found])

    async def search(call: ToolCall, given: SearchInput) -> SearchOutput:
        hits = await service.search(
            call.principal,
            call.workspace(),
            given.query,
            types=given.types,
            limit=given.limit,
            as_of=parse_moment(given.as_of, "as_of") if given.as_of else None,
        )
        return SearchOutput(results=[result_output(hit) for hit in hits])

    return [
        Tool(
            name="xerotier.memory.search",
            title="Search the workspace",
            description=(
                "Find what the workspace knows about something, by words and by meaning, across memories, documents, "
                "artifacts, decisions, milestones, chats and repositories. Use it before asking the person. "
                "Example: query deploy steps"
            ),
            input=SearchInput,
            output=SearchOutput,
            handler=search,
            annotations=Annotations(read_only=True, idempotent=True),
            access=READ,
            in_workspace=True,
            text=_search_text,
        ),
        Tool(
            name="xerotier.memory.recall",
            title="Recall memories",
            description=(
                "Recall what people and agents saved about a topic: facts, preferences, instructions, decisions. "
                "Without a query the newest memories come first. With as_of you learn what held at a past moment. "
                "Example: query editor settings"
            ),
            input=RecallInput,
            output=RecallOutput,
            handler=recall,
            annotations=Annotations(read_only=True, idempotent=True),
            access=READ,
            in_workspace=True,
            text=_recall_text,
        ),
        Tool(
            name="xerotier.memory.save",
            title="Save a memory",
            description=(
                "Remember something for later sessions and for the team. A repetition returns the memory that exists; "
                "credentials and junk are rejected with the reason. Memories named under contradicts may be out of "
                "date now: save again with supersedes to replace one. Example: content We release on Tuesdays"
            ),
            input=SaveInput,
            output=SaveOutput,
            handler=save,
            annotations=Annotations(read_only=False, idempotent=True),
            access=WRITE,
            in_workspace=True,
            text=_save_text,
        ),
    ]


def _save_text(output: SaveOutput) -> str:
    if output.status == "rejected":
        return f"Not saved. {output.reason}"
    if output.status == "duplicate":
        return f"Known already as {output.slug} ({output.memory_id})."
    lines = [f"Saved as {output.slug} ({output.memory_id}), category {output.category}."]
    lines += [f"It may contradict {each.slug}: {each.content} ({each.reason})" for each in output.contradicts]
    return "\n".join(lines)


def _recall_text(output: RecallOutput) -> str:
    lines = [
        f"- {each.content} [{each.category}, {each.trust}, {each.created_at[:10]}, {each.slug}]"
        for each in output.memories
    ]
    return "\n".join(lines) or "No memories match."


def _search_text(output: SearchOutput) -> str:
    lines = [
        f"- {each.type} {each.slug or each.id}: {each.title} ({each.score:.2f})\n  {each.snippet}"
        for each in output.results
    ]
    return "\n".join(lines) or "Nothing matches."
