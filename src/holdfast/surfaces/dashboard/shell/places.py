"""Owns where a thing that search found is shown: the page of its type, so that every list and citation links alike."""

from collections.abc import Callable, Mapping
from urllib.parse import quote

from holdfast.engines.search.model import Hit
from holdfast.features.workspaces.model import Workspace


def _named(page: str) -> Callable[[Hit], str]:
    return lambda hit: f"{page}/{quote(str(hit.meta.get('slug') or hit.id), safe='')}"


_PAGES: Mapping[str, Callable[[Hit], str]] = {
    "memory": _named("memory"),
    "artifact": lambda hit: f"artifacts/{quote(hit.id, safe='')}",
    "document": lambda hit: f"documents/{quote(hit.id, safe='')}",
    "decision": lambda hit: f"decisions/{quote(hit.id, safe='')}",
    "milestone": lambda hit: "timeline",
    "record": lambda hit: f"collections/{quote(str(hit.meta['collection']), safe='')}/{quote(hit.id, safe='')}",
    "case": lambda hit: f"cases/{quote(hit.id, safe='')}",
}


def entity_url(workspace: Workspace, hit: Hit) -> str:
    """The page of what was found; where its type has none, everything of that name in the palette."""
    page = _PAGES.get(hit.type)
    return f"/w/{quote(workspace.slug, safe='')}/{page(hit)}" if page is not None else ""
