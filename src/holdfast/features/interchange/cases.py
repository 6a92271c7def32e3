"""Owns the way of exported cases into a workspace: with their history and proofs, then with what ties them."""

from dataclasses import replace

from holdfast.core.errors import Invalid
from holdfast.features.cases import checks
from holdfast.features.cases import store as cases
from holdfast.features.cases.model import MAX_REASON, Case, CaseLink, Comment, HistoryEntry, NewLink
from holdfast.features.cases.proofs import store as proofs
from holdfast.features.cases.proofs.model import Proof
from holdfast.features.cases.proofs.service import out_of_bounds
from holdfast.features.cases.queue.claims import MOST_SECONDS
from holdfast.features.cases.queue.links import check_link, check_parent
from holdfast.features.cases.service import entry_of
from holdfast.features.intelligence.base import checked_text, checked_title
from holdfast.features.interchange.formats.case_files import renamed
from holdfast.features.interchange.model import KeptCase, KeptCaseTies
from holdfast.features.interchange.restore import NotImported, Restore, refuse_secrets


def bring_case(restore: Restore, item: KeptCase) -> None:
    """A case with what was said of it and what is to show it. Nothing of it was run here yet."""
    if not restore.is_believed() and (item.case.state == "DONE" or any(each.kind == "word" for each in item.proofs)):
        raise NotImported("it is DONE or bears a person's word: only an owner or an admin brings those in")
    _check(item)
    id, here = restore.local("case", item.case.id)
    made = _placed(restore, item.case, id)
    if here:
        found = cases.get(restore.tx, restore.workspace_id, id)
        restore.compare(found is not None and _same(restore, item, made, found))
        return
    if made.source is not None and (other := cases.from_source(restore.tx, restore.workspace_id, made.source)):
        raise NotImported(f"{made.source} is the case {other} already")
    # All is refused before anything is written: what comes beside it in the batch stays.
    shown = [_proof(restore, id, each) for each in item.proofs]
    said = [_comment(restore, id, each) for each in item.comments]
    cases.put(restore.tx, made)
    restore.known("case", item.case.id, id)
    for proof in shown:
        proofs.add(restore.tx, proof)
    for comment in said:
        cases.add_comment(restore.tx, comment)
    for entry in item.history:
        cases.add_history(restore.tx, id, _entry(restore, entry))
    restore.entries.append(entry_of(made, [each.text for each in item.comments]))
    restore.report.create("case")


def tie_case(restore: Restore, item: KeptCaseTies) -> None:
    """What a case is part of and linked to, where it is here itself."""
    id, here = restore.local("case", item.case_id)
    case = cases.get(restore.tx, restore.workspace_id, id, for_update=True) if here else None
    if case is None:
        # Why it was left out is in the report already.
        return
    cases.hold_links(restore.tx, restore.workspace_id)
    if item.parent is not None and case.parent is None:
        parent = _other(restore, item.parent)
        check_parent(restore.tx, restore.workspace_id, id, parent)
        cases.put(restore.tx, replace(case, parent=parent))
    for link in item.links:
        new = NewLink(link.type, _other(restore, link.case_id))
        if new.case_id == id:
            raise NotImported("it is linked to itself")
        check_link(restore.tx, id, new)
        cases.add_link(restore.tx, restore.workspace_id, CaseLink(id, new.type, new.case_id), restore.now)
        if new.type == "blocks":
            cases.count_blockers(restore.tx, [new.case_id])


def _other(restore: Restore, origin: str) -> str:
    id, here = restore.local("case", origin)
    if not here:
        raise NotImported(f"it is tied to the case {origin}, which is not here")
    return id


def _check(item: KeptCase) -> None:
    """Refuse what no case of ours has."""
    case = item.case
    checked_title(case.title)
    checked_text(case.reason, "reason", MAX_REASON)
    checks.checked_priority(case.priority)
    checks.checked_labels(case.labels)
    for name in ("assignee", "source"):
        checks.checked_word(getattr(case, name), name)
    for name in ("base_commit", "head_commit"):
        checks.checked_commit(getattr(case, name), name)
    texts = [each.text for each in case.criteria]
    checks.checked_criteria(texts)
    if len({each.id for each in case.criteria}) < len(texts):
        raise NotImported("two of its criteria have one id")
    for proof in item.proofs:
        wrong = out_of_bounds(proof)
        if wrong:
            raise Invalid("A proof cannot be taken.", fields=wrong)
        if proof.outcome is not None and proof.kind == "run":
            raise NotImported("a proof that is to be run names its outcome, which only our runner says")
    told = [text for each in item.proofs for text in (each.claim, each.command, *each.tests)]
    told += [each.text for each in item.comments] + [each.reason for each in item.history]
    refuse_secrets(case.body, *texts, *told)


def _placed(restore: Restore, case: Case, id: str) -> Case:
    """As it stands here before it is tied to others; who holds it is believed of an owner's or admin's files."""
    claim = case.last_claim if restore.is_believed() else None
    if claim is not None:
        latest = restore.now + MOST_SECONDS * 1000
        claim = replace(claim, expires_at=min(claim.expires_at, latest), fence=case.fence)
    return replace(
        case,
        id=id,
        workspace_id=restore.workspace_id,
        parent=None,
        last_claim=claim,
        author=restore.whose(case.author),
        author_name=case.author_name if restore.is_believed() else restore.principal.name,
        created_at=restore.past(case.created_at),
        updated_at=restore.past(case.updated_at),
    )


def _same(restore: Restore, item: KeptCase, made: Case, found: Case) -> bool:
    """Whether it is here as the file has it; who wrote or holds it, and what it is part of, does not matter."""
    alike = replace(
        made,
        parent=found.parent,
        last_claim=found.last_claim,
        author=found.author,
        author_name=found.author_name,
    )
    said = (
        len(cases.comments(restore.tx, found.id)),
        len(cases.history(restore.tx, found.id)),
        len(proofs.of_case(restore.tx, found.id)),
    )
    return alike == found and said == (len(item.comments), len(item.history), len(item.proofs))


def _proof(restore: Restore, case_id: str, proof: Proof) -> Proof:
    id = _new(restore, "proof", proof.id)
    artifact = restore.local("artifact", proof.artifact_id)[0] if proof.artifact_id is not None else None
    return replace(
        proof,
        id=id,
        workspace_id=restore.workspace_id,
        case_id=case_id,
        artifact_id=artifact,
        author=restore.whose(proof.author),
        author_name=_name(restore, proof.author_name),
        created_at=restore.past(proof.created_at),
    )


def _comment(restore: Restore, case_id: str, comment: Comment) -> Comment:
    return replace(
        comment,
        id=_new(restore, "comment", comment.id),
        case_id=case_id,
        at=restore.past(comment.at),
        author=restore.whose(comment.author),
        author_name=_name(restore, comment.author_name),
    )


def _entry(restore: Restore, entry: HistoryEntry) -> HistoryEntry:
    return replace(
        entry,
        at=restore.past(entry.at),
        actor=restore.whose(entry.actor),
        actor_name=_name(restore, entry.actor_name),
        detail=renamed(entry.detail, lambda type, id: restore.local(type, id)[0]),
    )


def _new(restore: Restore, type: str, origin: str) -> str:
    """The id that something of a case gets here; NotImported where it is here as something of another case."""
    id, here = restore.local(type, origin)
    if here:
        raise NotImported(f"the {type} {origin} is here already, of another case")
    restore.known(type, origin, id)
    return id


def _name(restore: Restore, name: str) -> str:
    return name if restore.is_believed() else restore.principal.name
