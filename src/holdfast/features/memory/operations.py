"""Owns the REST operations of memories and of the search across everything a workspace knows."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from holdfast.core.access import READ, WRITE
from holdfast.core.model import Model, Moment, PageQuery, Words
from holdfast.core.operations import Operations
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.features.memory.answers import ContradictionAnswer, MemoryAnswer, RecalledAnswer, RevisionAnswer
from holdfast.features.memory.finding import MAX_RESULTS
from holdfast.features.memory.model import Filters, MemoryChange, MemoryRejected, NewMemory, Trust
from holdfast.features.memory.service import MemoryService
from holdfast.features.memory.tools import (
    ExplainedOutput,
    SaveOutput,
    explained_output,
    save_output,
)
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.features.memory.writing.wording import checked_category

_WORKSPACE = "/api/workspaces/{workspace_id}"
_BASE = _WORKSPACE + "/memories"
_ONE = _BASE + "/{memory}"

_Tags = Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=100)]
_Category = Annotated[str, Field(max_length=100)]

_SHARE = replace(WRITE, people_only=True)

api = Operations("memories")


class MemoryQuery(PageQuery):
    category: _Category | None = None
    tag: str | None = Field(default=None, max_length=200)
    status: Literal["current", "superseded", "retracted", "any"] = "current"
    author: str | None = Field(default=None, max_length=200, description="The actor's id")
    trust: Trust | None = None
    session_id: str | None = Field(default=None, max_length=200)
    chat_id: str | None = Field(default=None, max_length=200, description="Saved in this chat, shared or not")
    visibility: Literal["workspace", "chat", "any"] | None = Field(
        default=None, description="The workspace's when left out, or all of the chat that chat_id names"
    )
    since: Moment = Field(default=None, description="Learned at or after")
    until: Moment = Field(default=None, description="Learned before")
    as_of: Moment = Field(default=None, description="What held at this moment, whatever its status now")


@api.get(_BASE, READ, "List memories, the last learned first")
async def page(
    memories: MemoryService, principal: Principal, workspace_id: str, query: MemoryQuery
) -> Page[MemoryAnswer]:
    category = checked_category(query.category) if query.category else None
    visibility = query.visibility or ("any" if query.chat_id else "workspace")
    filters = query.into(
        Filters,
        category=category,
        status=None if query.status == "any" else query.status,
        visibility=None if visibility == "any" else visibility,
    )
    found = await memories.list(principal, workspace_id, filters, limit=query.limit, cursor=query.cursor)
    return found.map(MemoryAnswer.of)


class MemoryBody(Model):
    content: str = Field(description="What to remember")
    category: _Category | None = Field(default=None, description="Inferred when left out")
    title: str | None = Field(default=None, max_length=1000, description="Made from the content when left out")
    tags: _Tags = Field(default=(), description="Words to group memories by")
    occurred_at: Moment = Field(default=None, description="When it became true, where that is not now")
    source: str = Field(default="", max_length=2000, description="Where it comes from: a URL, a file, a person")
    supersedes: str | None = Field(default=None, max_length=200, description="Id or slug of the memory it replaces")
    session_id: str | None = Field(default=None, max_length=200, description="The session it was learned in")
    chat_id: str | None = Field(
        default=None,
        max_length=200,
        description="The chat that alone recalls it until somebody shares it",
    )
    trust: Trust | None = Field(default=None, description="Whose word it is; never more than the caller's own")


@api.post(_BASE, WRITE, "Save a memory; a repetition answers with the one that exists", status=201)
async def save(memories: MemoryService, principal: Principal, workspace_id: str, body: MemoryBody) -> SaveOutput:
    saved = await memories.save(principal, workspace_id, body.into(NewMemory))
    if saved.memory is None:
        raise MemoryRejected(saved.reason or "It was refused.")
    return save_output(saved)


class RecallBody(Model):
    query: str | None = Field(default=None, max_length=20_000, description="The newest come first when left out")
    limit: int = Field(default=10, ge=1, le=50)
    category: _Category | None = None
    as_of: Moment = Field(default=None, description="What held at this moment")


@api.post(_BASE + "/recall", READ, "Recall memories by meaning, or the newest without a query")
async def recall(
    memories: MemoryService, principal: Principal, workspace_id: str, body: RecallBody
) -> Page[RecalledAnswer]:
    category = checked_category(body.category) if body.category else None
    found = await memories.recall(
        principal, workspace_id, body.query, limit=body.limit, category=category, as_of=body.as_of, snippets=True
    )
    return Page(
        [RecalledAnswer.of(each.memory, relevance=round(each.relevance, 4), snippet=each.snippet) for each in found]
    )


@api.get(_ONE, READ, "Read a memory by id or slug")
async def read(memories: MemoryService, principal: Principal, workspace_id: str, memory: str) -> MemoryAnswer:
    return MemoryAnswer.of(await memories.get(principal, workspace_id, memory))


class MemoryChangeBody(Model):
    content: str | None = Field(default=None, description="The new text")
    category: _Category | None = None
    title: str | None = Field(default=None, max_length=1000)
    tags: _Tags | None = None
    occurred_at: Moment = None
    expected_revision: int | None = Field(
        default=None, ge=1, le=2**53, description="Refuse unless this is still the newest revision"
    )


@api.patch(_ONE, WRITE, "Change what a memory says; its former words are kept")
async def edit(
    memories: MemoryService, principal: Principal, workspace_id: str, memory: str, body: MemoryChangeBody
) -> MemoryAnswer:
    change = body.into(MemoryChange)
    return MemoryAnswer.of(
        await memories.edit(principal, workspace_id, memory, change, expected_revision=body.expected_revision)
    )


@api.delete(_ONE, WRITE, "Remove a memory and its history for good")
async def forget(memories: MemoryService, principal: Principal, workspace_id: str, memory: str) -> None:
    await memories.forget(principal, workspace_id, memory)


@api.get(_ONE + "/history", READ, "What a memory said before each edit")
async def history(
    memories: MemoryService, principal: Principal, workspace_id: str, memory: str
) -> Page[RevisionAnswer]:
    return Page([RevisionAnswer.of(each) for each in await memories.history(principal, workspace_id, memory)])


class RetractBody(Model):
    note: str = Field(default="", max_length=500, description="Why it no longer holds")


@api.post(_ONE + "/share", _SHARE, "Let the workspace recall a memory that only one chat did")
async def share(memories: MemoryService, principal: Principal, workspace_id: str, memory: str) -> MemoryAnswer:
    return MemoryAnswer.of(await memories.share(principal, workspace_id, memory))


@api.post(_ONE + "/retract", WRITE, "Say that a memory no longer holds")
async def retract(
    memories: MemoryService, principal: Principal, workspace_id: str, memory: str, body: RetractBody
) -> MemoryAnswer:
    return MemoryAnswer.of(await memories.retract(principal, workspace_id, memory, body.note))


class SearchQuery(Model):
    q: str = Field(max_length=20_000, description="What to look for")
    types: Words | None = Field(
        default=None,
        description="Only these types, repeated or separated by commas: memory, document, repository and so on",
    )
    limit: int = Field(default=10, ge=1, le=MAX_RESULTS)
    as_of: Moment = Field(default=None, description="What held at this moment")
    explain: bool = Field(default=False, description="Whether each result tells what made its place")


@api.get(_WORKSPACE + "/search", READ, "Search everything the workspace knows", tag="search")
async def search(
    memories: MemoryService, principal: Principal, workspace_id: str, query: SearchQuery
) -> Page[ExplainedOutput]:
    hits = await memories.search(
        principal,
        workspace_id,
        query.q,
        types=query.types or None,
        limit=query.limit,
        as_of=query.as_of,
        explain=query.explain,
    )
    return Page([explained_output(hit, query.explain) for hit in hits])


@api.get(_WORKSPACE + "/contradictions", READ, "List memories that contradict each other, the newest first")
async def open_contradictions(
    contradictions: Contradictions, principal: Principal, workspace_id: str, query: PageQuery
) -> Page[ContradictionAnswer]:
    found = await contradictions.list(principal, workspace_id, limit=query.limit, cursor=query.cursor)
    return found.map(ContradictionAnswer.of)


class SettleBody(Model):
    keep: str = Field(
        max_length=200, description="Id or slug of the memory that holds, or both; the other is retracted"
    )
    supersede: bool = Field(
        default=False, description="The other is not retracted: it held until the kept one took its place"
    )


@api.post(
    _WORKSPACE + "/contradictions/{contradiction_id}/settle", WRITE, "Say which of two memories holds, or that both do"
)
async def settle(
    contradictions: Contradictions, principal: Principal, workspace_id: str, contradiction_id: str, body: SettleBody
) -> ContradictionAnswer:
    settled = await contradictions.settle(
        principal, workspace_id, contradiction_id, body.keep, supersede=body.supersede
    )
    return ContradictionAnswer.of(settled)
