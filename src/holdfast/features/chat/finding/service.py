"""Owns finding chats again: the last used of every workspace that one sees, and messages by their words."""

from collections.abc import Sequence

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.features.chat.finding import store
from holdfast.features.chat.finding.words import place_of, wanted
from holdfast.features.chat.model import Chat, FoundMessage
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

MAX_QUERY = 1_000
SNIPPET_CHARACTERS = 220


class ChatFinding:
    """Looks for chats by when they were used, and by what was said in them."""

    def __init__(self, database: Database, workspaces: Workspaces) -> None:
        self._database = database
        self._workspaces = workspaces

    async def recent(self, principal: Principal, *, limit: int = 50, cursor: str | None = None) -> Page[Chat]:
        """Chats of every workspace that the principal sees, the last used first."""
        principal.require_any("read", "inference")
        workspaces = await self._seen(principal, None)
        position = decode_cursor(cursor, int, str, str) if cursor else None

        def work(tx: Tx) -> Page[Chat]:
            rows = store.recent(tx, workspaces, position, limit + 1)
            return page_of(rows, limit, lambda row: [row.updated_at, row.workspace_id, row.id])

        return await self._database.read(work)

    async def search(
        self,
        principal: Principal,
        text: str,
        *,
        workspace_id: str | None = None,
        limit: int = 30,
        cursor: str | None = None,
    ) -> Page[FoundMessage]:
        """Messages and titles that have every one of these words or a longer one that begins with it, newest first.

        Words of a chat's title count for its messages that have at least one of the words themselves.
        """
        principal.require_any("read", "inference")
        if not text.strip():
            problem = "write at least one word"
            raise Invalid("There is nothing to look for.", fields=[FieldError("q", problem)])
        workspaces = await self._seen(principal, workspace_id)
        before = int(decode_cursor(cursor, int)[0]) if cursor else None
        words = wanted(text[:MAX_QUERY])
        if not words:
            return Page([])

        def work(tx: Tx) -> Page[FoundMessage]:
            rows = page_of(store.search(tx, workspaces, words, before, limit + 1), limit, lambda row: [row.place])
            return rows.map(lambda row: FoundMessage(row.chat, row.id, row.role, _snippet(row.text, words), row.at))

        return await self._database.read(work)

    async def _seen(self, principal: Principal, workspace_id: str | None) -> Sequence[str]:
        if workspace_id is not None:
            return [(await self._workspaces.get(principal, workspace_id)).id]
        return await self._workspaces.ids(principal)


def _snippet(text: str, words: Sequence[str]) -> str:
    """The text around the first word that is looked for, on one line."""
    line = " ".join(text.split())
    at = place_of(line, words)
    start = max(0, at - SNIPPET_CHARACTERS // 3)
    if start:
        start = line.find(" ", start, at) + 1 or start
    end = start + SNIPPET_CHARACTERS
    return ("… " if start else "") + line[start:end].strip() + (" …" if end < len(line) else "")
