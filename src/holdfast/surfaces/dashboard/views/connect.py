"""Owns the page that connects clients: one card a client with its file, its command and whether it has called yet."""

from dataclasses import dataclass
from typing import Any

from holdfast.core.access import READ
from holdfast.core.errors import Forbidden
from holdfast.core.principal import TIERS
from holdfast.features.client_bundles.model import Client
from holdfast.features.client_bundles.service import CLIENTS
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.model import ApiKey
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_DOCUMENTED = 6
pages = Pages(NavRow("Connect a client", "/w/{ws}/connect", "client", "workspace", 90, READ))


@dataclass(frozen=True, slots=True)
class Card:
    """One client, and the key that its last download made, where that still works."""

    client: Client
    key: ApiKey | None


@pages.get("/w/{ws}/connect", READ)
async def connect(view: PageView, keys: Keys) -> Reply:
    """Every client that has a bundle; who may not make keys is told who can."""
    cards, others, may_make = await client_cards(view, keys)
    context: dict[str, Any] = {"cards": cards, "others": others, "tiers": TIERS, "may_make": may_make}
    url = f"{view.public_url}/{view.ws.project_id}/v1/mcp"
    if view.is_part:
        return view.part("connect/cards.html", **context)
    return view.page("connect/index.html", "Connect a client", url=url, **context)


async def client_cards(view: PageView, keys: Keys) -> tuple[list[Card], list[Card], bool]:
    """The documented clients, the others, and whether whoever looks may make a key for one."""
    names = {each.id: f"mcp:{each.id}:{view.ws.slug}" for each in CLIENTS.values()}
    working: dict[str, ApiKey] = {}
    may_make = True
    try:
        found = await keys.working(view.principal, view.ws.project_id, names.values())
        working = {key.name: key for key in found}
    except Forbidden:
        may_make = False
    cards = [Card(each, working.get(names[each.id])) for each in CLIENTS.values()]
    return cards[:_DOCUMENTED], cards[_DOCUMENTED:], may_make
