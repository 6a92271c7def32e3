"""Owns the decisions found in a history: records, telling commits, pull requests and issues, reverts; each once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.features.intelligence.model import Status
from holdfast.features.repositories.model import Item, Repository
from holdfast.features.synthesis.model import FindingDraft, FindingOrigin, in_commit, in_file
from holdfast.features.synthesis.sources import cues
from holdfast.features.synthesis.sources.adr import Adr
from holdfast.features.synthesis.sources.history import DecisionCandidate, History
from holdfast.features.synthesis.sources.quoting import is_fit, shortened

MOST = 60
"""How many of the most telling are recorded beside the decision records and what was recorded before."""
_REMARKS = 12


@dataclass(frozen=True, slots=True)
class Told:
    """A pull request or issue that tells of a decision."""

    item: Item
    telling: cues.Telling
    status: Status

    @property
    def key(self) -> str:
        return f"{self.item.kind}:{self.item.number}"


def told(item: Item) -> Told | None:
    """What an item tells of a decision; None when it is about something else, or not settled."""
    if cues.is_bot(item.author):
        return None
    status: Status = "accepted"
    if item.kind == "pull_request" and item.merged_at is None:
        status = "proposed" if item.state == "open" else "rejected"
    elif item.kind != "pull_request" and item.state == "open":
        return None
    remarks = "\n\n".join(remark.body for remark in item.remarks[-_REMARKS:] if not cues.is_bot(remark.author))
    # In a discussion reasons are given for everything: only the plainest words count.
    weight = 4.0 if item.kind == "pull_request" else -10.0
    telling = cues.tell(item.title, f"{item.body}\n\n{remarks}", weight=weight)
    return Told(item, telling, status) if telling.quotes and telling.score >= cues.LEAST_SCORE else None


def decisions(
    repository: Repository, history: History, records: Sequence[Adr], items: Iterable[Told], kept: Collection[str]
) -> list[FindingDraft]:
    """The decisions as they would be written. `kept` are the keys of those that are on record already."""
    drafts = [*_records(repository, history, records)]
    absorbed = {sha for record in records for sha in _shas_of(history, record)}
    told_items = list(items)
    pulls = {each.item.number for each in told_items if each.item.kind == "pull_request"}
    absorbed |= {each.item.commit for each in told_items if each.item.commit}
    commits = [
        candidate
        for candidate in history.candidates
        if candidate.sha not in absorbed and (candidate.pull is None or candidate.pull not in pulls)
    ]
    commits = _still_so(history, commits)
    found = [(each.telling.score, _from_commit(repository, each)) for each in _unlike(commits)]
    found += [(each.telling.score, _from_item(repository, each, history)) for each in told_items]
    fit = [(score, draft) for score, draft in found if is_fit(draft.title, draft.body, *draft.alternatives)]
    fit.sort(key=lambda each: (-each[0], -(each[1].at or 0), each[1].key))
    chosen = {draft.key: draft for number, (_, draft) in enumerate(fit) if number < MOST or draft.key in kept}
    takes_back = _taken_back(history, [candidate for candidate in commits if f"commit:{candidate.sha}" in chosen])
    return [*drafts, *(_with_successor(draft, takes_back) for draft in chosen.values())]


def commits_on_record(kept: Iterable[str]) -> set[str]:
    """The hashes of commits that are findings already."""
    return {key.removeprefix("commit:") for key in kept if key.startswith("commit:")}


def _records(repository: Repository, history: History, records: Sequence[Adr]) -> Iterable[FindingDraft]:
    by_number = {record.number: record for record in records if record.number is not None}
    for record in records:
        known = history.files.get(record.path)
        citations = [in_file(record.path, record.start_line, record.end_line)]
        citations += [in_commit(sha) for sha in _shas_of(history, record)]
        parts = [f"**Context.** {record.context}"] if record.context else []
        parts += [f"**Decision.** {record.decision}"] if record.decision else []
        successor = by_number.get(record.superseded_by) if record.superseded_by is not None else None
        draft = FindingDraft(
            kind="decision",
            key=f"adr:{record.path}",
            title=record.title,
            body=_signed(repository, "\n\n".join(parts), citations),
            citations=tuple(citations),
            status="superseded" if successor is not None else record.status,
            alternatives=record.alternatives,
            at=record.decided_at or (known.added_at if known is not None and known.added_at else None),
            superseded_by=None if successor is None or successor is record else f"adr:{successor.path}",
        )
        if is_fit(draft.title, draft.body, *draft.alternatives):
            yield draft


def _shas_of(history: History, record: Adr) -> list[str]:
    """The commit that brought a record."""
    known = history.files.get(record.path)
    return [known.added] if known is not None and known.added else []


def _from_commit(repository: Repository, candidate: DecisionCandidate) -> FindingDraft:
    citations = [in_commit(candidate.sha)]
    if candidate.pull is not None:
        citations.append(FindingOrigin("pull_request", candidate.pull))
    said = [f"> {quote}" for quote in candidate.telling.quotes]
    if candidate.reverts:
        said = [f"> {candidate.reason}"] if candidate.reason else ["The commit gives no reason."]
        named = candidate.reverts
        if all(letter in "0123456789abcdef" for letter in named) and len(named) >= 7:
            citations.append(in_commit(named))
    return FindingDraft(
        kind="decision",
        key=f"commit:{candidate.sha}",
        title=candidate.telling.title,
        body=_signed(repository, "\n".join(said), citations, f"Decided by {candidate.author}."),
        citations=tuple(citations),
        alternatives=candidate.telling.alternatives,
        at=candidate.at,
    )


def _from_item(repository: Repository, each: Told, history: History) -> FindingDraft:
    item = each.item
    citations = [FindingOrigin(item.kind, item.number)]
    if item.commit:
        citations.append(in_commit(item.commit))
    said = "\n".join(f"> {quote}" for quote in each.telling.quotes)
    by = f"Told by {item.author}." if item.author else ""
    return FindingDraft(
        kind="decision",
        key=each.key,
        title=each.telling.title,
        body=_signed(repository, said, citations, by),
        citations=tuple(citations),
        status=each.status,
        alternatives=each.telling.alternatives,
        at=item.merged_at or item.closed_at or item.created_at,
    )


def _signed(repository: Repository, text: str, citations: Sequence[FindingOrigin], by: str = "") -> str:
    """The text, who decided, and where it is from: derived things say so themselves."""
    labels = ", ".join(citation.label for citation in citations)
    note = f"Derived by Holdfast from the history of {repository.slug}: {labels}."
    return "\n\n".join(part for part in (text, f"{by} {note}".strip()) if part)


def _unlike(candidates: Sequence[DecisionCandidate]) -> list[DecisionCandidate]:
    """Each choice once: a commit that was picked onto a branch again says the same."""
    found: dict[str, DecisionCandidate] = {}
    for candidate in sorted(candidates, key=lambda each: (each.at, each.sha)):
        found.setdefault(shortened(candidate.telling.title.lower(), 120), candidate)
    return sorted(found.values(), key=lambda each: each.order, reverse=True)


def _still_so(history: History, candidates: Sequence[DecisionCandidate]) -> list[DecisionCandidate]:
    """Without what was taken back by a commit that is no decision itself."""
    known = {candidate.sha for candidate in candidates}
    gone = {
        named
        for named, revert in history.reverts.items()
        if revert not in known and not any(revert.startswith(other) for other in history.reverts)
    }
    return [
        candidate
        for candidate in candidates
        if not any(candidate.sha.startswith(named) or cues.title_of(named) == candidate.telling.title for named in gone)
    ]


def _taken_back(history: History, candidates: Sequence[DecisionCandidate]) -> dict[str, str]:
    """Key of a decision → key of the revert that took it back; a revert that was taken back itself counts no more."""
    known = {candidate.sha for candidate in candidates}
    by: dict[str, str] = {}
    for candidate in candidates:
        for named, revert in history.reverts.items():
            is_it = candidate.sha.startswith(named) or cues.title_of(named) == candidate.telling.title
            if is_it and revert != candidate.sha and revert in known:
                by[candidate.sha] = revert
    return {f"commit:{sha}": f"commit:{revert}" for sha, revert in by.items() if by.get(revert) is None}


def _with_successor(draft: FindingDraft, takes_back: Mapping[str, str]) -> FindingDraft:
    successor = takes_back.get(draft.key)
    if successor is None:
        return draft
    return FindingDraft(
        draft.kind,
        draft.key,
        draft.title,
        draft.body,
        draft.citations,
        "superseded",
        draft.alternatives,
        draft.at,
        successor,
    )
