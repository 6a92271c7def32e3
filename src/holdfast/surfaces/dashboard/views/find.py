"""Owns `/find`: the palette over every page, everything that the workspace knows, its chats, servers and calls."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from holdfast.core.access import READ, READ_EXEC
from holdfast.engines.search.model import Hit
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.chat.finding.service import ChatFinding
from holdfast.features.execution.approvals.service import Approvals
from holdfast.features.execution.service import Execution
from holdfast.features.memory.service import MemoryService
from holdfast.surfaces.dashboard.shell.declarations import Pages
from holdfast.surfaces.dashboard.shell.places import entity_url
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

_MOST = 12
_OF_A_KIND = 5
_LOOKED_AT = 200
"""Of calls: the newest; older ones are found on their own page."""
pages = Pages()


@dataclass(frozen=True, slots=True)
class PaletteRow:
    """One thing that was found, and where it is."""

    title: str
    kind: Literal["workspace", "chat", "server", "approval", "call"]
    detail: str
    url: str


@pages.get("/find", READ)
async def find(
    view: PageView,
    memories: MemoryService,
    chats: ChatFinding,
    catalog: ServerCatalog,
    approvals: Approvals,
    execution: Execution,
) -> Reply:
    """The whole palette without a query, only its rows with one; a page of them for whoever has no scripts."""
    query = view.query.get("q")
    if query is None and not view.is_part:
        query = ""
    if query is None:
        return view.part("home/palette.html", hits=[], rows=[], query="")
    hits, rows = list[tuple[Hit, str]](), list[PaletteRow]()
    if query.strip():
        rows += _workspaces(view, query) + await _chats(view, chats, query)
    if query.strip() and view.workspace is not None:
        rows += await _executed(view, query, catalog, approvals, execution) if view.may(READ_EXEC) else []
        found = await memories.search(view.principal, view.workspace.id, query, limit=_MOST)
        shown = {row.url.partition("?")[0] for row in rows}
        for hit in found:
            url = entity_url(view.workspace, hit)
            # A chat stands there once, however many of its messages were found.
            if hit.type != "chat" or url.partition("?")[0] not in shown:
                hits.append((hit, url))
                shown.add(url.partition("?")[0])
    if view.is_part:
        return view.part("home/found.html", hits=hits, rows=rows, query=query)
    return view.page("home/find.html", "Find anything", hits=hits, rows=rows, query=query)


def _workspaces(view: PageView, query: str) -> list[PaletteRow]:
    named = [each for each in view.workspaces if _has(each.name, query) or _has(each.slug, query)]
    return [
        PaletteRow(each.name, "workspace", "", f"/w/{quote(each.slug, safe='')}/memory") for each in named[:_OF_A_KIND]
    ]


async def _chats(view: PageView, chats: ChatFinding, query: str) -> list[PaletteRow]:
    """Chats by their titles and by what was said in them, each once."""
    slugs = {each.id: each.slug for each in view.workspaces}
    page = await chats.search(view.principal, query, limit=_MOST)
    rows: dict[str, PaletteRow] = {}
    for each in page.items:
        slug = slugs.get(each.chat.workspace_id)
        if slug is None:
            continue
        url = f"/chat/{quote(slug, safe='')}/{quote(each.chat.id, safe='')}"
        at = f"?at={quote(each.message_id, safe='')}#{quote(each.message_id, safe='')}" if each.message_id else ""
        rows.setdefault(url, PaletteRow(each.chat.title, "chat", each.snippet, url + at))
    return list(rows.values())[:_OF_A_KIND]


async def _executed(
    view: PageView, query: str, catalog: ServerCatalog, approvals: Approvals, execution: Execution
) -> list[PaletteRow]:
    """Servers by their names, calls that wait for a decision and calls by their tools, the last of each tool."""
    base = f"/w/{quote(view.ws.slug, safe='')}"
    servers = [each for each in await catalog.list(view.principal, view.ws.id) if _has(each.name, query)]
    waiting = (await approvals.pending(view.principal, limit=_LOOKED_AT)).items
    calls = (await execution.list(view.principal, view.ws.id, limit=_LOOKED_AT)).items
    last = {each.tool_name: each for each in reversed(calls) if _has(each.tool_name, query) or each.id == query.strip()}
    return [
        *_some(
            PaletteRow(each.name, "server", "", f"{base}/settings/mcp-servers/{quote(each.name, safe='')}")
            for each in servers
        ),
        *_some(
            PaletteRow(
                each.invocation.tool_name,
                "approval",
                each.invocation.requested_name or each.invocation.requested_by,
                f"/approve/{quote(each.approval.token, safe='')}",
            )
            for each in waiting
            if _has(each.invocation.tool_name, query)
        ),
        *_some(
            PaletteRow(each.tool_name, "call", each.status, f"{base}/invocations/{quote(each.id, safe='')}")
            for each in last.values()
        ),
    ]


def _some(rows: Iterable[PaletteRow]) -> list[PaletteRow]:
    return [each for _, each in zip(range(_OF_A_KIND), rows, strict=False)]


def _has(name: str, query: str) -> bool:
    return query.strip().lower() in name.lower()
