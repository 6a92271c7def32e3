"""Owns `/find`: the palette over every page and everything that the workspace knows."""

from holdfast.core.access import READ
from holdfast.features.memory.service import MemoryService
from holdfast.surfaces.dashboard.shell.declarations import Pages
from holdfast.surfaces.dashboard.shell.places import entity_url
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_MOST = 12
pages = Pages()


@pages.get("/find", READ)
async def find(view: PageView, memories: MemoryService) -> Reply:
    """The whole palette without a query, only its rows with one."""
    query = view.query.get("q")
    if query is None:
        return view.part("home/palette.html", hits=[], query="")
    hits = []
    if query.strip() and view.workspace is not None:
        found = await memories.search(view.principal, view.workspace.id, query, limit=_MOST)
        hits = [(hit, entity_url(view.workspace, hit)) for hit in found]
    return view.part("home/found.html", hits=hits, query=query)
