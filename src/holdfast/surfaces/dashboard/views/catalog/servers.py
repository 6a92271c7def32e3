"""Owns `/w/{ws}/settings/mcp-servers`: the servers of a workspace; paste a snippet, or say what one is."""

import json
from collections.abc import Mapping

from holdfast.core.access import READ_EXEC, Access
from holdfast.core.errors import Conflict, FieldError, Forbidden, HoldfastError, Invalid
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.catalog.snippets.importing import Imported, SnippetImport
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.lists import ROWS, next_of
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, field_errors
from holdfast.surfaces.dashboard.views.catalog.server_form import SHAPES, filled, read_entry, typed

PATH = "/w/{ws}/settings/mcp-servers"
MANAGE = Access("workspace", "management", role="admin", tier="exec")
pages = Pages(NavRow("MCP servers", PATH, "tool", "workspace", 70, READ_EXEC))


@pages.get(PATH, READ_EXEC)
async def servers_page(view: PageView, catalog: ServerCatalog) -> Reply:
    return await _shown(view, catalog)


@pages.post(PATH, MANAGE)
async def register(view: PageView, catalog: ServerCatalog) -> Reply:
    check_administers(view)
    try:
        made = await catalog.register(view.principal, view.ws.id, read_entry(view))
    except (Conflict, Invalid) as error:
        return await _shown(view, catalog, error=error, form=typed(view))
    return view.go(f"{url_of(view)}/{made.name}", "On record. Probe it to see its tools.")


@pages.post(PATH + "/import", MANAGE)
async def import_snippet(view: PageView, catalog: ServerCatalog, snippets: SnippetImport) -> Reply:
    """What was made is said here at once, since some of its secrets may still be missing."""
    check_administers(view)
    try:
        made = await snippets.run(view.principal, view.ws.id, _read_snippet(view.given("snippet")))
    except (Conflict, Invalid) as error:
        # Not written back into the page: it may hold credentials.
        return await _shown(view, catalog, error=error)
    return await _shown(view, catalog, imported=made)


def url_of(view: PageView) -> str:
    """The page of the workspace's servers."""
    return f"/w/{view.ws.slug}/settings/mcp-servers"


def check_administers(view: PageView) -> None:
    """Forbidden for who may not change the catalog: before anything else is said about what they sent."""
    if not view.administers:
        raise Forbidden("Only an admin of this workspace or of the organization may change its MCP servers.")


async def _shown(
    view: PageView,
    catalog: ServerCatalog,
    *,
    error: HoldfastError | None = None,
    form: Mapping[str, str] | None = None,
    imported: Imported | None = None,
) -> Reply:
    found = await catalog.page(view.principal, view.ws.id, limit=ROWS, cursor=view.query.get("cursor"))
    return view.page(
        "catalog/index.html",
        "MCP servers",
        status=error.status if error else 200,
        servers=found.items,
        next_url=next_of(found, url_of(view)),
        imported=imported,
        may_change=view.administers and view.may(MANAGE),
        shapes=SHAPES,
        form=form or filled(read_entry(view)),
        errors=field_errors(error) if error else None,
        url=url_of(view),
    )


def _read_snippet(text: str) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except ValueError as problem:
        message = f"is no JSON: {problem}" if text else "paste what the server's makers give you"
        raise Invalid("The snippet cannot be read.", fields=[FieldError("snippet", message)]) from None
    if not isinstance(found, dict):
        raise Invalid("The snippet cannot be read.", fields=[FieldError("snippet", 'begin with {"mcpServers": …')])
    return found
