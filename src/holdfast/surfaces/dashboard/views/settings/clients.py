"""Owns `/settings/clients`: what each MCP client declared when it connected here, beside what its makers document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.access import Access
from holdfast.core.principal import SCOPES
from holdfast.features.clients.documented import DOCUMENTED, DocumentedClient
from holdfast.features.clients.model import ClientSeen
from holdfast.features.clients.service import Clients
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_PATH = "/settings/clients"
_READ = Access("project", SCOPES)
_PAGE = 100
_DOCUMENTED = ("tools", "prompts", "resources")
_DECLARED = ("sampling", "elicitation", "roots")
pages = Pages(NavRow("Clients", _PATH, "client", "settings", 40, _READ))


@dataclass(frozen=True, slots=True)
class Ability:
    """What a client can do: as its makers say, and as it declared itself (None where it never did)."""

    documented: str
    declared: bool | None


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One client, or one version of one that was seen."""

    title: str
    seen: ClientSeen | None
    abilities: Sequence[Ability]


@pages.get(_PATH, _READ)
async def matrix_page(view: PageView, clients: Clients) -> Reply:
    given = view.query.get("after", "")
    after = int(given) if given.isascii() and given.isdigit() and len(given) < 9 else 0
    found = await clients.list(view.principal, limit=_PAGE + 1, after=after)
    seen = found[:_PAGE]
    next_url = f"{_PATH}?after={after + _PAGE}" if len(found) > _PAGE else ""
    known = {name: each for each in DOCUMENTED for name in each.names}
    shown: dict[str, Any] = {"columns": _DOCUMENTED + _DECLARED, "next_url": next_url}
    if after:
        rows = [_row(known.get(each.name), each) for each in seen]
        return view.part("settings/client_rows.html", rows=rows, **shown)
    rows = [row for each in DOCUMENTED for row in _rows(each, seen)]
    rows += [_row(None, each) for each in seen if each.name not in known]
    return view.page("settings/clients.html", "Clients", rows=rows, **shown)


def _rows(documented: DocumentedClient, seen: Sequence[ClientSeen]) -> list[MatrixRow]:
    found = [each for each in seen if each.name in documented.names]
    return [_row(documented, each) for each in found] or [_row(documented, None)]


def _row(documented: DocumentedClient | None, seen: ClientSeen | None) -> MatrixRow:
    title = documented.title if documented else (seen.title or seen.name) if seen else ""
    abilities = [Ability(getattr(documented, name, ""), None) for name in _DOCUMENTED]
    abilities += [
        Ability(getattr(documented, name, ""), name in seen.capabilities if seen else None) for name in _DECLARED
    ]
    return MatrixRow(title, seen, abilities)
