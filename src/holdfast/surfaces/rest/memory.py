"""Owns the REST operations of memories and of the search across everything a workspace knows."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from holdfast.core.access import READ, WRITE
from holdfast.core.clock import iso, iso_or_none, parse_time
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.memory.finding import MAX_RESULTS, TYPES
from holdfast.features.memory.model import Change, Filters, Memory, NewMemory, Revision, Status, Trust
from holdfast.features.memory.service import MemoryRejected, MemoryService
from holdfast.features.memory.tools import ResultOutput, SaveOutput, result_output, save_output
from holdfast.features.memory.wording import checked_category
from holdfast.surfaces.rest.api import Call, Model, Operation, PageQuery

_WORKSPACE = "/api/workspaces/{workspace_id}"
_BASE = _WORKSPACE + "/memories"
_ONE = _BASE + "/{memory}"
_TAG = "memories"

_Time = Annotated[str, Field(max_length=64, description="ISO 8601 date or time")]
_Tags = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)]
_Category = Annotated[str, Field(max_length=100)]


class MemoryBody(Model):
    content: str = Field(description="What to remember")
    category: _Category | None = Field(default=None, description="Inferred when left out")
    title: str | None = Field(default=None, max_length=1000, description="Made from the content when left out")
    tags: _Tags = Field(default=[], description="Words to group memories by")
    occurred_at: _Time | None = Field(default=None, description="When it became true, where that is not now")
    source: str = Field(default="", max_length=2000, description="Where it comes from: a URL, a file, a person")
    supersedes: str | None = Field(default=None, max_length=200, description="Id or slug of the memory it replaces")
    session_id: str | None = Field(default=None, max_length=200, description="The session it was learned in")
    chat_id: str | None = Field(default=None, max_length=200, description="The chat it was learned in")
    trust: Trust | None = Field(default=None, description="Whose word it is; never more than the caller's own")


class MemoryChange(Model):
    content: str | None = Field(default=None, description="The new text")
    category: _Category | None = None
    title: str | None = Field(default=None, max_length=1000)
    tags: _Tags | None = None
    occurred_at: _Time | None = None
    expected_revision: int | None = Field(
        default=None, ge=1, le=2**53, description="Refuse unless this is still the newest revision"
    )


class RetractBody(Model):
    note: str = Field(default="", max_length=500, description="Why it no longer holds")


class RecallBody(Model):
    query: str | None = Field(default=None, max_length=20_000, description="The newest come first when left out")
    limit: int = Field(default=10, ge=1, le=50)
    category: _Category | None = None
    as_of: _Time | None = Field(default=None, description="What held at this moment")


class MemoryQuery(PageQuery):
    category: _Category | None = None
    tag: str | None = Field(default=None, max_length=200)
    status: Literal["current", "superseded", "retracted", "any"] = "current"
    author: str | None = Field(default=None, max_length=200, description="The actor's id")
    trust: Trust | None = None
    session_id: str | None = Field(default=None, max_length=200)
    chat_id: str | None = Field(default=None, max_length=200)
    since: _Time | None = Field(default=None, description="Learned at or after")
    until: _Time | None = Field(default=None, description="Learned before")
    as_of: _Time | None = Field(default=None, description="What held at this moment, whatever its status now")


class SearchQuery(Model):
    q: str = Field(max_length=20_000, description="What to look for")
    types: list[str] | None = Field(
        default=None, description=f"Only these, repeated or separated by commas: {', '.join(TYPES)}"
    )
    limit: int = Field(default=10, ge=1, le=MAX_RESULTS)
    as_of: _Time | None = Field(default=None, description="What held at this moment")

    @field_validator("types", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        values = value if isinstance(value, list) else [value]
        return [word for item in values if isinstance(item, str) for word in item.split(",") if word.strip()] or None


class MemoryAnswer(Model):
    id: str
    workspace_id: str
    slug: str
    title: str
    content: str
    category: str
    tags: list[str]
    status: Status
    status_note: str
    created_at: str = Field(description="When we learned it")
    updated_at: str
    occurred_at: str | None = Field(description="When it became true, where that differs")
    valid_until: str | None
    superseded_by: str | None
    author: str
    author_name: str
    trust: Trust
    session_id: str | None
    chat_id: str | None
    source: str
    revision: int


class RecalledAnswer(MemoryAnswer):
    relevance: float = Field(ge=0, le=1)
    snippet: str


class RecallAnswer(Model):
    memories: list[RecalledAnswer]


class RevisionAnswer(Model):
    revision: int
    title: str
    content: str
    category: str
    tags: list[str]
    occurred_at: str | None
    written_at: str
    edited_by: str


class HistoryAnswer(Model):
    revisions: list[RevisionAnswer]


class SearchAnswer(Model):
    results: list[ResultOutput]


def memory_answer(memory: Memory) -> MemoryAnswer:
    """A memory as REST and the CLI show it."""
    return MemoryAnswer(
        id=memory.id,
        workspace_id=memory.workspace_id,
        slug=memory.slug,
        title=memory.title,
        content=memory.content,
        category=memory.category,
        tags=list(memory.tags),
        status=memory.status,
        status_note=memory.status_note,
        created_at=iso(memory.learned_at),
        updated_at=iso(memory.updated_at),
        occurred_at=iso_or_none(memory.occurred_at),
        valid_until=iso_or_none(memory.valid_until),
        superseded_by=memory.superseded_by,
        author=memory.author,
        author_name=memory.author_name,
        trust=memory.trust,
        session_id=memory.session_id,
        chat_id=memory.chat_id,
        source=memory.source,
        revision=memory.revision,
    )


def _revision_answer(revision: Revision) -> RevisionAnswer:
    return RevisionAnswer(
        revision=revision.revision,
        title=revision.title,
        content=revision.content,
        category=revision.category,
        tags=list(revision.tags),
        occurred_at=iso_or_none(revision.occurred_at),
        written_at=iso(revision.written_at),
        edited_by=revision.editor,
    )


def _moment(text: str | None, field: str) -> int | None:
    return parse_time(text, field) if text else None


def operations(service: MemoryService) -> list[Operation]:
    """Every operation of memories, and the workspace's search."""

    async def save(call: Call) -> SaveOutput:
        given: MemoryBody = call.body
        new = NewMemory(
            content=given.content,
            category=given.category,
            title=given.title,
            tags=tuple(given.tags),
            occurred_at=_moment(given.occurred_at, "occurred_at"),
            source=given.source,
            supersedes=given.supersedes,
            session_id=given.session_id,
            chat_id=given.chat_id,
            trust=given.trust,
        )
        saved = await service.save(call.principal, call.path["workspace_id"], new)
        if saved.memory is None:
            raise MemoryRejected(saved.reason or "It was refused.")
        return save_output(saved)

    async def page(call: Call) -> Page[MemoryAnswer]:
        asked: MemoryQuery = call.query
        filters = Filters(
            category=checked_category(asked.category) if asked.category else None,
            tag=asked.tag,
            status=None if asked.status == "any" else asked.status,
            author=asked.author,
            trust=asked.trust,
            session_id=asked.session_id,
            chat_id=asked.chat_id,
            since=_moment(asked.since, "since"),
            until=_moment(asked.until, "until"),
            as_of=_moment(asked.as_of, "as_of"),
        )
        found = await service.list(
            call.principal, call.path["workspace_id"], filters, limit=asked.limit, cursor=asked.cursor
        )
        return found.map(memory_answer)

    async def read(call: Call) -> MemoryAnswer:
        return memory_answer(await service.get(*_at(call)))

    async def history(call: Call) -> HistoryAnswer:
        return HistoryAnswer(revisions=[_revision_answer(each) for each in await service.history(*_at(call))])

    async def edit(call: Call) -> MemoryAnswer:
        given: MemoryChange = call.body
        change = Change(
            content=given.content,
            title=given.title,
            category=given.category,
            tags=None if given.tags is None else tuple(given.tags),
            occurred_at=_moment(given.occurred_at, "occurred_at"),
        )
        return memory_answer(await service.edit(*_at(call), change, expected_revision=given.expected_revision))

    async def retract(call: Call) -> MemoryAnswer:
        given: RetractBody = call.body
        return memory_answer(await service.retract(*_at(call), given.note))

    async def forget(call: Call) -> None:
        await service.forget(*_at(call))

    async def recall(call: Call) -> RecallAnswer:
        asked: RecallBody = call.body
        found = await service.recall(
            call.principal,
            call.path["workspace_id"],
            asked.query,
            limit=asked.limit,
            category=checked_category(asked.category) if asked.category else None,
            as_of=_moment(asked.as_of, "as_of"),
        )
        return RecallAnswer(
            memories=[
                RecalledAnswer(
                    **memory_answer(each.memory).model_dump(), relevance=round(each.relevance, 4), snippet=each.snippet
                )
                for each in found
            ]
        )

    async def search(call: Call) -> SearchAnswer:
        asked: SearchQuery = call.query
        hits = await service.search(
            call.principal,
            call.path["workspace_id"],
            asked.q,
            types=asked.types,
            limit=asked.limit,
            as_of=_moment(asked.as_of, "as_of"),
        )
        return SearchAnswer(results=[result_output(hit) for hit in hits])

    return [
        Operation(
            method="GET",
            path=_BASE,
            handler=page,
            summary="List memories, the last learned first",
            tag=_TAG,
            access=READ,
            query=MemoryQuery,
            answer=MemoryAnswer,
            paged=True,
        ),
        Operation(
            method="POST",
            path=_BASE,
            handler=save,
            summary="Save a memory; a repetition answers with the one that exists",
            tag=_TAG,
            access=WRITE,
            body=MemoryBody,
            answer=SaveOutput,
            status=201,
        ),
        Operation(
            method="POST",
            path=_BASE + "/recall",
            handler=recall,
            summary="Recall memories by meaning, or the newest without a query",
            tag=_TAG,
            access=READ,
            body=RecallBody,
            answer=RecallAnswer,
        ),
        Operation(
            method="GET",
            path=_ONE,
            handler=read,
            summary="Read a memory by id or slug",
            tag=_TAG,
            access=READ,
            answer=MemoryAnswer,
        ),
        Operation(
            method="PATCH",
            path=_ONE,
            handler=edit,
            summary="Change what a memory says; its former words are kept",
            tag=_TAG,
            access=WRITE,
            body=MemoryChange,
            answer=MemoryAnswer,
        ),
        Operation(
            method="DELETE",
            path=_ONE,
            handler=forget,
            summary="Remove a memory and its history for good",
            tag=_TAG,
            access=WRITE,
            status=204,
        ),
        Operation(
            method="GET",
            path=_ONE + "/history",
            handler=history,
            summary="What a memory said before each edit",
            tag=_TAG,
            access=READ,
            answer=HistoryAnswer,
        ),
        Operation(
            method="POST",
            path=_ONE + "/retract",
            handler=retract,
            summary="Say that a memory no longer holds",
            tag=_TAG,
            access=WRITE,
            body=RetractBody,
            answer=MemoryAnswer,
        ),
        Operation(
            method="GET",
            path=_WORKSPACE + "/search",
            handler=search,
            summary="Search everything the workspace knows",
            tag="search",
            access=READ,
            query=SearchQuery,
            answer=SearchAnswer,
        ),
    ]


def _at(call: Call) -> tuple[Principal, str, str]:
    return call.principal, call.path["workspace_id"], call.path["memory"]
