"""Owns the pages of documents: upload by drop, how far reading is, what they say, and passages about a question."""

from typing import Any

from holdfast.core.access import READ, WRITE
from holdfast.features.documents.service import DocumentService
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_ROWS = 50
_PASSAGES = 10
pages = Pages(NavRow("Documents", "/w/{ws}/documents", "document", "workspace", 10, READ))


@pages.get("/w/{ws}/documents", READ)
async def index(view: PageView, documents: DocumentService) -> Reply:
    """The newest first; with words, passages about them."""
    base, query = f"/w/{view.ws.slug}/documents", view.query.get("q", "").strip()
    passages = await documents.search(view.principal, view.ws.id, query, limit=_PASSAGES) if query else []
    page = await documents.page(view.principal, view.ws.id, limit=_ROWS, cursor=view.query.get("cursor"))
    context: dict[str, Any] = {
        "base": base,
        "query": query,
        "passages": passages,
        "rows": page.items,
        "next_url": f"{base}?cursor={page.next_cursor}" if page.next_cursor else "",
    }
    if view.is_part:
        return view.part("documents/rows.html" if view.query.get("cursor") else "documents/found.html", **context)
    return view.page("documents/index.html", "Documents", may_write=view.may(WRITE), **context)


@pages.get("/w/{ws}/documents/{id}", READ)
async def show(view: PageView, documents: DocumentService) -> Reply:
    document = await documents.get(view.principal, view.ws.id, view.path["id"])
    page = await documents.chunks(view.principal, view.ws.id, document.id, limit=_ROWS, cursor=view.query.get("cursor"))
    url = f"/w/{view.ws.slug}/documents/{document.id}"
    context: dict[str, Any] = {
        "chunks": page.items,
        "next_url": f"{url}?cursor={page.next_cursor}" if page.next_cursor else "",
    }
    if view.is_part:
        return view.part("documents/chunks.html", **context)
    may_write = view.may(WRITE)
    return view.page("documents/show.html", document.title, document=document, may_write=may_write, **context)


@pages.post("/w/{ws}/documents/{id}/delete", WRITE)
async def delete(view: PageView, documents: DocumentService) -> Reply:
    await documents.delete(view.principal, view.ws.id, view.path["id"])
    return view.go(f"/w/{view.ws.slug}/documents", "Deleted.")
