"""Owns how people sign in: one-time links, passwords and OIDC, each ending in a server-side session."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.clock import Clock
from holdfast.core.errors import Unauthenticated
from holdfast.core.principal import SCOPES, Principal, Scope
from holdfast.features.audit.service import Audit
from holdfast.features.identity import session_store
from holdfast.features.identity.passwords import verify_password
from holdfast.features.identity.session_store import WebSession
from holdfast.storage.database import Database, Tx

LINK_MILLIS = 60 * 60 * 1000
SESSION_MILLIS = 14 * 24 * 60 * 60 * 1000
ATTEMPT_MILLIS = 10 * 60 * 1000


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A fresh session: the cookie's value is shown once, the CSRF token as often as a page needs it."""

    cookie: str
    session: WebSession

    def __repr__(self) -> str:
        return f"SignedIn({self.session.user_id})"


class SignIn:
    """Sessions of people."""

    def __init__(self, database: Database, audit: Audit, clock: Clock) -> None:
        self._database = database
        self._audit = audit
        self._clock = clock
        self._recording: set[asyncio.Task[None]] = set()

    async def new_link(self, user_id: str) -> str:
        """The secret of a link that signs this user in once, within the hour."""
        secret = secrets.token_urlsafe(32)
        expires_at = self._clock.now() + LINK_MILLIS
        await self._database.write(lambda tx: session_store.insert_link(tx, _digest(secret), user_id, expires_at))
        return secret

    async def by_link(self, secret: str) -> SignedIn:
        """Use a one-time link."""
        return await self._open("link", lambda tx: session_store.use_link(tx, _digest(secret), self._clock.now()))

    async def by_password(self, email: str, password: str) -> SignedIn:
        """Check a password; nothing tells an unknown address from a wrong password."""
        address = email.strip().lower()[:300]
        account = await self._database.read(lambda tx: session_store.account_by_email(tx, address))
        if not await verify_password(account.password_hash if account else None, password) or account is None:
            if account is not None:
                # Beside the answer: an address that exists must not take longer to refuse.
                task = asyncio.create_task(self._refused(account.user_id))
                self._recording.add(task)
                task.add_done_callback(self._recording.discard)
            raise Unauthenticated
        return await self._open("password", lambda tx: account.user_id)

    async def by_subject(self, subject: str, email: str | None) -> SignedIn:
        """Sign in whoever an OIDC issuer vouches for: known by subject, or at first by a verified address."""

        def who(tx: Tx) -> str | None:
            user_id = session_store.account_by_subject(tx, subject)
            if user_id is None and email is not None:
                account = session_store.account_by_email(tx, email.lower())
                user_id = account.user_id if account else None
                if user_id is not None:
                    session_store.link_subject(tx, user_id, subject)
            return user_id

        return await self._open("oidc", who)

    async def begin_attempt(self, state: str, verifier: str, nonce: str) -> None:
        """Remember an OIDC sign-in until the browser comes back."""
        now = self._clock.now()
        await self._database.write(
            lambda tx: session_store.insert_attempt(tx, _digest(state), verifier, nonce, now, now + ATTEMPT_MILLIS)
        )

    async def take_attempt(self, state: str) -> tuple[str, str]:
        """The verifier and nonce of an attempt, once; Unauthenticated for any other state."""
        found = await self._database.write(lambda tx: session_store.take_attempt(tx, _digest(state), self._clock.now()))
        if found is None:
            raise Unauthenticated
        return found

    async def session(self, cookie: str) -> WebSession:
        """Whose session a cookie is."""
        found = None
        if len(cookie) <= 100:
            now = self._clock.now()
            found = await self._database.glance(lambda tx: session_store.session(tx, _digest(cookie), now))
        if found is None:
            raise Unauthenticated
        return found

    async def sign_out(self, cookie: str) -> None:
        """End a session."""

        def work(tx: Tx) -> None:
            session = session_store.session(tx, _digest(cookie), self._clock.now())
            session_store.delete_session(tx, _digest(cookie))
            if session is not None:
                self._record(tx, session, "session.end", "sign-out")

        await self._database.write(work)

    async def _refused(self, user_id: str) -> None:
        """Record that somebody tried a wrong password for this account."""

        def who(tx: Tx) -> Principal | None:
            organization_id = session_store.first_membership(tx, user_id)
            if organization_id is None:
                return None
            nothing: frozenset[Scope] = frozenset()
            return Principal(organization_id, user_id, "session", is_person=True, scopes=nothing)

        principal = await self._database.read(who)
        if principal is not None:
            await self._audit.record_denied(
                principal, "session.start", resource="user", resource_id=user_id, reason="wrong password"
            )

    async def _open(self, way: str, who: Callable[[Tx], str | None]) -> SignedIn:
        cookie, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)

        def work(tx: Tx) -> WebSession | None:
            now = self._clock.now()
            user_id = who(tx)
            organization_id = session_store.first_membership(tx, user_id) if user_id else None
            if user_id is None or organization_id is None:
                return None
            session_store.insert_session(tx, _digest(cookie), user_id, organization_id, csrf, now, now + SESSION_MILLIS)
            session = session_store.session(tx, _digest(cookie), now)
            if session is not None:
                self._record(tx, session, "session.start", way)
            return session

        session = await self._database.write(work)
        if session is None:
            raise Unauthenticated
        return SignedIn(cookie, session)

    def _record(self, tx: Tx, session: WebSession, action: str, way: str) -> None:
        self._audit.record(
            tx, principal_of(session), action, resource="user", resource_id=session.user_id, detail={"by": way}
        )


def principal_of(session: WebSession) -> Principal:
    """Who a signed-in person is."""
    return Principal(
        organization_id=session.organization_id,
        actor=session.user_id,
        proof="session",
        is_person=True,
        scopes=frozenset(SCOPES),
        role=session.role,
        allow_destructive=session.role != "member",
        name=session.name,
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
