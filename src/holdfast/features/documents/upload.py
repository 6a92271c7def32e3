"""Owns an upload while it runs: bytes go to the store part by part, and memory stays flat however large the file."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict
from holdfast.engines.extract.formats import HEAD_BYTES
from holdfast.features.documents import store
from holdfast.features.documents.model import EmptyFile, FileTooLarge, Uploaded
from holdfast.storage.database import Database

PART_BYTES = 1024 * 1024

Finish = Callable[["Upload", str, str, str | None], Awaitable[Uploaded]]


class Upload:
    """One file on its way in. `write` it, then `finish` or `abandon`; what is left behind is swept later."""

    def __init__(
        self, database: Database, clock: Clock, document_id: str, workspace_id: str, max_bytes: int, finish: Finish
    ) -> None:
        self._database = database
        self._clock = clock
        self.document_id = document_id
        self.workspace_id = workspace_id
        self._max_bytes = max_bytes
        self._finish = finish
        self._digest = hashlib.sha256()
        self._buffer = bytearray()
        self._parts = 0
        self.size_bytes = 0
        self.head = b""

    @property
    def sha256(self) -> str:
        """The hash of everything written."""
        return self._digest.hexdigest()

    async def write(self, data: bytes) -> None:
        """Take the next bytes; returns when they need no memory any more. FileTooLarge as soon as they are too many."""
        self.size_bytes += len(data)
        if self.size_bytes > self._max_bytes:
            raise FileTooLarge(self._max_bytes)
        if len(self.head) < HEAD_BYTES:
            self.head += data[: HEAD_BYTES - len(self.head)]
        self._buffer += data
        while len(self._buffer) >= PART_BYTES:
            part = bytes(self._buffer[:PART_BYTES])
            del self._buffer[:PART_BYTES]
            await self._keep(part)

    async def finish(self, filename: str, media_type: str = "", chat_id: str | None = None) -> Uploaded:
        """The file is whole: make the document, or find the one that has the same bytes."""
        if self.size_bytes == 0:
            await self.abandon()
            raise EmptyFile
        if self._buffer:
            part, self._buffer = bytes(self._buffer), bytearray()
            await self._keep(part)
        return await self._finish(self, filename, media_type, chat_id)

    async def abandon(self) -> None:
        """Forget what was written."""
        await self._database.write(lambda tx: store.abandon_blob(tx, self.document_id))

    async def _keep(self, part: bytes) -> None:
        await asyncio.to_thread(self._digest.update, part)
        number, self._parts = self._parts, self._parts + 1
        now = self._clock.now()
        if not await self._database.write(lambda tx: store.add_part(tx, self.document_id, number, part, now)):
            raise Conflict("The upload took too long and was given up; send the file again.", code="upload_expired")
