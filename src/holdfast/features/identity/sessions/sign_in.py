"""Owns how people sign in: one-time links, passwords and OIDC, each ending in a server-side session."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.core.authority import check_hands_out, person_authority
from holdfast.core.clock import Clock, iso
from holdfast.core.errors import Conflict, NotFound, Unauthenticated
from holdfast.core.principal import SCOPES, Principal, Scope
from holdfast.features.audit.service import Audit
from holdfast.features.identity import store
from holdfast.features.identity.model import SignInLink
from holdfast.features.identity.sessions import store as session_store
from holdfast.features.identity.sessions.passwords import verify_password
from holdfast.features.identity.sessions.store import KeptLink, OwnSession, WebSession, digest
from holdfast.features.identity.standing import as_it_stands
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


class LinkRefused(Unauthenticated):
    """A one-time link that signs nobody in; whoever holds its secret is told why."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__()
        self.message = message
        self.code = code
        self.args = (message,)


class SignIn:
    """Sessions of people."""

    def __init__(self, database: Database, audit: Audit, clock: Clock) -> None:
        self._database = database
        self._audit = audit
        self._clock = clock
        self._recording: set[asyncio.Task[None]] = set()

    async def new_link(self, principal: Principal, user_id: str) -> SignInLink:
        """A link that signs a member in once, within the hour, for whoever may act as them anyway.

        Somebody of a higher role stays out of reach, and so does an account that other organizations rely on; the
        operator on the server's own machine has the files and may do both.
        """
        secret = secrets.token_urlsafe(32)

        def work(tx: Tx) -> SignInLink:
            now = self._clock.now()
            member = store.user(tx, principal.organization_id, user_id)
            if member is None:
                raise NotFound("user", user_id)
            giver = as_it_stands(tx, principal, now)
            check_hands_out(giver, person_authority(principal.organization_id, member.role), "a sign-in link")
            if principal.proof != "local" and len(store.memberships(tx, user_id)) != 1:
                raise Conflict(
                    "This account belongs to another organization too, so only its owner opens it; "
                    "on the server's machine `holdfast users link` still makes a link."
                )
            expires_at = now + LINK_MILLIS
            session_store.insert_link(
                tx, digest(secret), user_id, principal.organization_id, principal.actor, now, expires_at
            )
            self._audit.record(tx, principal, "user.link", resource="user", resource_id=user_id)
            return SignInLink(user_id, secret, expires_at)

        return await self._database.write(work)

    async def look_at_link(self, secret: str) -> None:
        """Raise LinkRefused unless the link still signs somebody in. Looking does not use it."""

        def work(tx: Tx) -> KeptLink:
            return self._usable(tx, secret)

        await self._database.read(work)

    async def by_link(self, secret: str) -> SignedIn:
        """Use a one-time link."""

        def who(tx: Tx) -> tuple[str, str | None]:
            link = self._usable(tx, secret)
            if not session_store.use_link(tx, digest(secret), self._clock.now()):
                raise LinkRefused("This link was used just now; ask for a new one.", "link_used")
            return link.user_id, link.organization_id

        return await self._open("link", who)

    async def open_by(self, way: str, organization_id: str, who: Callable[[Tx], str]) -> SignedIn:
        """Open a session in this organization for whoever proved in this transaction who they are."""
        return await self._open(way, lambda tx: (who(tx), organization_id))

    async def switch(self, principal: Principal, cookie: str, organization_id: str) -> WebSession:
        """Be in another of one's organizations with the same session."""

        def work(tx: Tx) -> WebSession:
            if not store.is_member(tx, organization_id, principal.actor):
                raise NotFound("organization", organization_id)
            session_store.move_session(tx, digest(cookie), organization_id)
            moved = session_store.session(tx, digest(cookie), self._clock.now())
            if moved is None or moved.user_id != principal.actor:
                raise Unauthenticated
            self._record(tx, moved, "session.switch", "switch")
            return moved

        return await self._database.write(work)

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
        return await self._open("password", lambda tx: (account.user_id, None))

    async def recorded(self) -> None:
        """Wait until every refusal so far is in the audit log: for who ends right after one, as a command does."""
        await asyncio.gather(*self._recording)

    async def by_subject(self, subject: str, email: str | None) -> SignedIn:
        """Sign in whoever an OIDC issuer vouches for: known by subject, or at first by a verified address."""

        def who(tx: Tx) -> tuple[str | None, None]:
            user_id = session_store.account_by_subject(tx, subject)
            if user_id is None and email is not None:
                account = session_store.account_by_email(tx, email.lower())
                user_id = account.user_id if account else None
                if user_id is not None:
                    # The address is proven now for the first time: whoever set the account up before may be another.
                    session_store.link_subject(tx, user_id, subject)
                    session_store.end_sessions(tx, user_id, keep=None)
            return user_id, None

        return await self._open("oidc", who)

    async def begin_attempt(self, state: str, browser: str, verifier: str, nonce: str) -> None:
        """Remember an OIDC sign-in until the same browser comes back: `browser` is the secret of its cookie."""
        now = self._clock.now()
        both = digest(f"{state} {browser}")
        await self._database.write(
            lambda tx: session_store.insert_attempt(tx, both, verifier, nonce, now, now + ATTEMPT_MILLIS)
        )

    async def take_attempt(self, state: str, browser: str) -> tuple[str, str]:
        """The verifier and nonce of an attempt, once; Unauthenticated for any other state or browser."""
        both = digest(f"{state} {browser}")
        found = await self._database.write(lambda tx: session_store.take_attempt(tx, both, self._clock.now()))
        if found is None:
            raise Unauthenticated
        return found

    async def session(self, cookie: str) -> WebSession:
        """Whose session a cookie is."""
        found = None
        if len(cookie) <= 100:
            now = self._clock.now()
            found = await self._database.glance(lambda tx: session_store.session(tx, digest(cookie), now))
        if found is None:
            raise Unauthenticated
        return found

    async def sessions(self, cookie: str) -> Sequence[OwnSession]:
        """Where the person of this session is signed in."""
        here = await self.session(cookie)
        now = self._clock.now()
        return await self._database.read(lambda tx: session_store.sessions_of(tx, here.user_id, digest(cookie), now))

    async def sign_out_elsewhere(self, cookie: str) -> None:
        """End every other session of the person, and the links that would open one."""
        here = await self.session(cookie)

        def work(tx: Tx) -> None:
            session_store.end_sessions(tx, here.user_id, keep=digest(cookie))
            self._record(tx, here, "session.end", "elsewhere")

        await self._database.write(work)

    async def sign_out(self, cookie: str) -> None:
        """End a session."""

        def work(tx: Tx) -> None:
            session = session_store.session(tx, digest(cookie), self._clock.now())
            session_store.delete_session(tx, digest(cookie))
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

    def _usable(self, tx: Tx, secret: str) -> KeptLink:
        """The link, if it may be used now: also its maker must still be allowed to make it."""
        found = session_store.link(tx, digest(secret))
        if found is None:
            raise LinkRefused("This link is unknown; check that it is complete, or ask for a new one.", "link_unknown")
        if found.used_at is not None:
            raise LinkRefused(f"This link was used on {iso(found.used_at)}; ask for a new one.", "link_used")
        if found.expires_at <= self._clock.now():
            raise LinkRefused(f"This link expired on {iso(found.expires_at)}; ask for a new one.", "link_expired")
        if found.organization_id is not None and found.created_by is not None and found.created_by.startswith("usr_"):
            maker = store.user(tx, found.organization_id, found.created_by)
            member = store.user(tx, found.organization_id, found.user_id)
            if (
                maker is None
                or member is None
                or person_authority(found.organization_id, maker.role).lacks(
                    person_authority(found.organization_id, member.role)
                )
                or len(store.memberships(tx, found.user_id)) != 1
            ):
                raise LinkRefused("Whoever made this link may no longer do so; ask for a new one.", "link_withdrawn")
        return found

    async def _open(self, way: str, who: Callable[[Tx], tuple[str | None, str | None]]) -> SignedIn:
        cookie, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)

        def work(tx: Tx) -> WebSession | None:
            now = self._clock.now()
            user_id, organization_id = who(tx)
            if user_id is not None and organization_id is None:
                organization_id = session_store.first_membership(tx, user_id)
            if user_id is None or organization_id is None:
                return None
            session_store.insert_session(tx, digest(cookie), user_id, organization_id, csrf, now, now + SESSION_MILLIS)
            session = session_store.session(tx, digest(cookie), now)
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
