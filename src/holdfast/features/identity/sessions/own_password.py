"""Owns asking for an account's own password before what only its owner may do, and how often it may be guessed."""

from holdfast.core.errors import Forbidden
from holdfast.features.identity import store
from holdfast.features.identity.sessions.passwords import verify_password
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.model import Limit
from holdfast.storage.database import Database


class OwnPassword:
    """A session proves who sits there; the password proves that it is still the owner."""

    def __init__(self, database: Database, limiter: Limiter, attempts_per_minute: int) -> None:
        self._database = database
        self._limiter = limiter
        self._limit = Limit(attempts_per_minute, 60)

    async def check(self, user_id: str, given: str | None) -> None:
        """Raise Forbidden unless it is the account's password, or the account has none."""
        kept = await self._database.read(lambda tx: store.password_hash(tx, user_id))
        if kept is None:
            return
        if given is not None:
            (await self._limiter.take(f"password of {user_id}", self._limit)).check("attempts")
        if given is None or not await verify_password(kept, given):
            raise Forbidden("The account's current password is missing or wrong.", code="password")
