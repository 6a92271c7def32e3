"""Owns the column beside a chat: connecting clients, and the workspace's memories, documents and artifacts."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from holdfast.core.access import READ
from holdfast.core.errors import NotFound
from holdfast.core.principal import TIERS
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.client_bundles.model import XEROTIER
from holdfast.features.client_bundles.rules import rules
from holdfast.features.documents.service import DocumentService
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.memory.model import Filters
from holdfast.features.memory.service import MemoryService
from holdfast.surfaces.dashboard.shell.declarations import Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply
from holdfast.surfaces.dashboard.views.connect import client_cards

CLIENT = "client"
TABS = (CLIENT, "memory", "documents", "artifacts")
_ROWS = 30
pages = Pages()

Context = Mapping[str, Any]


async def opening_tab(view: PageView, keys: Keys) -> Context:
    """What the column shows at first: how to connect a client, until one is."""
    shown = await _client(view, keys)
    connected = any(card.key and card.key.last_used_at for card in (*shown["cards"], *shown["others"]))
    if connected or not shown["may_make"]:
        return {"tab": "memory", "waiting": True}
    return {**shown, "tab": CLIENT}


@pages.get("/w/{ws}/manager/{tab}", READ)
async def tab(
    view: PageView, keys: Keys, memories: MemoryService, documents: DocumentService, artifacts: ArtifactService
) -> Reply:
    """One tab of the column."""
    filled: Mapping[str, Callable[[], Awaitable[Context]]] = {
        CLIENT: lambda: _client(view, keys),
        "memory": lambda: _memory(view, memories),
        "documents": lambda: _documents(view, documents),
        "artifacts": lambda: _artifacts(view, artifacts),
    }
    name = view.path["tab"]
    if name not in filled:
        raise NotFound("tab", name[:80])
    if not view.is_part:
        return view.go(f"/w/{quote(view.ws.slug, safe='')}/{'connect' if name == CLIENT else name}")
    return view.part("chat/manager.html", manager={**await filled[name](), "tab": name}, tabs=TABS)


async def _client(view: PageView, keys: Keys) -> dict[str, Any]:
    cards, others, may_make = await client_cards(view, keys)
    return {"cards": cards, "others": others, "may_make": may_make, "tiers": TIERS, "rules": rules(XEROTIER, "all")}


async def _memory(view: PageView, memories: MemoryService) -> Context:
    query = view.query.get("q", "").strip()
    if query:
        found = await memories.recall(view.principal, view.ws.id, query, limit=_ROWS)
        return {"rows": [each.memory for each in found], "query": query}
    page = await memories.list(view.principal, view.ws.id, Filters(), limit=_ROWS)
    return {"rows": page.items, "query": ""}


async def _documents(view: PageView, documents: DocumentService) -> Context:
    return {"rows": (await documents.page(view.principal, view.ws.id, limit=_ROWS)).items}


async def _artifacts(view: PageView, artifacts: ArtifactService) -> Context:
    return {"rows": (await artifacts.page(view.principal, view.ws.id, limit=_ROWS)).items}
