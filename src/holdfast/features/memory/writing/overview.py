"""Owns what surrounds memories: their categories and tags, which took whose place, what each said at a moment."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.principal import Principal
from holdfast.features.memory import store
from holdfast.features.memory.model import Filters, Memory, MemoryNotFound
from holdfast.features.memory.writing.draft import as_written
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

_MOST = 20


@dataclass(frozen=True, slots=True)
class Facets:
    """How many memories have each category and each tag, the most first."""

    categories: tuple[tuple[str, int], ...]
    tags: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Lineage:
    """The memories whose place one took, and the one that took its own."""

    before: tuple[Memory, ...]
    after: Memory | None


class MemoryOverview:
    """Reads around memories; it changes nothing."""

    def __init__(self, database: Database, workspaces: Workspaces) -> None:
        self._database = database
        self._workspaces = workspaces

    async def facets(self, principal: Principal, workspace_id: str, filters: Filters) -> Facets:
        """What a list of memories could be narrowed to."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Facets:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            categories, tags = store.facets(tx, workspace.id, filters)
            return Facets(_most(categories), _most(tags))

        return await self._database.read(work)

    async def lineage(self, principal: Principal, workspace_id: str, memory_id: str) -> Lineage:
        """What stood in a memory's place before it, and what stands there now."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Lineage:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            found = store.find(tx, workspace.id, memory_id)
            if found is None:
                raise MemoryNotFound(memory_id)
            after = store.find(tx, workspace.id, found.superseded_by) if found.superseded_by else None
            return Lineage(tuple(store.replaced_by(tx, workspace.id, found.id)), after)

        return await self._database.read(work)


def _most(counted: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counted.items(), key=lambda each: (-each[1], each[0]))[:_MOST])


def worded(tx: Tx, found: Sequence[Memory], as_of: int | None) -> list[Memory]:
    """Each memory in the words it had at the moment asked about."""
    if as_of is None:
        return list(found)
    kept = store.revisions(tx, [each.id for each in found if each.revision > 1])
    return [as_written(each, kept[each.id], as_of) if each.id in kept else each for each in found]
