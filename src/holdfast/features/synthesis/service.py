"""Owns synthesis: the job that makes findings of a repository, how far it is, and who may see what it found."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.core.clock import Clock
from holdfast.core.principal import Principal
from holdfast.engines.jobs import Job, JobEngine, JobRun
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.audit.service import Audit
from holdfast.features.endpoints.models import Connected, EndpointModels
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.repositories import store as repository_store
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.model import ITEM_KINDS, REPOSITORY, SYNTHESIS_KIND, Repository, SynthesisStatus
from holdfast.features.repositories.service import Repositories
from holdfast.features.synthesis import store
from holdfast.features.synthesis.findings.architecture import architecture
from holdfast.features.synthesis.findings.component_map import component_map
from holdfast.features.synthesis.findings.decisions import commits_on_record, decisions
from holdfast.features.synthesis.findings.glossary import glossary
from holdfast.features.synthesis.findings.hot_spots import hot_spots
from holdfast.features.synthesis.findings.milestones import milestones
from holdfast.features.synthesis.findings.owners import owners
from holdfast.features.synthesis.model import AUTHOR, KINDS, PAGES, Finding, FindingDraft, FindingKind, digest_of
from holdfast.features.synthesis.publishing import Publishing
from holdfast.features.synthesis.rewriting import Rewriting, by_model
from holdfast.features.synthesis.sources.collecting import Collected, Collecting
from holdfast.features.usage.service import Usage
from holdfast.storage.database import Database, Tx

CONCURRENCY = 1
VERSION = 1
"""Of the rules: when they change, repositories are looked at anew."""
_COLLECTED = 70
_WRITTEN = 85
_REWRITTEN: tuple[FindingKind, ...] = ("architecture", "components", "hot_spots", "owners")
Drafts = dict[FindingKind, list[FindingDraft]]


class Synthesis:
    """What can be read out of repositories, written into the knowledge base of their workspaces."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        repositories: Repositories,
        files: LiveFiles,
        artifacts: ArtifactService,
        intelligence: IntelligenceService,
        models: EndpointModels,
        usage: Usage,
        jobs: JobEngine,
        clock: Clock,
    ) -> None:
        self._database = database
        self._audit = audit
        self._repositories = repositories
        self._jobs = jobs
        self._clock = clock
        self._collecting = Collecting(database, files)
        self._publishing = Publishing(artifacts, intelligence, clock)
        self._rewriting = Rewriting(models, usage)

    async def start(self, principal: Principal, slug: str) -> Repository:
        """Look at a repository again soon, whether or not it changed; what is the same then is not written again."""
        principal.require("inference")

        def work(tx: Tx) -> Repository:
            found = self._repositories.find(tx, principal, slug)
            job_id = self._jobs.enqueue(
                tx,
                SYNTHESIS_KIND,
                {"repository_id": found.id, "again": True},
                workspace_id=found.workspace_id,
                key=found.id,
            )
            self._audit.record(
                tx,
                principal,
                "repository.synthesise",
                resource="repository",
                resource_id=found.id,
                workspace_id=found.workspace_id,
                detail={"slug": found.slug, "job_id": job_id},
            )
            return self._note(tx, found, "pending", 0)

        return await self._database.write(work)

    async def findings(self, principal: Principal, slug: str, kind: FindingKind | None = None) -> Sequence[Finding]:
        """What was found, with where it was written and whether a person has made it their own."""
        principal.require_any("read", "inference")
        return await self._database.read(
            lambda tx: store.findings(tx, self._repositories.find(tx, principal, slug).id, kind)
        )

    def forgotten(self, tx: Tx, workspace_id: str, type: str, id: str) -> None:
        """When a repository goes, what was derived from it goes with it, except what people made their own."""
        repository = repository_store.find_in(tx, workspace_id, id) if type == REPOSITORY else None
        if repository is not None:
            self._publishing.forget(tx, author(repository), repository)

    async def run(self, run: JobRun) -> object:
        """Make the findings of one repository what its history says now."""
        repository_id = str(run.payload["repository_id"])
        begun = await self._database.read(lambda tx: self._begun(tx, repository_id))
        if begun is None:
            return "removed"
        repository, fingerprint, known = begun
        connected = await self._rewriting.connect(repository)
        fingerprint = digest_of(fingerprint, connected.model_name if connected else "")
        if fingerprint == known and not run.payload.get("again"):
            await run.write(lambda tx: self._completed(tx, repository_id, repository.synthesised_head))
            return {"written": 0}
        await self._tell(run, repository, 1, "Looking at what is known")
        kept = await self._database.read(lambda tx: store.findings(tx, repository_id))
        principal = author(repository)
        on_record = commits_on_record(finding.key for finding in kept if finding.kind == "decision")

        async def tell(share: float, message: str) -> None:
            percent = 1 + round((_COLLECTED - 1) * share)
            if run.unsaved is None or run.unsaved.done != percent:
                await self._tell(run, repository, percent, message)

        collected = await self._collecting.collect(principal, repository, on_record, tell)
        drafts = await asyncio.to_thread(_drafted, collected, [each.key for each in kept if each.kind == "decision"])
        if connected is not None and not await self._rewritten(run, repository, drafts, kept, connected):
            # The next synthesis tries the model again.
            fingerprint = ""
        written = 0
        for number, kind in enumerate(KINDS):
            await self._tell(run, repository, _WRITTEN + number * 2, "Writing")
            written += await run.commit(
                f"publish {kind}",
                partial(self._published, repository_id=repository_id, kind=kind, drafts=drafts[kind]),
            )
        await run.write(lambda tx: self._completed(tx, repository_id, repository.head, fingerprint))
        return {"written": written}

    async def _rewritten(
        self, run: JobRun, repository: Repository, drafts: Drafts, kept: Sequence[Finding], connected: Connected
    ) -> bool:
        """Let the model sum up the pages whose facts changed; whether it could."""
        known = {finding.kind: finding for finding in kept}
        could = True
        for number, kind in enumerate(_REWRITTEN):
            await self._tell(run, repository, _COLLECTED + number * 3, "Writing summaries")
            for draft in drafts[kind]:
                finding = known.get(kind)
                digest = by_model(draft, connected.model_name)
                if finding is not None and (finding.digest == digest or finding.state != "derived"):
                    drafts[kind] = [replace(draft, made_of=digest)]
                    continue
                better = await self._rewriting.rewrite(author(repository), repository, draft, connected)
                drafts[kind] = [better]
                could = could and bool(better.made_of)
        return could

    def ended(self, tx: Tx, job: Job) -> None:
        """However a job ended that did not complete: its repository says so."""
        if job.state == "succeeded":
            return
        repository = repository_store.hold(tx, str(job.payload["repository_id"]))
        if repository is None:
            return
        before: SynthesisStatus = "completed" if repository.synthesised_at is not None else "pending"
        if job.state == "failed":
            self._note(tx, repository, "failed", repository.synthesis_progress, reason=job.error)
        else:
            self._note(tx, repository, before, 100 if before == "completed" else 0)

    def _begun(self, tx: Tx, repository_id: str) -> tuple[Repository, str, str] | None:
        """The repository, what a synthesis now would be made of, and what the last one was made of."""
        repository = repository_store.by_id(tx, repository_id)
        if repository is None:
            return None
        tags = [(tag.name, tag.sha) for tag in history_store.tags(tx, repository_id)]
        newest = [
            (kind, item.number, item.updated_at)
            for kind in ITEM_KINDS
            for item in item_store.page_items(tx, repository_id, kind, limit=1)
        ]
        count = item_store.count_items(tx, repository_id)
        made_of = digest_of(VERSION, repository.head, repository.name, repository.slug, tags, count, newest)
        return repository, made_of, store.fingerprint(tx, repository_id)

    def _published(self, tx: Tx, repository_id: str, kind: FindingKind, drafts: Sequence[FindingDraft]) -> int:
        repository = repository_store.hold(tx, repository_id)
        if repository is None:
            return 0
        return self._publishing.publish(tx, author(repository), repository, kind, drafts)

    def _completed(self, tx: Tx, repository_id: str, head: str, fingerprint: str | None = None) -> None:
        repository = repository_store.hold(tx, repository_id)
        if repository is None:
            return
        now = self._clock.now()
        if fingerprint is not None:
            store.set_fingerprint(tx, repository_id, fingerprint, now)
            repository_store.update(tx, repository_id, now, {"synthesised_at": now, "synthesised_head": head})
        if fingerprint is not None or repository.synthesis_status != "completed":
            self._note(tx, repository, "completed", 100)

    async def _tell(self, run: JobRun, repository: Repository, percent: int, message: str) -> None:
        await run.progress(percent, 100, message)
        await run.write(lambda tx: self._progressed(tx, repository.id, percent))

    def _progressed(self, tx: Tx, repository_id: str, percent: int) -> None:
        repository = repository_store.by_id(tx, repository_id)
        if repository is not None and (repository.synthesis_status, repository.synthesis_progress) != (
            "running",
            percent,
        ):
            self._note(tx, repository, "running", percent)

    def _note(
        self, tx: Tx, repository: Repository, status: SynthesisStatus, percent: int, reason: str | None = None
    ) -> Repository:
        values = {"synthesis_status": status, "synthesis_progress": percent}
        repository_store.update(tx, repository.id, self._clock.now(), values)
        facts = {"status": status, "progress": percent, **({"reason": reason} if reason else {})}
        self._repositories.tell(tx, repository, "synthesis", **facts)
        return replace(repository, synthesis_status=status, synthesis_progress=percent)


def author(repository: Repository) -> Principal:
    """Whom the audit names for what is derived: the server itself, confined to the repository's workspace."""
    return Principal(
        organization_id=repository.organization_id,
        actor="system",
        proof="local",
        is_person=False,
        scopes=frozenset({"inference", "read"}),
        project_id=repository.project_id,
        workspace_ids=frozenset({repository.workspace_id}),
        name=AUTHOR,
    )


def _drafted(collected: Collected, kept: Sequence[str]) -> Drafts:
    """Everything as it would be written."""
    facts = collected.facts
    pages = {
        "architecture": architecture(facts),
        "components": component_map(facts),
        "hot_spots": hot_spots(facts),
        "owners": owners(facts),
        "glossary": glossary(facts),
    }
    drafts: Drafts = {kind: [draft] if (draft := pages[kind]) is not None else [] for kind in PAGES}
    drafts["decision"] = decisions(facts.repository, facts.history, collected.records, collected.told, set(kept))
    drafts["milestone"] = milestones(facts.repository, facts.tags, collected.since, facts.releases)
    return drafts
