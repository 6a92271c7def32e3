"""Owns `/w/{ws}/memory`: memories as they are or were on a day, correcting them, and settling contradictions."""

from typing import Any
from urllib.parse import quote, urlencode

from holdfast.core.access import READ, WRITE
from holdfast.core.clock import Clock, iso, parse_moment
from holdfast.core.errors import Conflict, HoldfastError
from holdfast.features.memory.model import Filters, Memory, MemoryRejected, NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.features.memory.writing.overview import MemoryOverview
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors

_PAGE = 100
_FOUND = 30
_DAY_MILLIS = 24 * 60 * 60 * 1000
CATEGORIES = ("fact", "preference", "instruction", "decision")
_LIST = "/w/{ws}/memory"
_ONE = _LIST + "/{slug}"
pages = Pages(NavRow("Memory", _LIST, "memory", "workspace", 0, READ))


@pages.get(_LIST, READ)
async def memories_page(
    view: PageView, memories: MemoryService, overview: MemoryOverview, contradictions: Contradictions, clock: Clock
) -> Reply:
    """A day stands for its end: what held when it was over."""
    query, category, tag = (view.query.get(name, "").strip() for name in ("q", "category", "tag"))
    day = view.query.get("as_of", "").strip()
    as_of = parse_moment(day, "as_of") if day else None
    if as_of is not None and len(day) == 10:
        as_of = min(as_of + _DAY_MILLIS - 1, clock.now())
    narrowed = Filters(category=category or None, tag=tag or None, as_of=as_of)
    more = ""
    if query:
        found = await memories.recall(
            view.principal, view.ws.id, query, limit=_FOUND, category=category or None, as_of=as_of
        )
        rows = [each.memory for each in found if not tag or tag in each.memory.tags]
    else:
        page = await memories.list(
            view.principal, view.ws.id, narrowed, limit=_PAGE, cursor=view.query.get("cursor") or None
        )
        rows = list(page.items)
        if page.next_cursor:
            kept = {"category": category, "tag": tag, "as_of": day, "cursor": page.next_cursor}
            more = f"{_base(view)}?{urlencode({name: value for name, value in kept.items() if value})}"
    shown: dict[str, Any] = {
        "found": rows,
        "more": more,
        "query": query,
        "category": category,
        "tag": tag,
        "as_of": day,
    }
    if view.is_part and "cursor" in view.query:
        return view.part("memory/rows.html", **shown)
    shown["facets"] = await overview.facets(view.principal, view.ws.id, narrowed)
    if view.is_part:
        return view.part("memory/found.html", **shown)
    waiting = (await contradictions.list(view.principal, view.ws.id, limit=1)).items
    return view.page(
        "memory/list.html",
        "Memory",
        **shown,
        today=iso(clock.now())[:10],
        first=iso(view.ws.created_at)[:10],
        waiting=bool(waiting),
        may_write=_may_write(view),
    )


@pages.get(_LIST + "/new", WRITE)
async def new_memory(view: PageView) -> Reply:
    return view.page("memory/new.html", "New memory", errors={}, categories=CATEGORIES)


@pages.post(_LIST + "/new", WRITE)
async def save_memory(view: PageView, memories: MemoryService) -> Reply:
    try:
        saved = await memories.save(view.principal, view.ws.id, _given(view))
        if saved.memory is None:
            raise MemoryRejected(saved.reason or "")
    except HoldfastError as error:
        if error.status != 422:
            raise
        shown: dict[str, Any] = {"errors": field_errors(error), "categories": CATEGORIES}
        return view.page("memory/new.html", "New memory", status=422, **shown)
    url = f"{_base(view)}/contradictions" if saved.contradicts else _url(view, saved.memory)
    return view.go(url, "It was known already." if saved.outcome == "duplicate" else "Saved.")


@pages.get(_LIST + "/contradictions", READ)
async def contradictions_page(view: PageView, contradictions: Contradictions) -> Reply:
    page = await contradictions.list(view.principal, view.ws.id, cursor=view.query.get("cursor") or None)
    more = f"{_base(view)}/contradictions?{urlencode({'cursor': page.next_cursor})}" if page.next_cursor else ""
    shown: dict[str, Any] = {"found": page.items, "more": more, "may_write": _may_write(view)}
    if view.is_part:
        return view.part("memory/contradiction_cards.html", **shown)
    return view.page("memory/contradictions.html", "Contradictions", **shown)


@pages.post(_LIST + "/contradictions/{id}", WRITE)
async def settle(view: PageView, contradictions: Contradictions) -> Reply:
    keep, successor = view.given("keep"), view.given("supersede")
    await contradictions.settle(
        view.principal, view.ws.id, view.path["id"], successor or keep, supersede=bool(successor)
    )
    url = f"{_base(view)}/contradictions"
    return view.go(url, "Settled. The older stays in the history of the newer." if successor else "Settled.")


@pages.get(_ONE, READ)
async def memory_page(view: PageView, memories: MemoryService, overview: MemoryOverview) -> Reply:
    return await _shown(view, memories, overview)


@pages.post(_ONE + "/correct", WRITE)
async def correct(view: PageView, memories: MemoryService, overview: MemoryOverview) -> Reply:
    """What it said stays findable as of its time; a new memory takes its place."""
    old = await memories.get(view.principal, view.ws.id, view.path["slug"])
    try:
        saved = await memories.supersede(view.principal, view.ws.id, old.id, _given(view, old))
        if saved.memory is None:
            raise MemoryRejected(saved.reason or "")
    except Conflict:
        now = await _standing(view, memories, old)
        if now.id == old.id:
            raise
        meanwhile = Conflict("Somebody corrected it meanwhile: this is what holds now. What you wrote is below.")
        return await _shown(view, memories, overview, meanwhile, now.slug)
    except HoldfastError as error:
        if error.status != 422:
            raise
        return await _shown(view, memories, overview, error)
    return view.go(_url(view, saved.memory), "Corrected. What it said before stays in its history.")


@pages.post(_ONE + "/retract", WRITE)
async def retract(view: PageView, memories: MemoryService) -> Reply:
    done = await memories.retract(view.principal, view.ws.id, view.path["slug"], view.given("note"))
    return view.go(_url(view, done), "Retracted. Nobody recalls it any more.")


@pages.post(_ONE + "/again", WRITE)
async def say_again(view: PageView, memories: MemoryService) -> Reply:
    """Undoes a retraction in the open: the same words as a new memory, and the history of both stays."""
    old = await memories.get(view.principal, view.ws.id, view.path["slug"])
    if old.status != "retracted":
        raise Conflict("Only what was retracted can be said again; this memory still stands.")
    again = NewMemory(old.content, old.category, old.title, old.tags, old.occurred_at, old.source)
    saved = await memories.save(view.principal, view.ws.id, again)
    if saved.memory is None:
        raise MemoryRejected(saved.reason or "")
    return view.go(_url(view, saved.memory), "It holds again.")


@pages.post(_ONE + "/share", WRITE)
async def share(view: PageView, memories: MemoryService) -> Reply:
    done = await memories.share(view.principal, view.ws.id, view.path["slug"])
    return view.go(_url(view, done), "The whole workspace recalls it now.")


async def _standing(view: PageView, memories: MemoryService, old: Memory) -> Memory:
    """What took the memory's place, as it is now; itself where nothing did."""
    now = await memories.get(view.principal, view.ws.id, old.id)
    while now.superseded_by is not None:
        now = await memories.get(view.principal, view.ws.id, now.superseded_by)
    return now


async def _shown(
    view: PageView,
    memories: MemoryService,
    overview: MemoryOverview,
    error: HoldfastError | None = None,
    slug: str | None = None,
) -> Reply:
    found = await memories.get(view.principal, view.ws.id, slug or view.path["slug"])
    return view.page(
        "memory/one.html",
        found.title,
        status=error.status if error else 200,
        memory=found,
        lineage=await overview.lineage(view.principal, view.ws.id, found.id),
        written=view.given("content") if error else found.content,
        history=await memories.history(view.principal, view.ws.id, found.id),
        errors=field_errors(error) if error else {},
        may_write=_may_write(view),
    )


def _given(view: PageView, old: Memory | None = None) -> NewMemory:
    """What a form says; a correction keeps what it does not ask about."""
    if old is not None:
        chat = old.chat_id if old.visibility == "chat" else None
        return NewMemory(view.given("content"), old.category, tags=old.tags, source=old.source, chat_id=chat)
    tags = tuple(tag.strip() for tag in view.given("tags").split(",") if tag.strip())
    return NewMemory(
        view.given("content"),
        view.given("category") or None,
        view.given("title") or None,
        tags,
        source=view.given("source"),
    )


def _may_write(view: PageView) -> bool:
    return view.may(WRITE)


def _base(view: PageView) -> str:
    return f"/w/{quote(view.ws.slug, safe='')}/memory"


def _url(view: PageView, memory: Memory) -> str:
    return f"{_base(view)}/{quote(memory.slug, safe='')}"
