"""Owns what is asked of a repository as a whole: its first and last commit, its releases, its notes and documents."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from holdfast.engines.search.text.analyser import words
from holdfast.features.ask.question.aspects import Aspect
from holdfast.features.ask.ranking import is_document, is_notes
from holdfast.features.ask.sources import Evidence, commit_evidence, tag_evidence
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.history.entries import entry_id
from holdfast.features.repositories.model import Repository
from holdfast.storage.database import Database, Tx

MOST_DOCUMENTS = 300
MOST_KEPT = 64
"""Repositories whose documents are remembered."""
MOST_RELEASES = 3
MOST_AUTHORS = 5
MOSTLICENSES = 3

_THIS = r"(?:this|the)\s+(?:project|repo\w*|codebase|library|package|framework|tool|crate|gem)"
_FIRST_COMMIT = re.compile(
    r"\b(?:first|initial|oldest|earliest|root)\s+(?:ever\s+)?commit\b|\bcommit\w*\s+first\b"
    rf"|\b(?:start|creat|found|beg[ua]n|launch|invent)\w*\s+{_THIS}|{_THIS}\s+(?:start|creat|found|beg[ua]n|launch)",
    re.I,
)
_LAST_COMMIT = re.compile(r"\b(?:last|latest|newest|most\s+recent)\s+commit\b|\bcommit\w*\s+last\b", re.I)
_LAST_RELEASE = re.compile(
    r"\b(?:last|latest|newest|current|most\s+recent)\s+(?:stable\s+)?(?:version|release|tag)\b|\blast\s+released\b",
    re.I,
)
_FIRST_RELEASE = re.compile(
    r"\b(?:first|initial|oldest|earliest)\s+(?:public\s+|stable\s+)?(?:version|release|tag)\b|\bfirst\s+released\b",
    re.I,
)
_CONTRIBUTORS = re.compile(
    r"\bcontribut\w*|\bmaintain(?:s|ers?|ed)?\b|\b(?:most|main|chief|top)\s+(?:active\s+)?(?:authors?|developers?|committers?)\b"
    r"|\bwr(?:ote|itten|ites)\s+(?:the\s+)?most\b",
    re.I,
)
_RELEASED = re.compile(r"\b(?:releas\w+|publish\w*|c[oa]me\s+out|shipp?\w*|tagged|out)\b", re.I)
_NUMBER = re.compile(r"\d+(?:\.\d+)+(?:[-.]?(?:rc|alpha|beta|pre|dev|a|b)[-.]?\d*)?|(?<=\bv)\d+\b", re.I)
_OF_PEOPLE = frozenset(
    words("active main chief top biggest contributor maintainer maintain contribute developer author project")
)
LICENSE = re.compile(r"(?:licen[cs]e|copying)[\w.-]*", re.I)
_UNFINISHED = re.compile(r"rc|alpha|beta|pre|dev|nightly|snapshot|\d[ab]\d", re.I)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The entries of a repository's files that were written for people."""

    notes: frozenset[str]
    documents: frozenset[str]
    licenses: tuple[tuple[str, str], ...] = ()
    """The slug of a repository with the path of a license in it."""


class Landmarks:
    """Looks up what stands for a whole repository."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written: dict[tuple[str, str], WrittenFiles] = {}

    async def of(self, repositories: Sequence[Repository], aspect: Aspect) -> list[Evidence]:
        """What answers an aspect that asks for such a thing; nothing for any other."""
        text = aspect.text
        if aspect.kind in ("who", "when", "what"):
            if _FIRST_COMMIT.search(text):
                return await self._each(repositories, _first_commit)
            if _LAST_COMMIT.search(text):
                return await self._each(repositories, _last_commit)
        if aspect.kind == "who" and _CONTRIBUTORS.search(text) and is_of_the_whole(aspect, repositories):
            return await self._each(repositories, _authors)
        if aspect.kind in ("when", "version", "what"):
            if _LAST_RELEASE.search(text):
                return await self._each(repositories, _latest)
            if _FIRST_RELEASE.search(text):
                return await self._each(repositories, _earliest)
        if aspect.kind == "when" and _RELEASED.search(text) and all(term.is_number for term in aspect.topic.terms):
            wanted = _NUMBER.findall(text)
            return await self._each(repositories, lambda tx, each: _tagged(tx, each, wanted))
        return []

    async def written(self, repositories: Sequence[Repository]) -> WrittenFiles:
        """The notes and documents of the repositories, as their heads have them."""
        found = []
        for repository in repositories:
            key = (repository.id, repository.head)
            if key not in self._written:
                if len(self._written) >= MOST_KEPT:
                    self._written.clear()
                self._written[key] = await self._database.read(partial(_written, repository))
            found.append(self._written[key])
        return WrittenFiles(
            frozenset[str]().union(*(each.notes for each in found)),
            frozenset[str]().union(*(each.documents for each in found)),
            tuple(license for each in found for license in each.licenses),
        )

    async def _each(
        self, repositories: Sequence[Repository], look: Callable[[Tx, Repository], list[Evidence]]
    ) -> list[Evidence]:
        return await self._database.read(lambda tx: [found for each in repositories for found in look(tx, each)])


def is_of_the_whole(aspect: Aspect, repositories: Sequence[Repository]) -> bool:
    """Whether it is about nothing but the repositories."""
    own = frozenset(word for each in repositories for name in (each.slug, each.name) for word in words(name))
    return all(term.whole in own or term.whole in _OF_PEOPLE for term in aspect.topic.terms)


def _first_commit(tx: Tx, repository: Repository) -> list[Evidence]:
    commit = history_store.first_commit(tx, repository.id)
    return [] if commit is None else [commit_evidence(repository, commit, "First commit")]


def _last_commit(tx: Tx, repository: Repository) -> list[Evidence]:
    newest = history_store.page_commits(tx, repository.id, limit=1)
    return [commit_evidence(repository, commit, "Latest commit") for commit in newest]


def _authors(tx: Tx, repository: Repository) -> list[Evidence]:
    """Who wrote most, each with a commit that shows it."""
    every = history_store.authors(tx, repository.id, MOST_AUTHORS * 2)
    listed = [row for row in every if not row[0].endswith("[bot]")][:MOST_AUTHORS]
    shown = {each.sha: each for each in history_store.commits(tx, repository.id, [one for _, _, one in listed])}
    return [
        commit_evidence(repository, shown[one], f"Wrote {written:,} of {repository.commits:,} commits, one of them")
        for _, written, one in listed
    ]


def _written(repository: Repository, tx: Tx) -> WrittenFiles:
    every = [file.path for file in history_store.files(tx, repository.id)]
    paths = sorted(filter(is_document, every), key=lambda path: (path.count("/"), path))
    notes = [path for path in paths if is_notes(path)]
    documents = [path for path in paths if not is_notes(path)][:MOST_DOCUMENTS]
    licenses = [path for path in sorted(every) if LICENSE.fullmatch(path)][:MOSTLICENSES]
    return WrittenFiles(
        frozenset(entry_id(repository.id, path) for path in notes),
        frozenset(entry_id(repository.id, path) for path in documents),
        tuple((repository.slug, path) for path in licenses),
    )


def _latest(tx: Tx, repository: Repository) -> list[Evidence]:
    tags = [tag for tag in history_store.tags(tx, repository.id) if _NUMBER.search(tag.name)]
    finished = [tag for tag in tags if not _UNFINISHED.search(tag.name)]
    return [tag_evidence(repository, tag) for tag in (finished or tags)[:1]]


def _earliest(tx: Tx, repository: Repository) -> list[Evidence]:
    tags = [tag for tag in history_store.tags(tx, repository.id) if _NUMBER.search(tag.name)]
    return [tag_evidence(repository, tag) for tag in tags[-1:]]


def _tagged(tx: Tx, repository: Repository, wanted: Sequence[str]) -> list[Evidence]:
    """The tags of these versions; that of 5.0 may be called 5.0.0, and express-5.0.0 too."""
    found = []
    for number in wanted:
        spellings = {number.lower(), f"{number}.0", f"{number}.0.0"}
        for tag in history_store.tags(tx, repository.id):
            named = _NUMBER.search(tag.name)
            if named is not None and named[0].lower() in spellings and tag.name.endswith(named[0]):
                found.append(tag_evidence(repository, tag))
    return found[:MOST_RELEASES]
