"""Owns a workspace with something of everything, and where each page of the dashboard shows it."""

from collections.abc import Mapping
from importlib import import_module

from holdfast.features.artifacts.model import ArtifactReference, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.cases.model import NewCase
from holdfast.features.cases.proofs import store as proof_store
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.service import CaseService
from holdfast.features.documents.service import DocumentService
from holdfast.features.intelligence.model import NewDecision, NewMilestone
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.server.dashboard import MODULES
from holdfast.storage.database import Tx
from holdfast.surfaces.dashboard.shell.declarations import PageRow
from tests.support.features.cases import seen_to_pass
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
    new = NewCase(title="Mend the gate", kind="bug", criteria=("It opens", "It shuts"))
    case = await server.services[CaseService].add(server.owner, workspace, new)
    proof, run = seen_to_pass(case, "0" * 40)

    def kept(tx: Tx) -> None:
        proof_store.add(tx, proof)
        proof_store.put_run(tx, run)

    await server.services.database.write(kept)


async def addresses(server: TestServer) -> Mapping[str, str]:
    """An address for each path that pages are declared with."""
    workspace = server.start.workspace_id
    ws = (await server.services.workspaces.get(server.owner, workspace)).slug
    memories = (await server.services[MemoryService].list(server.owner, workspace)).items
    artifacts = (await server.services[ArtifactService].page(server.owner, workspace)).items
    decisions = (await server.services[IntelligenceService].decisions.page(server.owner, workspace)).items
    documents = (await server.services[DocumentService].page(server.owner, workspace)).items
    cases = (await server.services[CaseService].page(server.owner, workspace)).items
    case = cases[0].id if cases else ""
    proofs = (await server.services[ProofService].of_case(server.owner, workspace, case))[1] if case else ()
    proof = proofs[0].proof.id if proofs else ""
    document = documents[0].id if documents else ""
    memory = memories[0].slug if memories else ""
    artifact = artifacts[0].id if artifacts else ""
    decision = decisions[0].id if decisions else ""
    return {
        "/": "/",
        "/find": "/find?q=deploy",
        "/keys": "/keys",
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
        "/w/{ws}/cases": f"/w/{ws}/cases",
        "/w/{ws}/cases/{id}": f"/w/{ws}/cases/{case}",
        "/w/{ws}/cases/{id}/proofs/{proof}/statement": f"/w/{ws}/cases/{case}/proofs/{proof}/statement",
        "/w/{ws}/timeline": f"/w/{ws}/timeline",
        "/w/{ws}/graph": f"/w/{ws}/graph",
        "/w/{ws}/settings/secrets": f"/w/{ws}/settings/secrets",
        "/settings/keys": "/settings/keys",
        "/settings/profile": "/settings/profile",
        "/w/{ws}/repos": f"/w/{ws}/repos",
    }


OF_A_REPOSITORY = ("/w/{ws}/repos/{slug}", "/w/{ws}/repos/{slug}/files")
"""Pages that need a repository that was read; `test_repository_pages.py` opens them."""


def page_rows(server: TestServer) -> list[PageRow]:
    """Every page and form, as the server declares them."""
    modules = [import_module(f"holdfast.surfaces.dashboard.views.{name}").pages for name in MODULES]
    rows = [row for each in modules for row in each.bind(server.services)]
    return [row for row in rows if row.path not in OF_A_REPOSITORY]
