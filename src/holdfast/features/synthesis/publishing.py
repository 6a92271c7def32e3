"""Owns the way of a finding into the knowledge base and out of it, and that what a person touched is left alone."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.features.artifacts import store as artifact_store
from holdfast.features.artifacts.model import ArtifactReference, NewArtifact
from holdfast.features.artifacts.service import ArtifactService
from holdfast.features.intelligence import store as intelligence_store
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.intelligence.model import (
    Decision,
    DecisionEdit,
    MilestoneEdit,
    NewDecision,
    NewMilestone,
    Ref,
    Relation,
)
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.repositories.model import REPOSITORY, Repository
from holdfast.features.synthesis import store
from holdfast.features.synthesis.model import Finding, FindingDraft, FindingKind, digest_of
from holdfast.storage.database import Tx

_MAX_IDENTIFIER = 128


def derived(tx: Tx, workspace_id: str) -> frozenset[tuple[str, str]]:
    """Type and id of everything that was written from a workspace's repositories and is still as it was written."""
    return frozenset(
        (finding.target_type, finding.target_id)
        for finding in store.workspace_findings(tx, workspace_id)
        if _digest_now(tx, workspace_id, finding, hold=False) == finding.written
    )


def _digest_now(tx: Tx, workspace_id: str, finding: Finding, *, hold: bool) -> str | None:
    id = finding.target_id
    match finding.target_type:
        case "artifact":
            look = ArtifactReference(id)
            artifact = (
                artifact_store.hold(tx, workspace_id, id) if hold else artifact_store.find(tx, workspace_id, look)
            )
            if artifact is None:
                return None
            kept = artifact_store.find_version(tx, id, artifact.version, content_up_to=None)
            return None if kept is None else digest_of(artifact.title, kept[0].sha256)
        case "decision":
            decision = intelligence_store.get_decision(tx, workspace_id, id, for_update=hold)
            return None if decision is None else _decision_digest(decision)
        case "milestone":
            reached = intelligence_store.get_milestone(tx, workspace_id, id, for_update=hold)
            if reached is None:
                return None
            return digest_of(reached.title, reached.type, reached.description, reached.occurred_at)


class Publishing:
    """Writes drafts as artifacts, decisions and milestones. Every method runs in the transaction it is given."""

    def __init__(self, artifacts: ArtifactService, intelligence: IntelligenceService, clock: Clock) -> None:
        self._artifacts = artifacts
        self._intelligence = intelligence
        self._clock = clock

    def publish(
        self, tx: Tx, principal: Principal, repository: Repository, kind: FindingKind, drafts: Sequence[FindingDraft]
    ) -> int:
        """Make what is on record of a kind what the drafts say, as far as it is ours; how many were written."""
        known = {finding.key: finding for finding in store.findings(tx, repository.id, kind)}
        made: dict[str, Finding] = {}
        written = 0
        for draft in sorted(drafts, key=lambda draft: (draft.at or 0, draft.key)):
            finding = known.pop(draft.key, None)
            if finding is None:
                made[draft.key] = self._create(tx, principal, repository, draft)
                written += 1
            else:
                made[draft.key], changed = self._refresh(tx, principal, repository, finding, draft)
                written += changed
        written += self._drop(tx, principal, repository, list(known.values()))
        for draft in drafts:
            if draft.superseded_by is not None:
                self._supersede(tx, principal, repository, made[draft.key], made.get(draft.superseded_by))
        return written

    def forget(self, tx: Tx, principal: Principal, repository: Repository) -> None:
        """Take away what was derived from a repository and is still as it was written."""
        self._drop(tx, principal, repository, store.findings(tx, repository.id))
        self._intelligence.forget(tx, repository.workspace_id, REPOSITORY, repository.slug)

    def _create(self, tx: Tx, principal: Principal, repository: Repository, draft: FindingDraft) -> Finding:
        workspace = repository.workspace_id
        finding = Finding(
            repository.id,
            draft.kind,
            draft.key,
            draft.title,
            draft.body,
            draft.citations,
            draft.target_type,
            "",
            draft.digest,
            "",
            "derived",
            self._clock.now(),
        )
        match draft.target_type:
            case "artifact":
                identifier = f"repo-{repository.slug}-{draft.kind.replace('_', '-')}"[:_MAX_IDENTIFIER]
                taken = artifact_store.find(tx, workspace, ArtifactReference(identifier=identifier))
                if taken is not None:
                    # Somebody's own page has this name, or one they edited outlived an earlier life of the repository.
                    return self._keep(tx, replace(finding, target_id=taken.id, state="edited"))
                new = NewArtifact(identifier, draft.title, "text/markdown", draft.body)
                target_id = self._artifacts.add(tx, principal, workspace, new).id
            case "decision":
                status = "accepted" if draft.superseded_by is not None else draft.status
                decided = NewDecision(draft.title, draft.body, draft.alternatives, status, decided_at=draft.at)
                target_id = self._intelligence.decisions.add(tx, principal, workspace, decided).id
            case "milestone":
                reached = NewMilestone(draft.title, "release", draft.body, draft.at)
                target_id = self._intelligence.milestones.add(tx, principal, workspace, reached).id
        finding = replace(finding, target_id=target_id)
        self._tie(tx, principal, repository, finding)
        return self._keep(tx, replace(finding, written=self._present(tx, repository, finding) or ""))

    def _refresh(
        self, tx: Tx, principal: Principal, repository: Repository, finding: Finding, draft: FindingDraft
    ) -> tuple[Finding, bool]:
        """The finding as it is now, and whether it was written."""
        if not self._is_ours(tx, repository, finding) or finding.digest == draft.digest:
            return self._noted(tx, repository, finding), False
        workspace, target = repository.workspace_id, finding.target_id
        match finding.target_type:
            case "artifact":
                self._artifacts.change(tx, principal, workspace, target, draft.body, title=draft.title)
            case "decision":
                status = None if draft.superseded_by is not None else draft.status
                edit = DecisionEdit(draft.title, draft.body, draft.alternatives, status, decided_at=draft.at)
                self._intelligence.decisions.change(tx, principal, workspace, target, edit)
            case "milestone":
                change = MilestoneEdit(draft.title, None, draft.body, draft.at)
                self._intelligence.milestones.change(tx, principal, workspace, target, change)
        fresh = replace(
            finding,
            title=draft.title,
            body=draft.body,
            citations=draft.citations,
            digest=draft.digest,
            updated_at=self._clock.now(),
        )
        return self._keep(tx, replace(fresh, written=self._present(tx, repository, fresh) or "")), True

    def _drop(self, tx: Tx, principal: Principal, repository: Repository, findings: Sequence[Finding]) -> int:
        """The history no longer says it: what is still ours goes; how many."""
        # Told before any goes: taking one decision back changes the one that it had superseded.
        ours = [finding for finding in findings if self._is_ours(tx, repository, finding)]
        for finding in findings:
            if finding not in ours:
                self._noted(tx, repository, finding)
        for finding in ours:
            self._remove(tx, principal, repository, finding)
            store.delete_finding(tx, finding)
        return len(ours)

    def _supersede(
        self, tx: Tx, principal: Principal, repository: Repository, finding: Finding, successor: Finding | None
    ) -> None:
        """Say of a decision that another took its place, unless a person has said otherwise."""
        workspace = repository.workspace_id
        old = intelligence_store.get_decision(tx, workspace, finding.target_id, for_update=True)
        if finding.state != "derived" or old is None or (old.status == "superseded" and successor is None):
            return
        new = None if successor is None else intelligence_store.get_decision(tx, workspace, successor.target_id)
        decisions = self._intelligence.decisions
        if new is not None and old.superseded_by == new.id:
            return
        if new is not None and _may_succeed(new, old):
            decisions.supersede(tx, principal, workspace, new.id, old.id)
        elif old.status != "superseded":
            decisions.change(tx, principal, workspace, old.id, DecisionEdit(status="superseded"))
        self._keep(tx, replace(finding, written=self._present(tx, repository, finding) or ""))

    def _is_ours(self, tx: Tx, repository: Repository, finding: Finding) -> bool:
        return finding.state == "derived" and self._present(tx, repository, finding) == finding.written

    def _noted(self, tx: Tx, repository: Repository, finding: Finding) -> Finding:
        """The finding, with what a person did to it."""
        if finding.state != "derived":
            return finding
        present = self._present(tx, repository, finding)
        if present == finding.written:
            return finding
        return self._keep(tx, replace(finding, state="dismissed" if present is None else "edited"))

    def _present(self, tx: Tx, repository: Repository, finding: Finding) -> str | None:
        """A digest of the thing as it is now, and stays until we are done; None when it is gone."""
        return _digest_now(tx, repository.workspace_id, finding, hold=True)

    def _remove(self, tx: Tx, principal: Principal, repository: Repository, finding: Finding) -> None:
        workspace, id = repository.workspace_id, finding.target_id
        match finding.target_type:
            case "artifact":
                self._artifacts.remove(tx, principal, workspace, id)
            case "decision":
                self._intelligence.decisions.withdraw(tx, principal, workspace, id)
            case "milestone":
                self._intelligence.milestones.remove(tx, principal, workspace, id)

    def _tie(self, tx: Tx, principal: Principal, repository: Repository, finding: Finding) -> None:
        start, end = Ref(finding.target_type, finding.target_id), Ref(REPOSITORY, repository.slug)
        now = self._clock.now()
        tie = Relation(new_id("rel"), repository.workspace_id, start, end, "derived_from", "", principal.actor, now)
        relation_store.add(tx, tie)

    def _keep(self, tx: Tx, finding: Finding) -> Finding:
        store.put_finding(tx, finding)
        return finding


def _decision_digest(decision: Decision) -> str:
    return digest_of(
        decision.title,
        decision.rationale,
        decision.alternatives,
        decision.status,
        decision.blocking,
        decision.decided_at,
        decision.superseded_by,
    )


def _may_succeed(new: Decision, old: Decision) -> bool:
    """Whether `new` may take the place of `old`: each follows one and is followed by one."""
    return new.supersedes is None and new.status != "superseded" and old.superseded_by is None and new.id != old.id
