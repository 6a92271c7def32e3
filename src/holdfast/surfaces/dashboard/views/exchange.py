"""Owns `/w/{ws}/memory/import`: bringing a workspace's knowledge in from files, and taking it along."""

from holdfast.core.access import READ_INTEL, WRITE_INTEL
from holdfast.surfaces.dashboard.shell.declarations import Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply

pages = Pages()


@pages.get("/w/{ws}/memory/import", READ_INTEL)
async def exchange_page(view: PageView) -> Reply:
    """The files themselves go to `/api/workspaces/{id}/import`, as every client's do."""
    return view.page("memory/exchange.html", "Import and export", may_import=view.may(WRITE_INTEL))
