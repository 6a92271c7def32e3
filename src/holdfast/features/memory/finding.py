"""Owns search across everything a workspace knows: which types there are, and one result per entity."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.model import Hit, Query
from holdfast.features.memory.wording import clean
from holdfast.features.workspaces.service import Workspaces

KNOWLEDGE = ("memory", "document", "artifact", "decision", "milestone", "case", "chat")
"""What people and agents wrote down here."""
REPOSITORY = ("commit", "file", "tag", "pull_request", "issue", "release", "discussion")
"""What repositories are remembered by; `repository` asks for all of it."""
TYPES = (*KNOWLEDGE, "repository", *REPOSITORY)
MAX_QUERY = 2_000
MAX_RESULTS = 50
RELATED = 0.3
"""From this score on a passage is about the query."""

_OTHER_NAMES = {
    "memories": "memory",
    "repositories": "repository",
    "repository_chunk": "repository",
    "repo": "repository",
    "code": "file",
    "pr": "pull_request",
    "chat_turn": "chat",
}
# A document is indexed in chunks, and several of one may match best.
_CHUNKS = 4


Named = Callable[[str, str], Awaitable[list[Hit]]]


class Finding:
    """Searches what people and agents wrote down, and what repositories hold, at once."""

    def __init__(self, workspaces: Workspaces, search: SearchEngine, named: Named | None = None) -> None:
        """`named` finds what a query names outright (a symbol, path, commit or number): that comes first."""
        self._workspaces = workspaces
        self._search = search
        self._named = named

    async def search(
        self,
        principal: Principal,
        workspace_id: str,
        query: str,
        *,
        types: Iterable[str] | None = None,
        limit: int = 10,
        as_of: int | None = None,
    ) -> list[Hit]:
        """The best passages for the query, at most one of each entity, best first."""
        principal.require_any("read", "inference")
        text = clean(query)
        if not text or len(text) > MAX_QUERY:
            problem = f"write what to look for, in 1 to {MAX_QUERY:,} characters"
            raise Invalid(f"The query cannot be used: {problem}.", fields=[FieldError("query", problem)])
        wanted = known_types(types)
        workspace = await self._workspaces.get(principal, workspace_id)
        most = min(limit, MAX_RESULTS)
        found = await best(self._search, Query(workspace.id, text, wanted, most * _CHUNKS, as_of), most)
        if self._named is None or as_of is not None or not _families(wanted)[1]:
            return found
        named = [hit for hit in await self._named(workspace.id, text) if wanted is None or hit.type in wanted]
        return _each_once([*named, *found])[:most]


async def best(search: SearchEngine, query: Query, limit: int) -> list[Hit]:
    """The best passage of each of the best entities; the query's own limit is how many passages are looked at."""
    noted, read = _families(query.types)
    if noted and read and await search.has_collections(query.workspace_id):
        # Each by itself: a repository has thousands of passages for each thing that somebody wrote down.
        written, kept = await asyncio.gather(
            search.search(replace(query, types=noted)), search.search(replace(query, types=read))
        )
        return merged(_each_once(written), _each_once(kept), limit)
    return _each_once(await search.search(query))[:limit]


def merged(noted: Sequence[Hit], read: Sequence[Hit], limit: int) -> list[Hit]:
    """What was written down and what repositories hold in one list, by score, which means the same for both.

    Passages of repositories take at most half of the places as long as what was written down is about the query.
    """
    related = sum(hit.score >= RELATED for hit in noted)
    room = limit - min(related, (limit + 1) // 2)
    return sorted([*noted, *read[:room]], key=lambda hit: -hit.score)[:limit]


def known_types(types: Iterable[str] | None) -> frozenset[str] | None:
    """The types asked for, plural or singular; None for all of them, Invalid for one that does not exist."""
    found: set[str] = set()
    for word in types or ():
        name = word.strip().lower()
        name = _OTHER_NAMES.get(name, name if name in TYPES else name.removesuffix("s"))
        name = _OTHER_NAMES.get(name, name)
        if name not in TYPES:
            problem = f"{word[:40]!r} is not one of {', '.join(TYPES)}"
            raise Invalid(f"A type cannot be searched: {problem}.", fields=[FieldError("types", problem)])
        found |= set(REPOSITORY) if name == "repository" else {name}
    return frozenset(found) or None


def _each_once(hits: Iterable[Hit]) -> list[Hit]:
    first: dict[tuple[str, str], Hit] = {}
    for hit in hits:
        first.setdefault((hit.type, hit.id), hit)
    return list(first.values())


def _families(wanted: frozenset[str] | None) -> tuple[frozenset[str], frozenset[str]]:
    noted, read = frozenset(KNOWLEDGE), frozenset(REPOSITORY)
    return (noted, read) if wanted is None else (noted & wanted, read & wanted)
