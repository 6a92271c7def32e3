"""Owns search across everything a workspace knows: which types there are, and one result per entity."""

from collections.abc import Iterable

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.model import Hit, Query
from holdfast.features.memory.wording import clean
from holdfast.features.workspaces.service import Workspaces

TYPES = ("memory", "document", "artifact", "decision", "milestone", "repository", "case", "chat")
MAX_QUERY = 2_000
MAX_RESULTS = 50

_PLURALS = {
    "memories": "memory",
    "repositories": "repository",
    "repository_chunk": "repository",
    "repo": "repository",
    "code": "repository",
    "chat_turn": "chat",
}
# A document is indexed in chunks, and several of one may match best.
_CHUNKS = 4


class Finding:
    """Searches memories, documents, artifacts, decisions, milestones, repositories, cases and chats at once."""

    def __init__(self, workspaces: Workspaces, search: SearchEngine) -> None:
        self._workspaces = workspaces
        self._search = search

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
        hits = await self._search.search(
            Query(workspace.id, text, types=wanted, limit=min(limit, MAX_RESULTS) * _CHUNKS, as_of=as_of)
        )
        best: dict[tuple[str, str], Hit] = {}
        for hit in hits:
            best.setdefault((hit.type, hit.id), hit)
        return list(best.values())[:limit]


def known_types(types: Iterable[str] | None) -> frozenset[str] | None:
    """The types asked for, plural or singular; None for all of them, Invalid for one that does not exist."""
    found = set()
    for word in types or ():
        name = word.strip().lower()
        name = _PLURALS.get(name, name if name in TYPES else name.removesuffix("s"))
        if name not in TYPES:
            problem = f"{word[:40]!r} is not one of {', '.join(TYPES)}"
            raise Invalid(f"A type cannot be searched: {problem}.", fields=[FieldError("types", problem)])
        found.add(name)
    return frozenset(found) or None
