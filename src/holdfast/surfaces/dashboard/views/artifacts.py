"""Owns the pages of artifacts: every version, the difference of any two, and a frame in which markup can do nothing."""

import re
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from holdfast.core.access import READ, WRITE
from holdfast.core.errors import FieldError, Invalid
from holdfast.features.artifacts.model import ArtifactReference
from holdfast.features.artifacts.service import ArtifactService
from holdfast.surfaces.dashboard.shell.assets import asset_url
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply, Sent

_ROWS = 50
_COMPARED = re.compile(r"(\d{1,6})\.\.(\d{1,6})")
DIAGRAM = "text/x-mermaid"
FRAMED = {
    "text/html": "text/html; charset=utf-8",
    "image/svg+xml": "image/svg+xml",
    DIAGRAM: "text/html; charset=utf-8",
}
_FRAME_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'self'; form-action 'none'"
)
"""For what an agent wrote: it shows, it runs nothing, it loads nothing, and it is of no origin."""
_DIAGRAM_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data:; sandbox allow-scripts; "
    "frame-ancestors 'self'; form-action 'none'"
)
"""For a diagram: our own copy of Mermaid draws it, of no origin and with nowhere to send anything."""
_DIAGRAM = Markup(
    '<!doctype html><meta charset="utf-8"><title>{}</title><pre class="mermaid">{}</pre>'
    '<script src="{}"></script><script src="{}"></script>'
)
pages = Pages(NavRow("Artifacts", "/w/{ws}/artifacts", "artifact", "workspace", 20, READ))


@pages.get("/w/{ws}/artifacts", READ)
async def index(view: PageView, artifacts: ArtifactService) -> Reply:
    page = await artifacts.page(view.principal, view.ws.id, limit=_ROWS, cursor=view.query.get("cursor"))
    base = f"/w/{view.ws.slug}/artifacts"
    next_url = f"{base}?cursor={page.next_cursor}" if page.next_cursor else ""
    context: dict[str, Any] = {"rows": page.items, "next_url": next_url, "base": base}
    if view.is_part:
        return view.part("artifacts/rows.html", **context)
    return view.page("artifacts/index.html", "Artifacts", **context)


@pages.get("/w/{ws}/artifacts/{id}", READ)
async def show(view: PageView, artifacts: ArtifactService) -> Reply:
    """One version, or with `?compare=2..5` what changed from one to another."""
    found = await artifacts.find(view.principal, view.ws.id, ArtifactReference(view.path["id"]))
    page = await artifacts.versions(
        view.principal, view.ws.id, found.id, limit=_ROWS, cursor=view.query.get("cursor") or None
    )
    own = f"/w/{quote(view.ws.slug, safe='')}/artifacts/{quote(found.id, safe='')}"
    versions: dict[str, Any] = {
        "artifact": found,
        "versions": page.items,
        "next_url": f"{own}?cursor={page.next_cursor}" if page.next_cursor else "",
    }
    if view.is_part and view.query.get("cursor"):
        return view.part("artifacts/version_rows.html", **versions)
    compare = view.query.get("compare")
    if compare is not None:
        older, newer = compared_pair(compare)
        difference = await artifacts.diff(view.principal, view.ws.id, found.id, from_version=older, to_version=newer)
        return view.page("artifacts/compare.html", found.title, difference=difference, **versions)
    wanted = view.query.get("version", "")
    version = int(wanted) if wanted.isdigit() else None
    reading = await artifacts.read(view.principal, view.ws.id, found.id, version=version)
    return view.page(
        "artifacts/show.html",
        found.title,
        reading=reading,
        framed=found.type in FRAMED,
        may_write=view.may(WRITE),
        **versions,
    )


@pages.get("/w/{ws}/artifacts/{id}/frame", READ)
async def frame(view: PageView, artifacts: ArtifactService) -> Reply:
    """The markup itself, under a policy that lets it do nothing."""
    wanted = view.query.get("version", "")
    version = int(wanted) if wanted.isdigit() else None
    reading, content = await artifacts.download(view.principal, view.ws.id, view.path["id"], version=version)
    media_type = FRAMED.get(reading.artifact.type, "text/plain; charset=utf-8")
    if reading.artifact.type == DIAGRAM:
        scripts = asset_url("vendor/mermaid.js"), asset_url("elements/mermaid-frame.js")
        drawn = _DIAGRAM.format(reading.artifact.title, content, *scripts)
        return Sent(drawn.encode(), media_type, {"Content-Security-Policy": _DIAGRAM_POLICY})
    return Sent(content.encode(), media_type, {"Content-Security-Policy": _FRAME_POLICY})


@pages.get("/w/{ws}/artifacts/{id}/download", READ)
async def download(view: PageView, artifacts: ArtifactService) -> Reply:
    wanted = view.query.get("version", "")
    version = int(wanted) if wanted.isdigit() else None
    reading, content = await artifacts.download(view.principal, view.ws.id, view.path["id"], version=version)
    name = re.sub(r"[^\w.-]+", "-", f"{reading.artifact.identifier}-{reading.version.version}")
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": _FRAME_POLICY}
    return Sent(content.encode(), "application/octet-stream", headers)


@pages.post("/w/{ws}/artifacts/{id}/delete", WRITE)
async def delete(view: PageView, artifacts: ArtifactService) -> Reply:
    await artifacts.delete(view.principal, view.ws.id, view.path["id"])
    return view.go(f"/w/{view.ws.slug}/artifacts", "Deleted with all its versions.")


@pages.get("/w/{ws}/artifacts/{id}/compare", READ)
async def compare(view: PageView) -> Reply:
    """Where the form of two versions leads: the address that names both."""
    older, newer = (view.query.get(name, "") for name in ("from", "to"))
    return view.go(f"/w/{view.ws.slug}/artifacts/{view.path['id']}?compare={older[:6]}..{newer[:6]}")


def compared_pair(compare: str) -> tuple[int, int]:
    """The two versions that `2..5` names."""
    pair = _COMPARED.fullmatch(compare)
    if pair is None:
        problem = f"{compare[:20]!r} names no two versions; write them as 2..5"
        raise Invalid("The versions cannot be read.", fields=[FieldError("compare", problem)])
    return int(pair[1]), int(pair[2])
