"""Owns the rules of conversations: who sees one, its items, and what a response adds to it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.engines.llm.model import Json
from holdfast.features.audit.service import Audit
from holdfast.features.responses.conversations import store
from holdfast.features.responses.conversations.model import (
    Conversation,
    ConversationItemNotFound,
    ConversationNotFound,
    checked_metadata,
    wrong,
)
from holdfast.features.responses.items import input_items
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx


@dataclass(frozen=True, slots=True)
class ConversationPlace:
    """Who asks for which conversation, and where it should be."""

    principal: Principal
    project_id: str
    workspace_id: str | None
    """The workspace that the request names; without one any that the principal sees."""
    id: str = ""


class ConversationService:
    """The conversations of an installation."""

    def __init__(self, database: Database, audit: Audit, workspaces: Workspaces, clock: Clock) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._clock = clock

    async def create(self, place: ConversationPlace, workspace_id: str, items: Any, metadata: Any) -> Conversation:
        """A new conversation, with these items in it."""
        place.principal.require("inference")
        given, pairs = [] if items is None else _items(items), checked_metadata(metadata)

        def work(tx: Tx) -> Conversation:
            workspace = self._workspaces.check(tx, place.principal, workspace_id)
            new = Conversation(new_id("conv"), workspace.id, place.project_id, pairs, self._clock.now())
            store.insert(tx, new)
            store.append(tx, new.id, given)
            return new

        return await self._database.write(work)

    async def get(self, place: ConversationPlace) -> Conversation:
        """One conversation."""
        place.principal.require_any("read", "inference")
        return await self._database.read(lambda tx: self.found(tx, place))

    async def update(self, place: ConversationPlace, metadata: Any) -> Conversation:
        """Give it other metadata."""
        place.principal.require("inference")
        pairs = checked_metadata(metadata)

        def work(tx: Tx) -> Conversation:
            found = self.found(tx, place)
            store.set_metadata(tx, found.id, pairs)
            return replace(found, metadata=pairs)

        return await self._database.write(work)

    async def delete(self, place: ConversationPlace) -> None:
        """Forget it with its items; responses that were made in it stay."""
        place.principal.require("inference")

        def work(tx: Tx) -> None:
            found = self.found(tx, place)
            store.delete(tx, found.id)
            self._audit.record(
                tx,
                place.principal,
                "conversation.delete",
                resource="conversation",
                resource_id=found.id,
                workspace_id=found.workspace_id,
            )

        await self._database.write(work)

    async def items(
        self, place: ConversationPlace, *, limit: int, after: str | None, descending: bool
    ) -> tuple[Sequence[Json], bool]:
        """Its items, and whether there are more."""
        place.principal.require_any("read", "inference")

        def work(tx: Tx) -> list[Json]:
            found = self.found(tx, place)
            if after is not None and store.find_item(tx, found.id, after) is None:
                raise ConversationItemNotFound(after)
            return store.items(tx, found.id, after=after, descending=descending, limit=limit + 1)

        found = await self._database.read(work)
        return found[:limit], len(found) > limit

    async def add(self, place: ConversationPlace, items: Any) -> Sequence[Json]:
        """Add items at its end."""
        place.principal.require("inference")
        given = _items(items)

        def work(tx: Tx) -> None:
            store.append(tx, self.found(tx, place).id, given)

        await self._database.write(work)
        return given

    async def item(self, place: ConversationPlace, item_id: str) -> Json:
        """One item."""
        place.principal.require_any("read", "inference")

        def work(tx: Tx) -> Json:
            found = store.find_item(tx, self.found(tx, place).id, item_id)
            if found is None:
                raise ConversationItemNotFound(item_id)
            return found

        return await self._database.read(work)

    async def delete_item(self, place: ConversationPlace, item_id: str) -> Conversation:
        """Take an item out."""
        place.principal.require("inference")

        def work(tx: Tx) -> Conversation:
            found = self.found(tx, place)
            if not store.delete_item(tx, found.id, item_id):
                raise ConversationItemNotFound(item_id)
            return found

        return await self._database.write(work)

    def found(self, tx: Tx, place: ConversationPlace) -> Conversation:
        """The conversation, where the caller sees it; for turns, within their transaction."""
        found = store.find(tx, place.project_id, place.id)
        if found is None or not place.principal.sees_workspace(found.workspace_id):
            raise ConversationNotFound(place.id)
        if place.workspace_id not in (None, found.workspace_id):
            raise ConversationNotFound(place.id)
        self._workspaces.check(tx, place.principal, found.workspace_id)
        return found


def _items(given: Any) -> list[Json]:
    items = input_items(given, "items")
    for number, item in enumerate(items):
        if item["type"] == "item_reference":
            raise wrong(f"items[{number}]", "send the item itself")
    return items
