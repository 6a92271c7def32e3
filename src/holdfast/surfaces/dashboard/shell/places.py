"""Owns where a thing that search found is shown: the page of its type, so that every list and citation links alike."""

from collections.abc import Callable, Mapping
from urllib.parse import quote, urlencode

from holdfast.engines.search.model import Hit
from holdfast.features.workspaces.model import Workspace


def _named(page: str) -> Callable[[Hit], str]:
    return lambda hit: f"{page}/{quote(str(hit.meta.get('slug') or hit.id), safe='')}"


def _file(hit: Hit) -> str:
    return lines_of(str(hit.meta["repository"]), str(hit.meta["path"]), hit.meta["start_line"], hit.meta["end_line"])


_PAGES: Mapping[str, Callable[[Hit], str]] = {
    "memory": _named("memory"),
    "artifact": lambda hit: f"artifacts/{quote(hit.id, safe='')}",
    "document": lambda hit: f"documents/{quote(hit.id, safe='')}",
    "decision": lambda hit: f"decisions/{quote(hit.id, safe='')}",
    "milestone": lambda hit: "timeline",
    "record": lambda hit: f"collections/{quote(str(hit.meta['collection']), safe='')}/{quote(hit.id, safe='')}",
    "case": lambda hit: f"cases/{quote(hit.id, safe='')}",
    "file": _file,
}


def entity_url(workspace: Workspace, hit: Hit) -> str:
    """The page of what was found; what else a repository has opens at its host, or on the repository's page."""
    slug = quote(workspace.slug, safe="")
    page = _PAGES.get(hit.type)
    if page is not None:
        return f"/w/{slug}/{page(hit)}"
    if hit.type == "chat":
        at = quote(hit.id, safe="")
        return f"/chat/{slug}/{quote(str(hit.meta['chat_id']), safe='')}?at={at}#{at}"
    if "repository" not in hit.meta:
        return ""
    told = str(hit.meta.get("url", ""))
    return told if told.startswith("https://") else f"/w/{slug}/repos/{quote(str(hit.meta['repository']), safe='')}"


def lines_of(repository: str, path: str, start: int, end: int) -> str:
    """The lines of a repository's file, below the workspace's own address."""
    query = urlencode({"path": path, "start": start, "end": end})
    return f"repos/{quote(repository, safe='')}/files?{query}#L{start}"
