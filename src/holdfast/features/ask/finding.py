"""Owns finding the sources of an answer: for each aspect what is about it, and where what it names came from."""

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.engines.search.text.analyser import words
from holdfast.features.ask.landmarks import Landmarks, is_of_the_whole
from holdfast.features.ask.people import people_behind
from holdfast.features.ask.question.aspects import Aspect, aspects_of, is_definition
from holdfast.features.ask.question.topic import action_of, topic_of
from holdfast.features.ask.question.wanted import wants_value
from holdfast.features.ask.ranking import LEAST_COVERED, is_background, is_record, ranked
from holdfast.features.ask.referred import with_referred
from holdfast.features.ask.sources import Evidence, commit_evidence, evidence_of, file_evidence
from holdfast.features.repositories.finding.names import names_in
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.history.entries import entry_id
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.model import COMMIT, FILE, Match, Repository
from holdfast.registry.precedence import KnowledgeKind, place_of_path
from holdfast.storage.database import Database

FOUND_EACH = 12
FOUND_OF_CHANGE = 24
"""More, for a change is told by one line of many about the same thing."""
LEAST_OF_NOTES = 0.15
MOST_NAMES = 2
LIKELY_FILES = 4
ANNOUNCED = 0.9
"""The share of the topic in the title of a commit that says that it brought it."""
INTRODUCTION_LINES = 80
MOST_CHANGES = 200
"""Of one file, whose first commit is looked for."""
MOST_RECORDS = 2
FIRST = "First commit that has"
READMES = ("README.md", "README.rst", "Readme.md", "readme.md", "README", "README.txt", "README.adoc", "docs/README.md")
_CALLED = re.compile(
    r"\b(?:the|of) `?(\w{3,})`? (?:function|class|method|type|option|parameter|decorator|module|setting|attribute|"
    r"action|hook|command|event|macro|trait|interface|struct|annotation|extractor|middleware|helper|property|field)\b"
)
_LICENSE = re.compile(r"\blicen[cs]\w*|permission is hereby granted", re.I)
_FLAG = re.compile(r"(?<![\w-])--\w[\w-]+")
_DOTTED = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#|->)[^\W\d]\w*)+")
_TELLING = re.compile(r"_\w|[a-z0-9][A-Z]|[A-Z]{2}[a-z]|^--|[.:#>]\w")
"""A name that is no word of English besides."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundFor:
    """What was found for an aspect: what answers it, best first, and what is like it besides."""

    aspect: Aspect
    best: Sequence[Evidence]
    others: Sequence[Evidence]

    @property
    def all(self) -> list[Evidence]:
        """Both, for a model that reads for itself."""
        return [*self.best, *self.others]


class SourceFinding:
    """Finds sources in the repositories that a question names."""

    def __init__(self, database: Database, finding: RepositoryFinding, files: LiveFiles) -> None:
        self._finding = finding
        self._files = files
        self._landmarks = Landmarks(database)
        self._database = database

    async def find(self, principal: Principal, repositories: Sequence[Repository], question: str) -> list[FoundFor]:
        """The sources for every aspect of the question."""
        slugs = [repository.slug for repository in repositories]
        names = frozenset(
            word for each in repositories for name in (each.slug, each.name) for word in words(name) if len(word) > 2
        ).union(each.slug.lower() for each in repositories)
        weights = await self._finding.telling(principal, slugs, question)
        aspects = [
            replace(aspect, topic=topic_of(aspect.text, _whole(aspect), weights, names))
            for aspect in aspects_of(question)
        ]
        return list(await asyncio.gather(*(self._about(principal, repositories, slugs, each) for each in aspects)))

    async def _about(
        self, principal: Principal, repositories: Sequence[Repository], slugs: Sequence[str], aspect: Aspect
    ) -> FoundFor:
        landmarks = await self._landmarks.of(repositories, aspect)
        found = await self._candidates(principal, repositories, slugs, aspect)
        best = ranked(aspect, found)
        if landmarks:
            # Notes of the very version may tell the day as well.
            is_of_version = aspect.kind == "when" and any(term.is_number for term in aspect.topic.terms)
            best = [*landmarks, *(each for each in best if each.version and is_of_version)]
            return FoundFor(aspect, best, found[:FOUND_EACH])
        first: list[Evidence] = []
        if aspect.is_of_origin:
            first = await self._origins(principal, repositories, aspect, found)
            first = first or await self._first_of_file(principal, aspect, found)
        elif aspect.kind == "who" and action_of(aspect.text) is None:
            # Who was the last to change lines says nothing of who removed, fixed or moved something.
            first = await people_behind(principal, best, self._files)
        elif _LICENSE.search(aspect.text):
            first = await self._licenses(principal, repositories)
        elif is_definition(aspect) and is_of_the_whole(aspect, repositories):
            first = await self._introductions(principal, repositories)
        if aspect.is_of_origin:
            announced = _announced(aspect, first, best)
            if first:
                # What came later is no beginning; notes name the version that brought it.
                best = [each for each in best if each.version] if aspect.kind == "when" else []
            first += announced
        if aspect.kind == "why":
            best = await self._with_background(principal, aspect, best)
        if not first:
            best = await with_referred(self._database, aspect, best)
        known = {(each.kind, each.address) for each in first}
        best = [*first, *(each for each in best if (each.kind, each.address) not in known)]
        kept = {id(each) for each in best}
        return FoundFor(aspect, best, [each for each in found if id(each) not in kept][:FOUND_EACH])

    async def _candidates(
        self, principal: Principal, repositories: Sequence[Repository], slugs: Sequence[str], aspect: Aspect
    ) -> list[Evidence]:
        """What is similar enough, with enough of the kinds of source that answer such a question."""
        limit = FOUND_OF_CHANGE if aspect.is_of_change else FOUND_EACH
        written = await self._landmarks.written(repositories)
        query, topic = aspect.query, " ".join(term.spelled or term.whole for term in aspect.topic.terms)
        matches = await self._finding.search(principal, slugs, query, limit=limit)
        if aspect.is_of_change:
            # The words of the asking ("in which version was") are in many texts and say nothing.
            query = topic if topic.strip() else query
            matches += await self._finding.search(principal, slugs, query, limit=limit)
        if aspect.types is not None and aspect.types != {FILE}:
            matches += await self._finding.search(principal, slugs, query, limit=limit // 2, types=aspect.types)
        if aspect.kind == "where":
            matches += await self._likely(principal, slugs, query)
        # A page without a version tells neither who nor when, and no page is where something is done.
        of_notes = written.notes if aspect.is_of_change or wants_value(aspect) else frozenset[str]()
        of_pages = frozenset[str]() if aspect.kind in ("who", "when", "version", "where") else written.documents
        if of_notes:
            # A section of notes has much besides the point that tells it, and so is little like the question; all
            # sections may be in one file.
            matches += await self._finding.search(
                principal, slugs, query, limit=limit, least=LEAST_OF_NOTES, within=of_notes, of_file=limit
            )
        if of_pages:
            matches += await self._finding.search(principal, slugs, query, limit=FOUND_EACH, within=of_pages)
        distinct = {(each.repository.id, each.source_id): evidence_of(each) for each in reversed(matches)}
        return list(reversed(distinct.values()))

    async def _likely(self, principal: Principal, slugs: Sequence[str], query: str) -> list[Match]:
        """Passages of the files that work on this is likely to touch, as alike as the file is likely."""
        files = await self._finding.files(principal, slugs, query, limit=LIKELY_FILES)
        found = []
        for file in files:
            entries = frozenset([entry_id(file.repository.id, file.path)])
            best = await self._finding.search(principal, slugs, query, limit=1, least=0.0, within=entries)
            found += [replace(each, similarity=max(each.similarity, min(1.0, file.score))) for each in best]
        return found

    async def _introductions(self, principal: Principal, repositories: Sequence[Repository]) -> list[Evidence]:
        """How each repository introduces itself; "What is Starlette?" is for its README to say."""
        found = []
        for repository in repositories:
            for path in READMES:
                try:
                    read = await self._files.read(principal, repository.slug, path, 1, INTRODUCTION_LINES)
                except HoldfastError:
                    # Called otherwise, or there is none; what a search found is left.
                    continue
                found.append(file_evidence(repository, path, read.text, 1, read.end_line, is_read=True))
                break
        return found

    async def _licenses(self, principal: Principal, repositories: Sequence[Repository]) -> list[Evidence]:
        """The line of each license that names it."""
        known = {repository.slug: repository for repository in repositories}
        found = []
        for slug, path in (await self._landmarks.written(repositories)).licenses:
            try:
                read = await self._files.read(principal, slug, path, 1, INTRODUCTION_LINES)
            except HoldfastError:
                # Gone since it was listed; what a search found is left.
                continue
            lines = enumerate(read.text.splitlines(), 1)
            named = next(((number, line) for number, line in lines if _LICENSE.search(line)), None)
            if named is not None:
                found.append(file_evidence(known[slug], path, named[1], named[0], named[0], is_read=True))
        return found

    async def _origins(
        self, principal: Principal, repositories: Sequence[Repository], aspect: Aspect, found: Sequence[Evidence]
    ) -> list[Evidence]:
        """The first commit that has what is named as code; not blame, which tells who touched it last."""
        texts = [f"{each.title}\n{each.text}" for each in found]
        known = [name for name in _names(aspect.query) if any(name in text for text in texts)][:MOST_NAMES]
        origins = []
        for repository in repositories:
            for name in known:
                try:
                    commit = await self._files.introduced(principal, repository.slug, name)
                except HoldfastError as problem:
                    # Commits that were found tell who worked on it as well.
                    _log.info("Where %r began in %s can't be told: %s", name, repository.slug, problem.message)
                    continue
                if commit is not None and (_TELLING.search(name) or name in commit.message):
                    origins.append(commit_evidence(repository, commit, f"{FIRST} {name}"))
                    break
        return origins

    async def _first_of_file(self, principal: Principal, aspect: Aspect, found: Sequence[Evidence]) -> list[Evidence]:
        """The first commit of the file that is called what is asked for: the INI decoder is `decoder_ini.go`."""
        called = [
            each
            for each in found
            if each.kind == FILE
            and place_of_path(each.key) == KnowledgeKind.CODE
            and len(aspect.topic.terms) > 1
            and aspect.topic.coverage(each.key.rpartition("/")[2]) >= ANNOUNCED
        ]
        for each in called[:1]:
            try:
                commits = await self._files.log(principal, each.repository.slug, each.key, limit=MOST_CHANGES)
            except HoldfastError:
                # As with names: commits that were found tell who worked on it as well.
                break
            if commits and len(commits) < MOST_CHANGES:
                return [commit_evidence(each.repository, commits[-1], f"First commit of {each.key}")]
        return []

    async def _with_background(self, principal: Principal, aspect: Aspect, best: Sequence[Evidence]) -> list[Evidence]:
        """The same with what the best record of a decision gives as its context, which is why it decided so."""
        record = next((each for each in best[:MOST_RECORDS] if is_record(each)), None)
        if record is None or is_background(record):
            return list(best)
        entries = frozenset([entry_id(record.repository.id, record.key)])
        slug, query = record.repository.slug, aspect.query
        matches = await self._finding.search(principal, [slug], query, limit=FOUND_EACH, least=0.0, within=entries)
        every = [replace(evidence_of(each), similarity=record.similarity) for each in matches]
        background = [each for each in every if is_background(each)][:1]
        known = {each.address for each in background}
        at = best.index(record) + 1
        return [*best[:at], *background, *(each for each in best[at:] if each.address not in known)]


def _announced(aspect: Aspect, origins: Sequence[Evidence], best: Sequence[Evidence]) -> list[Evidence]:
    """The oldest commit that says it brought this, where the first that has the name is about something else."""
    if any(aspect.topic.coverage(each.prose) >= LEAST_COVERED for each in origins):
        return []
    saying = [
        each
        for each in best
        if each.kind == COMMIT and aspect.topic.coverage(each.title) >= ANNOUNCED and aspect.topic.is_said(each.title)
    ]
    return sorted(saying, key=lambda each: each.at or 0)[:1]


def _names(query: str) -> list[str]:
    """What a question names as code, as it is looked for: `res.jsonp` whole, for jsonp may be a word of others."""
    dotted = {re.split(r"\W+", name)[-1]: name for name in _DOTTED.findall(query)}
    symbols = [symbol.text for symbol in names_in(query).symbols if not symbol.strict or symbol.whole]
    names = []
    for name in symbols:
        names += [name] if _TELLING.search(name) or name not in dotted else [dotted[name], name]
    return list(dict.fromkeys([*_FLAG.findall(query), *names, *_CALLED.findall(query)]))


def _whole(aspect: Aspect) -> str:
    """What it is about, with its own words where those of a part before it are searched for."""
    return aspect.query if aspect.text in aspect.query else f"{aspect.query} {aspect.text}"
