"""Owns what opens beside an answer: an artifact with its versions and differences, or the source of a citation."""

from typing import Any
from urllib.parse import quote

from holdfast.core.access import READ
from holdfast.core.errors import NotFound
from holdfast.features.artifacts.model import ArtifactReference
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.documents.service import DocumentService
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.service import MemoryService
from holdfast.surfaces.dashboard.shell.declarations import Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply
from holdfast.surfaces.dashboard.views.artifacts import FRAMED, compared_pair

_PASSAGES = 20
_VERSIONS = 30
"""The newest; the artifact's own page has them all."""
pages = Pages()


@pages.get("/w/{ws}/beside/artifacts/{id}", READ)
async def artifact(view: PageView, artifacts: ArtifactService) -> Reply:
    """One version, or with `?compare=2..5` what changed."""
    found = await artifacts.find(view.principal, view.ws.id, ArtifactReference(view.path["id"]))
    if not view.is_part:
        return view.go(f"/w/{quote(view.ws.slug, safe='')}/artifacts/{quote(found.id, safe='')}")
    versions = (await artifacts.versions(view.principal, view.ws.id, found.id, limit=_VERSIONS)).items
    context: dict[str, Any] = {"artifact": found, "versions": versions, "difference": None, "reading": None}
    compare = view.query.get("compare")
    if compare is not None:
        older, newer = compared_pair(compare)
        context["difference"] = await artifacts.diff(
            view.principal, view.ws.id, found.id, from_version=older, to_version=newer
        )
    else:
        wanted = view.query.get("version", "")
        version = int(wanted) if wanted.isdigit() else None
        context["reading"] = await artifacts.read(view.principal, view.ws.id, found.id, version=version)
    return view.part("chat/artifact.html", framed=found.type in FRAMED, **context)


@pages.get("/w/{ws}/beside/source", READ)
async def source(
    view: PageView,
    memories: MemoryService,
    documents: DocumentService,
    artifacts: ArtifactService,
    intelligence: IntelligenceService,
) -> Reply:
    """What a citation of an answer names."""
    kind, key = view.query.get("type", ""), view.query.get("id", "")
    base = f"/w/{quote(view.ws.slug, safe='')}"
    if kind == "memory":
        memory = await memories.get(view.principal, view.ws.id, key)
        url = f"{base}/memory/{quote(memory.slug, safe='')}"
        shown: dict[str, Any] = {"heading": memory.title, "text": memory.content, "at": memory.learned_at, "url": url}
    elif kind == "document":
        document = await documents.get(view.principal, view.ws.id, key)
        chunks = (await documents.chunks(view.principal, view.ws.id, document.id, limit=_PASSAGES)).items
        text = "\n\n".join(chunk.text for chunk in chunks)
        url = f"{base}/documents/{quote(document.id, safe='')}"
        shown = {"heading": document.title, "text": text, "at": document.created_at, "url": url}
    elif kind == "decision":
        decision = await intelligence.decisions.get(view.principal, view.ws.id, key)
        url = f"{base}/decisions/{quote(decision.id, safe='')}"
        shown = {"heading": decision.title, "text": decision.rationale, "at": decision.created_at, "url": url}
    elif kind == "artifact":
        found = await artifacts.find(view.principal, view.ws.id, ArtifactReference(key))
        reading = await artifacts.read(view.principal, view.ws.id, found.id)
        url = f"{base}/artifacts/{quote(found.id, safe='')}"
        shown = {"heading": found.title, "text": reading.content or "", "at": found.updated_at, "url": url}
    else:
        raise NotFound("source", kind[:40])
    if not view.is_part:
        return view.go(shown["url"])
    return view.part("chat/source.html", kind=kind, **shown)
