"""Owns the memory of answered creates: the same Idempotency-Key is carried out once and answered alike for a day."""

import hashlib

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, Invalid
from holdfast.storage.database import Database, Tx

KEPT_MILLIS = 24 * 60 * 60 * 1000
PENDING_MILLIS = 5 * 60 * 1000
_PENDING = 0


class IdempotentRequests:
    """Answers by actor and key."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def begin(self, actor: str, key: str, method: str, path: str, body: bytes) -> tuple[int, bytes] | None:
        """The earlier answer to the same request, or None: go on, and `finish` or `abandon`."""
        asked = hashlib.sha256(b"\0".join([method.encode(), path.encode(), body])).digest()

        def work(tx: Tx) -> tuple[int, bytes] | None:
            now = self._clock.now()
            tx.execute(
                "DELETE FROM idempotent_request WHERE created_at < :old OR (status = 0 AND created_at < :stuck)",
                {"old": now - KEPT_MILLIS, "stuck": now - PENDING_MILLIS},
            )
            taken = tx.execute(
                "INSERT INTO idempotent_request (actor, idempotency_key, request_hash, status, body, created_at) "
                "VALUES (:actor, :key, :asked, 0, '', :now) ON CONFLICT DO NOTHING",
                {"actor": actor, "key": key, "asked": asked, "now": now},
            )
            if taken:
                return None
            row = tx.one(
                "SELECT request_hash, status, body FROM idempotent_request "
                "WHERE actor = :actor AND idempotency_key = :key",
                {"actor": actor, "key": key},
            )
            if row is None or row["status"] == _PENDING:
                raise Conflict("A request with this Idempotency-Key is still being carried out; try again.")
            if bytes(row["request_hash"]) != asked:
                raise Invalid("This Idempotency-Key was used for another request; choose a new one.")
            return int(row["status"]), str(row["body"]).encode()

        return await self._database.write(work)

    async def finish(self, actor: str, key: str, status: int, body: bytes) -> None:
        """Keep the answer."""
        values = {"actor": actor, "key": key, "status": status, "body": body.decode()}
        await self._database.write(
            lambda tx: tx.execute(
                "UPDATE idempotent_request SET status = :status, body = :body "
                "WHERE actor = :actor AND idempotency_key = :key",
                values,
            )
        )

    async def abandon(self, actor: str, key: str) -> None:
        """Free the key after a failure, so that the request can be tried again."""
        await self._database.write(
            lambda tx: tx.execute(
                "DELETE FROM idempotent_request WHERE actor = :actor AND idempotency_key = :key AND status = 0",
                {"actor": actor, "key": key},
            )
        )
