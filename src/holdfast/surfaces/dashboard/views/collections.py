"""Owns the pages of collections: what agents keep of their own, found by its words, and one record of it."""

from typing import Any
from urllib.parse import quote, urlencode

from holdfast.core.access import READ
from holdfast.core.errors import NotFound
from holdfast.features.collections.model import CollectionFacts, FoundVector, RecordNotFound
from holdfast.features.collections.service import GraphRecords
from holdfast.features.collections.vectors import VectorCollections
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_ROWS = 50
_FOUND = 30
_LIST = "/w/{ws}/collections"
pages = Pages(NavRow("Collections", _LIST, "branch", "workspace", 38, READ))


@pages.get(_LIST, READ)
async def index(view: PageView, graph: GraphRecords) -> Reply:
    words = view.query.get("q", "").strip()
    shown: dict[str, Any] = {
        "query": words,
        "rows": await graph.find(view.principal, view.ws.id, words, limit=_FOUND) if words else (),
        "collections": () if words else await graph.collections(view.principal, view.ws.id),
        "base": _base(view),
    }
    if view.is_part:
        return view.part("collections/found.html", **shown)
    return view.page("collections/index.html", "Collections", **shown)


@pages.get(_LIST + "/{name}", READ)
async def one(view: PageView, graph: GraphRecords, vectors: VectorCollections) -> Reply:
    """Its records as they were made, or those and the texts that words fit best."""
    held = await _held(view, graph)
    words = view.query.get("q", "").strip()
    texts: list[FoundVector] = []
    more = ""
    if words:
        rows = list(await graph.find(view.principal, view.ws.id, words, collection=held.name, limit=_FOUND))
        if held.holds_text:
            texts = list(
                await vectors.search(view.principal, view.ws.id, text=words, top_k=_FOUND, collection=held.name)
            )
    else:
        page = await graph.records(
            view.principal,
            view.ws.id,
            type=None,
            collection=held.name,
            limit=_ROWS,
            cursor=view.query.get("cursor") or None,
        )
        rows = list(page.items)
        if page.next_cursor:
            more = f"{_base(view)}/{held.name}?{urlencode({'cursor': page.next_cursor})}"
    shown: dict[str, Any] = {
        "held": held,
        "rows": rows,
        "texts": texts,
        "query": words,
        "more": more,
        "base": _base(view),
    }
    if view.is_part:
        return view.part("collections/rows.html", **shown)
    return view.page("collections/one.html", held.name, **shown)


@pages.get(_LIST + "/{name}/{id}", READ)
async def record(view: PageView, graph: GraphRecords) -> Reply:
    found = await graph.get(view.principal, view.ws.id, view.path["id"])
    if found.collection != view.path["name"]:
        raise RecordNotFound(found.id)
    return view.page("collections/record.html", found.title, record=found, base=_base(view))


async def _held(view: PageView, graph: GraphRecords) -> CollectionFacts:
    name = view.path["name"]
    for each in await graph.collections(view.principal, view.ws.id):
        if each.name == name:
            return each
    raise NotFound("collection", name[:80])


def _base(view: PageView) -> str:
    return f"/w/{quote(view.ws.slug, safe='')}/collections"
