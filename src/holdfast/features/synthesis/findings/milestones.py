"""Owns the milestones of a history: tags and releases, and what changed from one to the next."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.engines.git.model import Commit, Tag
from holdfast.features.repositories.model import Item, Repository
from holdfast.features.synthesis.model import FindingDraft, FindingOrigin, in_commit
from holdfast.features.synthesis.sources.history import TagSpan
from holdfast.features.synthesis.sources.quoting import is_fit, plain, shortened

MANY = 60
"""With more tags than this, only major and minor versions are milestones."""
_VERSION = re.compile(r"^(?:[A-Za-z][\w./-]*?)?v?(\d+)\.(\d+)(?:\.(\d+))?$")


@dataclass(frozen=True, slots=True)
class Since:
    """What changed since the tag before, and which that is."""

    span: TagSpan
    tag: str


def milestones(
    repository: Repository, tags: Sequence[Tag], since: Mapping[str, Since], releases: Mapping[str, Item]
) -> list[FindingDraft]:
    """The milestones as they would be written; `since` tells by tag what changed."""
    drafts = [_milestone(repository, tag, since.get(tag.name), releases.get(tag.name)) for tag in chosen(tags)]
    known = {tag.name for tag in tags}
    drafts += [_released(repository, item) for name, item in releases.items() if name not in known]
    return [draft for draft in drafts if is_fit(draft.title, draft.body)]


@dataclass(frozen=True, slots=True)
class TagEnd:
    """A tag on the branch, where what it brought ends."""

    at: int
    name: str
    sha: str


def boundaries(tags: Sequence[Tag], on_branch: Mapping[str, Commit]) -> list[TagEnd]:
    """The milestones' tags on the branch, oldest first; `on_branch` has the commits of their seconds."""
    ends = [TagEnd(on_branch[tag.sha].committed_at, tag.name, tag.sha) for tag in chosen(tags) if tag.sha in on_branch]
    # Of two in one second the one comes first that the other is built upon.
    return sorted(ends, key=lambda end: (end.at, len(_below(end.sha, on_branch)), end.name))


def placed(ends: Sequence[TagEnd], on_branch: Mapping[str, Commit]) -> dict[str, int]:
    """Which tag brought each commit of the tags' seconds, by its number: there moments alone do not tell."""
    found: dict[str, int] = {}
    last: dict[int, int] = {}
    for number, end in enumerate(ends):
        last[end.at] = number
        for sha in _below(end.sha, on_branch):
            found.setdefault(sha, number)
    for sha, commit in on_branch.items():
        if commit.committed_at in last:
            found.setdefault(sha, last[commit.committed_at] + 1)
    return found


def _below(sha: str, on_branch: Mapping[str, Commit]) -> set[str]:
    """A commit and those of its second that it is built upon."""
    found: set[str] = set()
    waiting = [sha]
    while waiting:
        each = waiting.pop()
        commit = on_branch.get(each)
        if each not in found and commit is not None and commit.committed_at == on_branch[sha].committed_at:
            found.add(each)
            waiting += commit.parents
    return found


def changes_since(ends: Sequence[TagEnd], spans: Sequence[TagSpan]) -> dict[str, Since]:
    """By tag what changed since the tag before."""
    names = ["", *(end.name for end in ends)]
    return {end.name: Since(spans[number], names[number]) for number, end in enumerate(ends)}


def chosen(tags: Sequence[Tag]) -> list[Tag]:
    """The tags that are milestones, oldest first: of very many only major and minor versions, or the newest."""
    ordered = sorted(tags, key=lambda tag: (tag.tagged_at, tag.name))
    if len(ordered) <= MANY:
        return ordered
    versions = [tag for tag in ordered if (found := _VERSION.match(tag.name)) and found[3] in (None, "0")]
    return (versions or ordered)[-MANY:]


def _milestone(repository: Repository, tag: Tag, since: Since | None, release: Item | None) -> FindingDraft:
    citations = [in_commit(tag.sha), FindingOrigin("tag", tag.name)]
    parts = []
    if release is not None:
        citations.append(FindingOrigin("release", release.number))
        parts.append(_notes(release))
    elif tag.message:
        parts.append(shortened(plain(tag.message), 600))
    if since is not None and since.span.commits:
        parts.append(_changes(since.span, since.tag, citations))
    return FindingDraft(
        kind="milestone",
        key=f"tag:{tag.name}",
        title=shortened(f"{repository.name} {tag.name}", 200),
        body=_signed(repository, parts, citations),
        citations=tuple(citations),
        at=tag.tagged_at,
    )


def _released(repository: Repository, item: Item) -> FindingDraft:
    citations = [FindingOrigin("release", item.number)]
    if item.commit:
        citations.append(in_commit(item.commit))
    return FindingDraft(
        kind="milestone",
        key=f"tag:{item.number}",
        title=shortened(f"{repository.name} {item.number}", 200),
        body=_signed(repository, [_notes(item)], citations),
        citations=tuple(citations),
        at=item.created_at,
    )


def _notes(release: Item) -> str:
    name = release.title if release.title and release.title != release.number else ""
    return shortened(": ".join(part for part in (name, plain(release.body)) if part), 900)


def _changes(span: TagSpan, before: str, citations: list[FindingOrigin]) -> str:
    """How much changed since the tag before, and the most telling commits."""
    commits = f"{span.commits:,} {'commit' if span.commits == 1 else 'commits'}"
    people = f"{len(span.people):,} {'person' if len(span.people) == 1 else 'people'}"
    since = f" since {before}" if before else " from the beginning"
    lines = [f"{commits} by {people}{since}:" if span.people else f"{commits}{since}:"]
    for _, _, sha, subject in sorted(span.subjects, key=lambda each: (-each[0], -each[1])):
        if is_fit(subject):
            lines.append(f"- {shortened(subject, 120)} ({sha[:7]})")
            citations.append(in_commit(sha))
    return "\n".join(lines)


def _signed(repository: Repository, parts: Sequence[str], citations: Sequence[FindingOrigin]) -> str:
    labels = ", ".join(citation.label for citation in citations[:3])
    note = f"Derived by Holdfast from the tags of {repository.slug}: {labels}."
    return "\n\n".join(part for part in (*parts, note) if part)
