"""Owns the column beside a chat: connecting clients, and the workspace's memories, documents, artifacts and cases."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from holdfast.core.access import READ
from holdfast.core.errors import NotFound
from holdfast.core.principal import TIERS
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.states import State
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
TABS = (CLIENT, "memory", "documents", "artifacts", "cases")
_ROWS = 30
_WORKED_ON: tuple[State, ...] = ("BLOCKED", "VERIFYING", "IMPLEMENTING", "PLANNING", "REPRODUCING", "OPEN")
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
    view: PageView,
    keys: Keys,
    memories: MemoryService,
    documents: DocumentService,
    artifacts: ArtifactService,
    cases: CaseService,
) -> Reply:
    """One tab of the column."""
    filled: Mapping[str, Callable[[], Awaitable[Context]]] = {
        CLIENT: lambda: _client(view, keys),
        "memory": lambda: _memory(view, memories),
        "documents": lambda: _documents(view, documents),
        "artifacts": lambda: _artifacts(view, artifacts),
        "cases": lambda: _cases(view, cases),
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


async def _cases(view: PageView, cases: CaseService) -> Context:
    """What is not over: what is being worked on before what waits for somebody, each by priority, then age."""
    found = await cases.lanes(view.principal, view.ws.id, _ROWS)
    rows = [case for state in _WORKED_ON for case in found[state]]
    now = cases.base.clock.now()
    return {"rows": [(case, case.claim(now)) for case in rows[:_ROWS]]}
