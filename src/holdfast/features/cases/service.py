"""Owns the rules of cases: adding, changing, moving and finding them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.errors import Conflict, FieldError, Forbidden, Invalid, NotFound
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, page_of
from holdfast.core.principal import Principal
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.transport.address import parse_location
from holdfast.engines.search.model import Entry
from holdfast.features.cases import checks, store
from holdfast.features.cases.base import CaseBase, CaseChange
from holdfast.features.cases.model import (
    MAX_BODY,
    MAX_COMMENT,
    MAX_REASON,
    Case,
    CaseDetail,
    CaseFilter,
    CaseNotFound,
    Comment,
    NewCase,
    Writing,
)
from holdfast.features.cases.proofs import store as proof_store
from holdfast.features.cases.proofs.queueing import RunQueue
from holdfast.features.cases.proofs.verdicts import missing
from holdfast.features.cases.queue.claims import Claims
from holdfast.features.cases.queue.links import CaseLinks, check_parent
from holdfast.features.cases.states import OVER, STATES, State, check_move
from holdfast.features.intelligence import store as milestone_store
from holdfast.features.intelligence.base import IntelligenceBase, checked_text, checked_title, position
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.intelligence.model import MilestoneEdit, NewMilestone, NewRelation, Ref
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.repositories.model import Repository
from holdfast.features.repositories.service import Repositories
from holdfast.storage.database import Tx

MOST_WORKSPACES = 500
_EDITABLE = (
    *("title", "body", "kind", "priority", "criteria", "labels", "assignee", "due_at"),
    *("repository", "base_commit", "head_commit", "environment", "parent"),
)


class NotProven(Conflict):
    """The case cannot be done yet; the message says what is missing."""

    code = "not_proven"

    def __init__(self, gaps: Sequence[str]) -> None:
        super().__init__(
            "The case is not proven yet. " + " ".join(f"{gap.removesuffix('.')}." for gap in gaps),
            fields=[FieldError("state", gap) for gap in gaps],
        )


class CaseService:
    """A queue that people and agents share. `claims` and `links` are its other halves."""

    def __init__(
        self,
        foundation: IntelligenceBase,
        intelligence: IntelligenceService,
        repositories: Repositories,
        git: GitEngine,
        queue: RunQueue,
    ) -> None:
        self.base = CaseBase(foundation)
        self.claims = Claims(self.base)
        self.links = CaseLinks(self.base)
        self._intelligence = intelligence
        self._repositories = repositories
        self._git = git
        self._queue = queue

    async def add(self, principal: Principal, workspace_id: str, new: NewCase) -> Case:
        """Put a case on record, OPEN."""
        principal.require("inference")
        commits = await self._commits(principal, new.repository, new.base_commit, new.head_commit)

        def work(tx: Tx) -> Case:
            workspace = self.base.enter(tx, principal, workspace_id)
            check_parent(tx, workspace, None, new.parent)
            self._check_environment(tx, workspace, new.environment)
            if new.source is not None:
                there = store.from_source(tx, workspace, new.source)
                if there is not None:
                    raise Conflict(f"{new.source} is the case {there} already.", code="already_added")
            case = self._drafted(principal, workspace, replace(new, **commits))  # type: ignore[arg-type] # two fields by their names
            store.put(tx, case)
            self._index(tx, case)
            self.base.note(tx, principal, case, CaseChange("add", to_state="OPEN", detail={"title": case.title}))
            for link in new.links:
                self.links.add(tx, principal, case, link)
            return case

        return await self.base.database.write(work)

    async def get(self, principal: Principal, workspace_id: str | None, id: str) -> Case:
        """One case; in whichever workspace the principal sees where none is named."""
        principal.require_any("read", "inference")
        return await self.base.database.glance(lambda tx: self.base.kept(tx, principal, workspace_id, id))

    async def detail(self, principal: Principal, workspace_id: str | None, id: str) -> CaseDetail:
        """One case with all that belongs to it."""
        principal.require_any("read", "inference")
        return await self.base.database.read(
            lambda tx: self.described(tx, self.base.kept(tx, principal, workspace_id, id))
        )

    def described(self, tx: Tx, case: Case) -> CaseDetail:
        """The same, within a transaction."""
        return CaseDetail(
            case=case,
            claim=case.claim(self.base.clock.now()),
            links=tuple(store.links(tx, [case.id])),
            blocked_by=tuple(store.blockers(tx, [case.id]).get(case.id, ())),
            children=tuple(store.children(tx, case.id)),
            history=tuple(store.history(tx, case.id)),
            comments=tuple(store.comments(tx, case.id)),
        )

    async def page(
        self,
        principal: Principal,
        workspace_id: str | None,
        wanted: CaseFilter = CaseFilter(),  # noqa: B008 - frozen
        *,
        project_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Case]:
        """Cases, newest first: of a workspace, or of all that the principal sees in a project."""
        principal.require_any("read", "inference")
        after = position(cursor)
        places = None
        if workspace_id is None:
            seen = await self.base.workspaces.seen(principal, project_id, MOST_WORKSPACES)
            places = [each.id for each in seen]

        def work(tx: Tx) -> Page[Case]:
            within = [self.base.enter(tx, principal, workspace_id)] if workspace_id is not None else places or []
            if wanted.parent is not None and store.place(tx, wanted.parent) not in within:
                raise CaseNotFound(wanted.parent)
            if wanted.repository is not None:
                self._repositories.find(tx, principal, wanted.repository)
            rows = store.page(tx, within, wanted, limit + 1, after)
            return page_of(rows, limit, lambda row: [row.created_at, row.id])

        return await self.base.database.read(work)

    async def lanes(self, principal: Principal, workspace_id: str, limit: int) -> Mapping[State, Sequence[Case]]:
        """A workspace's cases by state, each state's first: by priority, then age; what is over newest first."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Mapping[State, Sequence[Case]]:
            within = self.base.enter(tx, principal, workspace_id)
            return {state: store.lane(tx, within, state, limit) for state in STATES}

        return await self.base.database.read(work)

    async def edit(
        self,
        principal: Principal,
        workspace_id: str | None,
        id: str,
        changes: Mapping[str, Any],
        writing: Writing = Writing(),  # noqa: B008 - frozen
    ) -> Case:
        """Change the named fields. A new head makes proofs stale, and they are run anew."""
        before = await self.get(principal, workspace_id, id)
        repository = changes.get("repository", before.repository)
        commits = await self._commits(principal, repository, changes.get("base_commit"), changes.get("head_commit"))
        given = {**changes, **{name: commits[name] for name in commits if name in changes}}

        def work(tx: Tx) -> Case:
            old = self.base.held(tx, principal, workspace_id, id, writing)
            fields = self._checked(tx, old, given)
            changed = {name: value for name, value in fields.items() if getattr(old, name) != value}
            if not changed:
                return old
            new = self.base.write(
                tx, principal, replace(old, **changed), CaseChange("edit", detail={"fields": sorted(changed)})
            )
            if changed.keys() & {"title", "body", "criteria"}:
                self._index(tx, new)
            if changed.keys() & {"head_commit", "base_commit", "repository"} and new.is_active:
                self._queue.freshen(tx, new, principal.actor)
            return new

        return await self.base.database.write(work)

    async def move(
        self,
        principal: Principal,
        workspace_id: str | None,
        id: str,
        to: State,
        *,
        reason: str = "",
        writing: Writing = Writing(),  # noqa: B008 - frozen
    ) -> Case:
        """Go one step: IllegalMove naming the legal ones, or NotProven naming what DONE still needs."""
        why = checked_text(reason, "reason", MAX_REASON)

        def work(tx: Tx) -> Case:
            old = self.base.held(tx, principal, workspace_id, id, writing)
            person = principal.is_person
            check_move(old.kind, old.state, to, blocked_from=old.blocked_from, reason=why, is_person=person)
            if to == "DONE":
                gaps = missing(old, self._queue.proven(tx, old, whole=False))
                if gaps:
                    raise NotProven(gaps)
            moved = replace(
                old,
                state=to,
                blocked_from=old.state if to == "BLOCKED" else None,
                reason=why if to in ("BLOCKED", "CANCELLED") else "",
            )
            if not moved.is_active:
                # Nobody works on it any more; what comes next is claimed anew.
                moved = replace(moved, last_claim=None)
            kept = self.base.write(tx, principal, moved, CaseChange("move", why, from_state=old.state, to_state=to))
            self._index(tx, kept)
            if to == "DONE":
                self._reached(tx, principal, kept)
            elif old.state == "DONE":
                self._reopened(tx, principal, kept)
            if (old.state in OVER) != (to in OVER):
                store.count_blockers(tx, store.linked_from(tx, kept.id, "blocks"))
            if to == "VERIFYING":
                self._queue.freshen(tx, kept, principal.actor)
            return kept

        return await self.base.database.write(work)

    async def comment(self, principal: Principal, workspace_id: str | None, id: str, text: str) -> Comment:
        """Remark on a case; whoever is named after an @ is told. It needs no claim."""
        principal.require("inference")
        said = checked_text(text, "text", MAX_COMMENT, required=True)

        def work(tx: Tx) -> Comment:
            case = self.base.kept(tx, principal, workspace_id, id)
            named = checks.mentions(said)
            comment = Comment(
                new_id("cmt"), case.id, self.base.clock.now(), principal.actor, principal.name, said, named
            )
            store.add_comment(tx, comment)
            self._index(tx, case)
            detail = {"comment_id": comment.id, "mentions": list(named[:20])}
            self.base.note(tx, principal, case, CaseChange("comment", detail=detail))
            return comment

        return await self.base.database.write(work)

    # Within.

    def _reached(self, tx: Tx, principal: Principal, case: Case) -> None:
        """Put what is done onto the timeline, tied to the case."""
        new = NewMilestone(title=case.title, type="case", description=_done(case))
        reached = self._intelligence.milestones.add(tx, principal, case.workspace_id, new)
        tie = NewRelation(Ref("milestone", reached.id), Ref("case", case.id), "completes")
        self._intelligence.relations.add(tx, principal, case.workspace_id, tie)

    def _reopened(self, tx: Tx, principal: Principal, case: Case) -> None:
        """Leave no milestone behind that says that the case is done."""
        workspace = case.workspace_id
        for tie in relation_store.of(tx, workspace, [case.id]):
            reached = (
                milestone_store.get_milestone(tx, workspace, tie.start.id) if tie.relation == "completes" else None
            )
            if reached is not None and reached.description == _done(case):
                again = MilestoneEdit(description=f"{case.id} was done, and was reopened.")
                self._intelligence.milestones.change(tx, principal, workspace, reached.id, again)

    def _drafted(self, principal: Principal, workspace: str, new: NewCase) -> Case:
        now = self.base.clock.now()
        return Case(
            id=new_id("case"),
            workspace_id=workspace,
            title=checked_title(new.title),
            body=checked_text(new.body, "body", MAX_BODY),
            kind=new.kind,
            state="OPEN",
            blocked_from=None,
            reason="",
            priority=checks.checked_priority(new.priority),
            criteria=checks.checked_criteria(new.criteria),
            labels=checks.checked_labels(new.labels),
            assignee=checks.checked_word(new.assignee, "assignee"),
            due_at=new.due_at,
            repository=new.repository,
            base_commit=new.base_commit,
            head_commit=new.head_commit,
            environment=new.environment,
            parent=new.parent,
            source=checks.checked_word(new.source, "source"),
            last_claim=None,
            fence=0,
            version=1,
            author=principal.actor,
            author_name=principal.name,
            created_at=now,
            updated_at=now,
        )

    def _checked(self, tx: Tx, old: Case, given: Mapping[str, Any]) -> dict[str, Any]:
        unknown = sorted(given.keys() - set(_EDITABLE))
        if unknown:
            raise Invalid("A field cannot be changed.", fields=[FieldError(unknown[0], "it is not editable")])
        fields = dict(given)
        if "kind" in fields and fields["kind"] != old.kind and old.state != "OPEN":
            raise Conflict("The kind of a case is chosen while it is OPEN; cancel this one and add another.")
        if "title" in fields:
            fields["title"] = checked_title(fields["title"])
        if "body" in fields:
            fields["body"] = checked_text(fields["body"], "body", MAX_BODY)
        if "priority" in fields:
            checks.checked_priority(fields["priority"])
        if "criteria" in fields:
            proofs = proof_store.of_case(tx, old.id)
            used = max((checks.number_of(each) for proof in proofs for each in proof.criteria), default=0)
            fields["criteria"] = checks.checked_criteria(fields["criteria"], old.criteria, used)
        if "labels" in fields:
            fields["labels"] = checks.checked_labels(fields["labels"])
        if "assignee" in fields:
            fields["assignee"] = checks.checked_word(fields["assignee"], "assignee")
        if "parent" in fields:
            check_parent(tx, old.workspace_id, old.id, fields["parent"])
        if "environment" in fields:
            self._check_environment(tx, old.workspace_id, fields["environment"])
        return fields

    def _check_environment(self, tx: Tx, workspace: str, name: str | None) -> None:
        if name is not None and proof_store.get_environment(tx, workspace, name) is None:
            known = ", ".join(each.name for each in proof_store.environments(tx, workspace)) or "none yet"
            problem = f"not registered here; there are: {known}. An operator adds one with `holdfast cases environment`"
            raise Invalid("The environment is not known.", fields=[FieldError("environment", problem)])

    async def _commits(
        self, principal: Principal, slug: str | None, base: str | None, head: str | None
    ) -> dict[str, str | None]:
        """The whole hashes of the commits that a case names, each seen to exist."""
        if slug is None:
            if base or head:
                problem = "name the repository that has the commit"
                raise Invalid("Which repository?", fields=[FieldError("repository", problem)])
            return {"base_commit": None, "head_commit": None}
        try:
            repository = await self._repositories.get(principal, slug)
        except NotFound as error:
            problem = "add it first, with `holdfast repos add` or in the dashboard"
            raise Invalid(error.message, fields=[FieldError("repository", problem)]) from None
        return {
            "base_commit": await self._commit(repository, base, "base_commit"),
            "head_commit": await self._commit(repository, head, "head_commit"),
        }

    async def _commit(self, repository: Repository, given: str | None, field: str) -> str | None:
        commit = checks.checked_commit(given, field)
        if commit is None:
            return None
        try:
            return await self._git.commit_id(repository.id, parse_location(repository.location), commit)
        except NotFound:
            problem = (
                f"{repository.slug} has no such commit here; push it, then `holdfast repos sync {repository.slug}`"
            )
            raise Invalid("The commit is not known.", fields=[FieldError(field, problem)]) from None

    def _index(self, tx: Tx, case: Case) -> None:
        said = [comment.text for comment in store.comments(tx, case.id)]
        self.base.search.put(tx, [entry_of(case, said)])


def entry_of(case: Case, said: Sequence[str] = ()) -> Entry:
    """How search sees a case."""
    parts = [case.body, *(f"Criterion: {each.text}" for each in case.criteria), *said]
    return Entry(
        workspace_id=case.workspace_id,
        type="case",
        id=case.id,
        title=case.title,
        text="\n".join(part for part in parts if part) or case.title,
        learned_at=case.created_at,
        occurred_at=case.created_at,
        author=case.author_name,
        meta={"status": case.state, "kind": case.kind},
    )


def require_person(principal: Principal) -> None:
    """Forbidden unless a person asks."""
    if not principal.is_person:
        raise Forbidden("A word is a person's; agents and CI report, and our runner shows.")


def _done(case: Case) -> str:
    return f"{case.id} is done."
