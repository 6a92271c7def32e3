"""Owns what a new memory is compared with: by meaning, or by words alone while there is no vector of it."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.model import Query
from holdfast.features.memory import chats, store
from holdfast.features.memory.model import CHAT_ENTITY, ENTITY, Contradiction, Memory
from holdfast.features.memory.writing import likeness
from holdfast.storage.database import Database

NEIGHBOURS = 8
NEIGHBOURS_BY_WORDS = 24
"""More than by meaning: a common word brings many that are about something else."""
IN_CHATS = 64
"""How many memories of all chats are looked at for those of one."""
MAX_CONTRADICTIONS = 5


@dataclass(frozen=True, slots=True)
class Compared:
    """The memory that a text repeats, or else those that it seems to change."""

    repeated: Memory | None = None
    contradicts: list[Contradiction] = field(default_factory=list)


class MemoryComparison:
    """Holds a text against the memories that a chat, or everybody, sees."""

    def __init__(self, database: Database, search: SearchEngine) -> None:
        self._database = database
        self._search = search

    async def of(
        self,
        workspace_id: str,
        content: str,
        vector: NDArray[np.float32] | None,
        chat_id: str | None,
        *,
        but: str = "",
    ) -> Compared:
        """By meaning where there is a vector, otherwise by words; with every memory `but` that of an id."""
        if vector is None:
            return await self._by_words(workspace_id, content, chat_id, but)
        return await self.by_meaning(workspace_id, content, vector, chat_id, but=but)

    async def by_meaning(
        self,
        workspace_id: str,
        content: str,
        vector: NDArray[np.float32],
        chat_id: str | None,
        newest: Memory | None = None,
        but: str = "",
    ) -> Compared:
        """Against the memories nearest to its vector, of those that came before `newest` where that is given."""
        nearest = await self._search.nearest(workspace_id, frozenset({ENTITY}), vector, NEIGHBOURS)
        if chat_id:
            nearest += await self._search.nearest(workspace_id, frozenset({CHAT_ENTITY}), vector, IN_CHATS)
        alike = {id: cosine for id, cosine in nearest if cosine >= likeness.SAME_SUBJECT and id != but}
        return await self._compared(workspace_id, content, alike, chat_id, newest)

    async def _by_words(self, workspace_id: str, content: str, chat_id: str | None, but: str) -> Compared:
        """Against the memories that share words with it: sees what is said in the same words of the same subject."""
        query = Query(workspace_id, content, types=frozenset({ENTITY}), limit=NEIGHBOURS_BY_WORDS, snippets=False)
        hits = await self._search.search_words(query)
        if chat_id:
            hits += await self._search.search_words(chats.of_chat(query, chat_id))
        alike = {hit.id: likeness.BY_WORDS for hit in hits if hit.id != but}
        return await self._compared(workspace_id, content, alike, chat_id, None)

    async def _compared(
        self, workspace_id: str, content: str, alike: dict[str, float], chat_id: str | None, newest: Memory | None
    ) -> Compared:
        if not alike:
            return Compared()
        rows = await self._database.read(lambda tx: store.by_ids(tx, workspace_id, list(alike)))
        reading = likeness.read(content)
        contradicts = []
        for id, cosine in alike.items():
            memory = rows.get(id)
            if memory is None or memory.status != "current" or not chats.sees(chat_id, memory):
                continue
            if newest is not None and (memory.learned_at, memory.id) >= (newest.learned_at, newest.id):
                continue
            other = likeness.read(memory.content)
            if likeness.repeats(reading, other, cosine):
                return Compared(memory)
            reason = likeness.contradiction(reading, other, cosine)
            if reason is not None:
                contradicts.append(Contradiction(memory, reason, cosine))
        return Compared(None, contradicts[:MAX_CONTRADICTIONS])
