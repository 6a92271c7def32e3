"""Owns the kinds of things that a workspace holds: how each is named, found, shown and let go of."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from holdfast.core.access import READ, Access
from holdfast.engines.search.model import Hit
from holdfast.storage.database import Tx


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of what the workspace knows, from whichever feature."""

    type: str
    id: str
    title: str
    text: str
    at: int
    status: str = ""
    collection: str = ""
    """What search calls everything that was read of it."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """Something that holds work up, and why."""

    type: str
    id: str
    title: str
    reason: str
    since: int


@dataclass(frozen=True, slots=True)
class Tie:
    """How an entity is tied to another of its type, in the words of relations."""

    from_id: str
    relation: str
    to_id: str
    at: int


TitleOf = Callable[[Tx, str, str], str | None]
"""The title of the entity with that id in a workspace; None where there is none."""
RecentOf = Callable[[Tx, str, int], Sequence[Source]]
"""The newest of a workspace's entities of one type."""
BlockersOf = Callable[[Tx, str], Sequence[Blocker]]
"""What holds work up in a workspace, of one type."""
TiesOf = Callable[[Tx, str, Sequence[str], int], Sequence[Tie]]
"""The ties that some entities of a workspace have at either end, at most so many."""
Forgotten = Callable[[Tx, str, str, str], None]
"""Told the workspace, the type and the id of what goes, in the same transaction, while it is still there."""
IdOf = Callable[[Tx, str, str], str | None]
"""The id of a workspace's entity by the name that people and agents are shown: its slug or identifier."""
Named = Callable[[str, str], Awaitable[list[Hit]]]
"""What a query names outright in a workspace: a symbol, a path, a commit, a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityType:
    """One kind of thing that a workspace holds."""

    name: str
    title: TitleOf | None = None
    """How relations name one; None where nothing can be related to it."""
    id_of: IdOf | None = None
    """How one is found by its slug; None where it has none, or the slug is its id."""
    recent: RecentOf | None = None
    """What the brief, the graph and analyses show of it."""
    blockers: BlockersOf | None = None
    """Those of it that hold work up now."""
    ties: TiesOf | None = None
    """How its entities are tied to each other, beside the relations that anybody tells."""
    searched: Literal["written", "read"] | None = "written"
    """Whether the index holds what people and agents wrote down, what was read from repositories, or nothing of it."""
    part_of: str | None = None
    """The wider type that asks for this one too: commits and files are parts of a repository."""
    other_names: tuple[str, ...] = ()
    """What callers also call it."""
    access: Access = READ
    """What seeing one takes."""


class Entities:
    """Every type of entity, and what follows when one goes. Loaded when first used: most commands never ask."""

    def __init__(
        self,
        types: Callable[[], Iterable[EntityType]],
        forgotten: Callable[[], Sequence[Forgotten]],
        named: Callable[[], Sequence[Named]],
    ) -> None:
        self._types = types
        self._forgotten = forgotten
        self._named = named

    @cached_property
    def types(self) -> dict[str, EntityType]:
        """The types by name, in the features' order."""
        return {each.name: each for each in self._types()}

    @cached_property
    def titles(self) -> dict[str, TitleOf]:
        """How each type that can be related is named."""
        return {name: each.title for name, each in self.types.items() if each.title is not None}

    @cached_property
    def slugs(self) -> dict[str, IdOf]:
        """How each type that can be related is found by its slug."""
        return {name: each.id_of for name, each in self.types.items() if each.id_of is not None}

    @cached_property
    def recent(self) -> dict[str, RecentOf]:
        """The newest of each type that is shown by what is new."""
        return {name: each.recent for name, each in self.types.items() if each.recent is not None}

    @cached_property
    def blockers(self) -> tuple[BlockersOf, ...]:
        """What holds work up, as each feature sees it."""
        return tuple(each.blockers for each in self.types.values() if each.blockers is not None)

    @cached_property
    def ties(self) -> dict[str, TiesOf]:
        """How entities of a type are tied to each other, where they are."""
        return {name: each.ties for name, each in self.types.items() if each.ties is not None}

    @cached_property
    def written(self) -> tuple[str, ...]:
        """What people and agents wrote down here."""
        return tuple(name for name, each in self.types.items() if each.searched == "written")

    @cached_property
    def read(self) -> tuple[str, ...]:
        """What was read from repositories."""
        return tuple(name for name, each in self.types.items() if each.searched == "read")

    @cached_property
    def searchable(self) -> tuple[str, ...]:
        """What a search can be narrowed to: what the index holds, and wider types that ask for their parts."""
        wider = {each.part_of for each in self.types.values()}
        return tuple(name for name, each in self.types.items() if each.searched or name in wider)

    def searched_as(self, word: str) -> frozenset[str]:
        """The indexed types that a word asks for, in its singular, plural or another name; none where it is no type."""
        name = self._names.get(word) or self._names.get(word.removesuffix("s"))
        if name is None:
            return frozenset()
        parts = frozenset(each.name for each in self.types.values() if each.part_of == name)
        return parts or frozenset({name})

    @cached_property
    def _names(self) -> dict[str, str]:
        names = {name: name for name in self.searchable}
        return names | {other: name for name in self.searchable for other in self.types[name].other_names}

    def forget(self, tx: Tx, workspace_id: str, type: str, id: str) -> None:
        """Let every feature that refers to an entity know that it goes, in the transaction that removes it."""
        for forgotten in self._forgotten():
            forgotten(tx, workspace_id, type, id)

    async def named(self, workspace_id: str, query: str) -> list[Hit]:
        """What the query names outright."""
        return [hit for find in self._named() for hit in await find(workspace_id, query)]
