"""Owns finding the sources of an answer: for each aspect what is about it, and where what it names came from."""

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.engines.search.text.analyser import words
from holdfast.features.ask.aspects import Aspect, aspects_of
from holdfast.features.ask.people import people_behind
from holdfast.features.ask.ranking import ranked
from holdfast.features.ask.sources import Evidence, commit_evidence, evidence_of
from holdfast.features.ask.topic import topic_of
from holdfast.features.repositories.finding.names import names_in
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.model import Match, Repository

FOUND_EACH = 12
PREFERRED_EACH = 6
FOUND_OF_CHANGE = 24
"""More, for a change is told by one line of many about the same thing."""
MOST_NAMES = 2
FIRST = "First commit that has"
_CALLED = re.compile(r"\b(?:the|of) `?(\w{3,})`? (?:function|class|method|type|option|parameter|decorator|module)\b")
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

    def __init__(self, finding: RepositoryFinding, files: LiveFiles) -> None:
        self._finding = finding
        self._files = files

    async def find(self, principal: Principal, repositories: Sequence[Repository], question: str) -> list[FoundFor]:
        """The sources for every aspect of the question."""
        slugs = [repository.slug for repository in repositories]
        names = frozenset(
            word for each in repositories for name in (each.slug, each.name) for word in words(name) if len(word) > 2
        )
        weights = await self._finding.telling(principal, slugs, question)
        aspects = [
            replace(aspect, topic=topic_of(aspect.text, _whole(aspect), weights, names))
            for aspect in aspects_of(question)
        ]
        return list(await asyncio.gather(*(self._about(principal, repositories, slugs, each) for each in aspects)))

    async def _about(
        self, principal: Principal, repositories: Sequence[Repository], slugs: Sequence[str], aspect: Aspect
    ) -> FoundFor:
        found = await self._candidates(principal, slugs, aspect)
        best = ranked(aspect, found)
        first: list[Evidence] = []
        if aspect.is_of_origin:
            first = await self._origins(principal, repositories, aspect, found)
        elif aspect.kind == "who":
            first = await people_behind(principal, best, self._files)
        known = {(each.kind, each.address) for each in first}
        if first and aspect.is_of_origin:
            # What came later is no beginning; notes name the version that brought it.
            best = [each for each in best if each.version] if aspect.kind == "when" else []
        best = [*first, *(each for each in best if (each.kind, each.address) not in known)]
        kept = {id(each) for each in best}
        return FoundFor(aspect, best, [each for each in found if id(each) not in kept][:FOUND_EACH])

    async def _candidates(self, principal: Principal, slugs: Sequence[str], aspect: Aspect) -> list[Evidence]:
        """What is similar enough, with enough of the kinds of source that answer such a question."""
        limit = FOUND_OF_CHANGE if aspect.is_of_change else FOUND_EACH
        queries = [aspect.query]
        if aspect.is_of_change:
            # The words of the asking ("in which version was") are in many texts and say nothing.
            queries.append(" ".join(term.whole for term in aspect.topic.terms))
        elif not any(term.weight for term in aspect.topic.terms if term.whole not in _plain(slugs)):
            # "What is Starlette?" is for its introduction to say.
            queries.append("README")
        matches: list[Match] = []
        for query in filter(str.strip, queries):
            matches += await self._finding.search(principal, slugs, query, limit=limit)
            if aspect.types is not None:
                matches += await self._finding.search(principal, slugs, query, limit=limit // 2, types=aspect.types)
        distinct = {(each.repository.id, each.source_id): evidence_of(each) for each in reversed(matches)}
        return list(reversed(distinct.values()))

    async def _origins(
        self, principal: Principal, repositories: Sequence[Repository], aspect: Aspect, found: Sequence[Evidence]
    ) -> list[Evidence]:
        """The first commit that has what is named as code; not blame, which tells who touched it last."""
        texts = [f"{each.title}\n{each.text}" for each in found]
        names = [symbol.text for symbol in names_in(aspect.query).symbols if not symbol.strict or symbol.whole]
        names += _CALLED.findall(aspect.query)
        known = [name for name in dict.fromkeys(names) if any(name in text for text in texts)][:MOST_NAMES]
        origins = []
        for repository in repositories:
            for name in known:
                try:
                    commit = await self._files.introduced(principal, repository.slug, name)
                except HoldfastError as problem:
                    # Commits that were found tell who worked on it as well.
                    _log.info("Where %r began in %s can't be told: %s", name, repository.slug, problem.message)
                    continue
                if commit is not None:
                    origins.append(commit_evidence(repository, commit, f"{FIRST} {name}"))
        return origins


def _whole(aspect: Aspect) -> str:
    """What it is about, with its own words where those of a part before it are searched for."""
    return aspect.query if aspect.text in aspect.query else f"{aspect.query} {aspect.text}"


def _plain(slugs: Sequence[str]) -> frozenset[str]:
    return frozenset(word for slug in slugs for word in words(slug))
