"""Owns search over repositories: what a query names comes first, then what it is about, in whichever workspace."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.principal import Principal
from holdfast.engines.search import Hit, Query, SearchEngine
from holdfast.features.repositories import store
from holdfast.features.repositories.finding import exact
from holdfast.features.repositories.finding.file_evidence import gathered
from holdfast.features.repositories.finding.file_ranking import rank_files
from holdfast.features.repositories.finding.matches import FileMatch, hit_of, match_of
from holdfast.features.repositories.finding.names import QueryNames, names_in
from holdfast.features.repositories.model import COMMIT, ENTRY_TYPES, FILE, Match, Repository
from holdfast.features.repositories.service import Repositories
from holdfast.registry.precedence import KnowledgeKind, is_about_tests, place_of_path
from holdfast.storage.database import Database, Tx

LEAST_SIMILARITY = 0.3
MOST_MATCHES = 12
MOST_PASSAGES_OF_FILE = 3
"""More of one file say little that its best do not, and push other files out."""
MOST_NAMED = 8
MOST_FILES = 10
MOST_PAST = 5
PASSAGES_LOOKED_AT = 150
PAST_LOOKED_AT = 80
PAST_TYPES = frozenset({COMMIT, "pull_request"})


class RepositoryFinding:
    """Finds passages and files of the repositories that a principal sees."""

    def __init__(self, database: Database, search: SearchEngine, repositories: Repositories, clock: Clock) -> None:
        self._database = database
        self._search = search
        self._repositories = repositories
        self._clock = clock

    async def search(
        self,
        principal: Principal,
        slugs: Sequence[str],
        query: str,
        *,
        limit: int = MOST_MATCHES,
        least: float = LEAST_SIMILARITY,
        types: frozenset[str] | None = None,
        within: frozenset[str] | None = None,
        of_file: int = MOST_PASSAGES_OF_FILE,
    ) -> list[Match]:
        """What the query names, then what is like it with at least that similarity, best first.

        `within` are entries of the search index, such as those of some files; then nothing is looked up by its name.
        `of_file` is how many passages of one file there may be.
        """
        repositories = await self._repositories.named(principal, slugs)
        text, names = query.strip(), names_in(query)
        if not text or limit < 1:
            return []
        named, alike = await asyncio.gather(
            self._named(repositories, names if within is None else QueryNames(), types),
            self._alike(repositories, text, types, limit, within),
        )
        best = max((match.similarity for match in alike), default=0.0)
        # What is named comes first, so nothing below it is shown as more alike.
        first = [replace(match, similarity=max(match.similarity, best)) for match in named]
        rest = (match for match in alike if match.similarity >= least)
        found = _distinct([*first, *rest], of_file)[:limit]
        # Which are shown is for their similarity to say; of those, tests come last.
        return sorted(found, key=lambda match: not match.exact and _is_test(text, match))

    async def named(self, workspace_id: str, query: str) -> list[Hit]:
        """What a query that is nothing but a name of code names in a workspace, whose reader is known already."""
        names = names_in(query)
        # A plain word, such as "decision", is more likely meant as that.
        if not names or (query.isalpha() and query[1:].islower()):
            return []

        def work(tx: Tx) -> list[Match]:
            repositories = store.of_workspace(tx, workspace_id)
            return [match for each in repositories for match in exact.matches(tx, self._search, each, names)]

        whole = [match for match in await self._database.read(work) if match.similarity >= 1]
        return [hit_of(match) for match in whole[:MOST_NAMED]]

    async def telling(self, principal: Principal, slugs: Sequence[str], text: str) -> dict[str, float]:
        """How much each word of a text tells in these repositories, rare ones most; those none has are left out."""
        repositories = await self._repositories.named(principal, slugs)
        queries = queries_for(repositories, text, None, 1)
        told: dict[str, float] = {}
        for weights in await asyncio.gather(*map(self._search.telling, queries)):
            # As much as where it tells least.
            told |= {word: min(weight, told.get(word, weight)) for word, weight in weights.items()}
        return told

    async def files(
        self, principal: Principal, slugs: Sequence[str], query: str, *, limit: int = MOST_FILES
    ) -> list[FileMatch]:
        """The files that work on this is likely to touch, likeliest first."""
        repositories = await self._repositories.named(principal, slugs)
        text, names = query.strip(), names_in(query)
        if not text or limit < 1:
            return []
        passages, past = await asyncio.gather(
            self._hits(repositories, text, frozenset({FILE}), PASSAGES_LOOKED_AT),
            self._hits(repositories, text, PAST_TYPES, PAST_LOOKED_AT),
        )

        def work(tx: Tx) -> list[FileMatch]:
            found = []
            for repository in repositories:
                named = exact.matches(tx, self._search, repository, names) if names else []
                evidence = gathered(tx, repository, self._clock.now(), passages, past, named)
                share = _share(repository, [*passages, *past]) if not named else 1.0
                found += [
                    FileMatch(repository, file.path, file.score * share, file.reasons, file.past[:MOST_PAST])
                    for file in rank_files(evidence, limit)
                ]
            return sorted(found, key=lambda file: -file.score)[:limit]

        return await self._database.read(work)

    async def _hits(
        self,
        repositories: Sequence[Repository],
        text: str,
        types: frozenset[str] | None,
        limit: int,
        within: frozenset[str] | None = None,
    ) -> list[Hit]:
        queries = queries_for(repositories, text, types, limit, within)
        return [hit for found in await asyncio.gather(*map(self._search.search, queries)) for hit in found]

    async def _named(
        self, repositories: Sequence[Repository], names: QueryNames, types: frozenset[str] | None
    ) -> list[Match]:
        if not names:
            return []
        found = await self._database.read(
            lambda tx: [
                match
                for repository in repositories
                for match in exact.matches(tx, self._search, repository, names)
                if types is None or match.type in types
            ]
        )
        # The order within a repository stays: it is the order of the query's own certainty.
        return sorted(found, key=lambda match: -match.similarity)[:MOST_NAMED]

    async def _alike(
        self,
        repositories: Sequence[Repository],
        text: str,
        types: frozenset[str] | None,
        limit: int,
        within: frozenset[str] | None,
    ) -> list[Match]:
        known = {repository.id: repository for repository in repositories}
        hits = await self._hits(repositories, text, types, limit * 3, within)
        matches = [match_of(known[hit.collection], hit, hit.score) for hit in hits if hit.collection in known]
        return sorted(matches, key=lambda match: -match.similarity)


def queries_for(
    repositories: Sequence[Repository],
    text: str,
    types: frozenset[str] | None,
    limit: int,
    within: frozenset[str] | None = None,
) -> list[Query]:
    """One query for each workspace that the repositories are in."""
    by_workspace: dict[str, set[str]] = {}
    for repository in repositories:
        by_workspace.setdefault(repository.workspace_id, set()).add(repository.id)
    wanted = frozenset(ENTRY_TYPES) if types is None else types & frozenset(ENTRY_TYPES)
    return [
        Query(workspace_id, text, types=wanted, limit=limit, ids=within, collections=frozenset(ids), snippets=False)
        for workspace_id, ids in sorted(by_workspace.items())
    ]


def _is_test(query: str, match: Match) -> bool:
    if not match.path or is_about_tests(query):
        return False
    return place_of_path(match.path) == KnowledgeKind.TEST


def _share(repository: Repository, hits: Sequence[Hit]) -> float:
    """How good a repository's best hit is beside the best of all; its files are ranked among each other only."""
    best = max((hit.score for hit in hits), default=0.0)
    own = max((hit.score for hit in hits if hit.collection == repository.id), default=0.0)
    return own / best if best > 0 else 1.0


def _distinct(matches: Iterable[Match], most_of_file: int) -> list[Match]:
    """Each passage once, copies of a text once for a repository, and few of one file."""
    found: list[Match] = []
    seen: set[tuple[str, str]] = set()
    of_file: Counter[tuple[str, str]] = Counter()
    for match in matches:
        repository_id = match.repository.id
        keys = {(repository_id, match.source_id), (repository_id, match.content)}
        if seen & keys or (match.path and of_file[repository_id, match.path] >= most_of_file):
            continue
        seen |= keys
        of_file[repository_id, match.path] += 1
        found.append(match)
    return found
