"""Owns a workspace with something of everything, and where each page of the dashboard shows it."""

from collections.abc import Mapping
from importlib import import_module

from holdfast.features.artifacts.model import ArtifactReference, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.documents.service import DocumentService
from holdfast.features.execution.model import InvocationRequest
from holdfast.features.execution.service import Execution
from holdfast.features.intelligence.model import NewDecision, NewMilestone
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.server.dashboard import MODULES
from holdfast.surfaces.dashboard.shell.declarations import PageRow
from tests.support.execution.counting import pinned
from tests.support.server import TestServer

_PAGE = NewArtifact(identifier="hello", title="Hello", type="text/html", content="<h1>Hello</h1>")


async def seed(server: TestServer) -> None:
    """Put something of everything into the first workspace."""
    workspace = server.start.workspace_id
    memories = server.services[MemoryService]
    for text in ("The deploy runs on Fridays at noon.", "We chose PostgreSQL for the billing service."):
        await memories.save(server.owner, workspace, NewMemory(content=text, tags=("ops",)))
    for text in ("The rate limit is 45 calls a minute.", "The rate limit is 60 calls a minute."):
        await memories.save(server.owner, workspace, NewMemory(content=text))
    artifacts = server.services[ArtifactService]
    made = await artifacts.create(server.owner, workspace, _PAGE)
    await artifacts.update(server.owner, workspace, ArtifactReference(made.id), "<h1>Hello again</h1>")
    async with server.client() as client:
        file = {"file": ("notes.md", b"# Notes\n\nThe giraffe is fed at noon.\n", "text/markdown")}
        (await client.post(f"/api/workspaces/{workspace}/documents", files=file)).raise_for_status()
    intelligence = server.services[IntelligenceService]
    decision = await intelligence.decisions.track(server.owner, workspace, NewDecision("Use PostgreSQL", "Row locks."))
    await intelligence.milestones.track(
        server.owner, workspace, NewMilestone("First release", decisions=(decision.id,))
    )


async def addresses(server: TestServer) -> Mapping[str, str]:
    """An address for each path that pages are declared with."""
    workspace = server.start.workspace_id
    ws = (await server.services.workspaces.get(server.owner, workspace)).slug
    memories = (await server.services[MemoryService].list(server.owner, workspace)).items
    artifacts = (await server.services[ArtifactService].page(server.owner, workspace)).items
    decisions = (await server.services[IntelligenceService].decisions.page(server.owner, workspace)).items
    documents = (await server.services[DocumentService].page(server.owner, workspace)).items
    document = documents[0].id if documents else ""
    memory = memories[0].slug if memories else ""
    artifact = artifacts[0].id if artifacts else ""
    decision = decisions[0].id if decisions else ""
    return {
        "/": "/",
        "/find": "/find?q=deploy",
        "/keys": "/keys",
        "/approvals": "/approvals",
        "/connect/callback": "/connect/callback?state=x&code=y",
        "/connect/{server}": "/connect/mcp_none",
        "/approve/{token}": f"/approve/{await _approval(server)}",
        "/w/{ws}/memory": f"/w/{ws}/memory",
        "/w/{ws}/memory/new": f"/w/{ws}/memory/new",
        "/w/{ws}/memory/contradictions": f"/w/{ws}/memory/contradictions",
        "/w/{ws}/memory/{slug}": f"/w/{ws}/memory/{memory}",
        "/w/{ws}/connect": f"/w/{ws}/connect",
        "/w/{ws}/documents": f"/w/{ws}/documents",
        "/w/{ws}/documents/{id}": f"/w/{ws}/documents/{document}",
        "/w/{ws}/artifacts": f"/w/{ws}/artifacts",
        "/w/{ws}/artifacts/{id}": f"/w/{ws}/artifacts/{artifact}?compare=1..2",
        "/w/{ws}/artifacts/{id}/frame": f"/w/{ws}/artifacts/{artifact}/frame",
        "/w/{ws}/artifacts/{id}/download": f"/w/{ws}/artifacts/{artifact}/download",
        "/w/{ws}/artifacts/{id}/compare": f"/w/{ws}/artifacts/{artifact}/compare?from=1&to=2",
        "/w/{ws}/decisions": f"/w/{ws}/decisions",
        "/w/{ws}/decisions/{id}": f"/w/{ws}/decisions/{decision}",
        "/w/{ws}/timeline": f"/w/{ws}/timeline",
        "/w/{ws}/graph": f"/w/{ws}/graph",
        "/w/{ws}/settings/secrets": f"/w/{ws}/settings/secrets",
        "/settings/keys": "/settings/keys",
        "/settings/profile": "/settings/profile",
        "/w/{ws}/repos": f"/w/{ws}/repos",
    }


async def _approval(server: TestServer) -> str:
    """The token of a call that waits for a person."""
    services, workspace = server.services, server.start.workspace_id
    if not await services[ServerCatalog].list(server.owner, workspace):
        await pinned(services, server.owner, workspace)
    request = InvocationRequest(
        principal=server.owner, workspace_id=workspace, tool_name="demo.count", arguments={"name": "a"}, source="cli"
    )
    asked = (await services[Execution].invoke(request)).invocation
    return asked.approval.token if asked.approval is not None else ""


OF_A_REPOSITORY = ("/w/{ws}/repos/{slug}", "/w/{ws}/repos/{slug}/files")
"""Pages that need a repository that was read; `test_repository_pages.py` opens them."""


def page_rows(server: TestServer) -> list[PageRow]:
    """Every page and form, as the server declares them."""
    modules = [import_module(f"holdfast.surfaces.dashboard.views.{name}").pages for name in MODULES]
    rows = [row for each in modules for row in each.bind(server.services)]
    return [row for row in rows if row.path not in OF_A_REPOSITORY]
