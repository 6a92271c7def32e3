"""Owns invitations: how people come into an organization, and that nobody does without agreeing."""

import hashlib
import secrets
from collections.abc import Callable, Sequence

from holdfast.core.authority import check_hands_out, person_authority
from holdfast.core.clock import Clock, iso
from holdfast.core.errors import Conflict, Forbidden, HoldfastError, NotFound
from holdfast.core.ids import new_id
from holdfast.core.paging import Page, decode_cursor, page_of
from holdfast.core.principal import Principal, Role
from holdfast.features.audit.service import Audit
from holdfast.features.identity import store
from holdfast.features.identity.model import Invitation, Invited
from holdfast.features.identity.people import invitation_store
from holdfast.features.identity.service import checked_email, checked_name, require_management
from holdfast.features.identity.sessions import store as session_store
from holdfast.features.identity.sessions.own_password import OwnPassword
from holdfast.features.identity.sessions.passwords import hash_password, verify_password
from holdfast.features.identity.sessions.sign_in import SignedIn, SignIn
from holdfast.features.identity.standing import as_it_stands
from holdfast.storage.database import Database, Tx

INVITATION_MILLIS = 7 * 24 * 60 * 60 * 1000


class InvitationOver(HoldfastError):
    """The invitation was accepted, declined, withdrawn, or has run out; the text says which."""

    code = "invitation_over"
    status = 409


class Invitations:
    """Invitations of one installation. Its link is handed over by whoever invites: this server sends no mail."""

    def __init__(
        self, database: Database, audit: Audit, clock: Clock, sign_in: SignIn, own_password: OwnPassword
    ) -> None:
        self._database = database
        self._audit = audit
        self._clock = clock
        self._sign_in = sign_in
        self._own_password = own_password

    async def invite(self, principal: Principal, *, email: str, role: Role = "member", name: str = "") -> Invited:
        """Invite an address. The answer is the same whether or not somebody on this server has it."""
        _require_person_who_manages(principal)
        address = checked_email(email)
        title = checked_name(name) if name.strip() else address.partition("@")[0]
        secret = secrets.token_urlsafe(32)

        def work(tx: Tx) -> Invited:
            now = self._clock.now()
            organization_id = principal.organization_id
            store.lock_organization(tx, organization_id)
            giver = as_it_stands(tx, principal, now)
            check_hands_out(giver, person_authority(organization_id, role), "an invitation")
            if store.member_by_email(tx, organization_id, address) is not None:
                raise Conflict(f"{address} is a member already; change the role instead.")
            # The newest counts: whoever lost a link is invited again.
            for earlier in invitation_store.open_for(tx, address, now):
                if earlier.organization_id == organization_id:
                    check_hands_out(giver, person_authority(organization_id, earlier.role), "an invitation")
                    invitation_store.end(tx, earlier.id, "withdrawn", now)
            id = new_id("inv")
            invitation_store.insert(
                tx,
                Invitation(
                    id=id,
                    organization_id=organization_id,
                    organization_name="",
                    email=address,
                    name=title,
                    role=role,
                    created_by=principal.actor,
                    created_at=now,
                    expires_at=now + INVITATION_MILLIS,
                    ended_at=None,
                    outcome=None,
                ),
                _digest(secret),
            )
            made = self._of_organization(tx, principal, id)
            self._record(tx, principal, "invitation.create", made)
            return Invited(made, secret)

        return await self._database.write(work)

    async def list(self, principal: Principal, *, limit: int = 50, cursor: str | None = None) -> Page[Invitation]:
        """The organization's open invitations."""
        _require_person_who_manages(principal)
        after = str(decode_cursor(cursor, str)[0]) if cursor else ""

        def work(tx: Tx) -> Page[Invitation]:
            rows = invitation_store.open_page(tx, principal.organization_id, after, limit + 1, self._clock.now())
            return page_of(rows, limit, lambda row: [row.id])

        return await self._database.read(work)

    async def withdraw(self, principal: Principal, invitation_id: str) -> None:
        """Take an invitation back."""
        _require_person_who_manages(principal)

        def work(tx: Tx) -> None:
            found = self._of_organization(tx, principal, invitation_id)
            giver = as_it_stands(tx, principal, self._clock.now())
            check_hands_out(giver, person_authority(found.organization_id, found.role), "an invitation")
            self._end(tx, found, "withdrawn")
            self._record(tx, principal, "invitation.withdraw", found)

        await self._database.write(work)

    async def own(self, principal: Principal) -> Sequence[Invitation]:
        """What the signed-in person is invited to."""

        def work(tx: Tx) -> Sequence[Invitation]:
            return invitation_store.open_for(tx, self._address(tx, principal), self._clock.now())

        return await self._database.read(work)

    async def decline(self, principal: Principal, invitation_id: str) -> None:
        """Say no to an invitation of one's own."""

        def work(tx: Tx) -> None:
            found = self._own(tx, principal, invitation_id)
            self._end(tx, found, "declined")
            self._record(tx, principal, "invitation.decline", found)

        await self._database.write(work)

    async def accept(
        self, principal: Principal, secret: str, *, password: str | None = None, cookie: str | None = None
    ) -> Invitation:
        """Join, as the signed-in person whom the link is for; asks for the password of an account that has one.

        Every other session and open link of the account ends: whoever let this person in before, by a link that they
        made, must not come along. `cookie` is the session that stays.
        """
        await self._own_password.check(principal.actor, password)

        def work(tx: Tx) -> Invitation:
            found = invitation_store.by_hash(tx, _digest(secret))
            if found is None or found.email != self._address(tx, principal):
                raise NotFound("invitation", "of this link and account")
            self._join(tx, found, principal.actor)
            session_store.end_sessions(tx, principal.actor, keep=session_store.digest(cookie) if cookie else None)
            return found

        return await self._database.write(work)

    async def look(self, secret: str) -> Invitation:
        """The open invitation of a link: what its page shows. Looking changes nothing."""

        return await self._database.read(lambda tx: self._open_by_link(tx, secret))

    async def join(self, secret: str, *, name: str = "", password: str | None = None) -> SignedIn:
        """Join by the link alone: as a new person, or with the password of the account that there is.

        An account without a password that belongs somewhere joins while signed in, by `accept`.
        """
        invited = await self.look(secret)
        title = checked_name(name) if name.strip() else invited.name
        account = await self._database.read(lambda tx: session_store.account_by_email(tx, invited.email))
        if account is not None and account.password_hash is not None:
            if not await verify_password(account.password_hash, password or ""):
                raise Forbidden(_SIGN_IN_FIRST.format(email=invited.email), code="sign_in_first")
            return await self._sign_in.open_by(
                "invitation", invited.organization_id, self._joining(secret, account.user_id)
            )
        password_hash = await hash_password(password) if password else None

        def who(tx: Tx) -> str:
            # Whoever comes second with the same link waits here, and is told that it was used.
            store.lock_organization(tx, invited.organization_id)
            self._open_by_link(tx, secret)
            known = session_store.account_by_email(tx, invited.email)
            if known is None:
                user_id = new_id("usr")
                store.insert_user(tx, user_id, invited.email, title, password_hash, self._clock.now())
            elif session_store.is_somebodys(tx, known.user_id):
                raise Forbidden(_SIGN_IN_FIRST.format(email=invited.email), code="sign_in_first")
            else:
                # Removed from everywhere and without any way to sign in: nobody is taken over.
                user_id = known.user_id
                if password_hash is not None:
                    store.set_password_hash(tx, user_id, password_hash)
            return self._joining(secret, user_id)(tx)

        return await self._sign_in.open_by("invitation", invited.organization_id, who)

    def _joining(self, secret: str, user_id: str) -> Callable[[Tx], str]:
        def who(tx: Tx) -> str:
            self._join(tx, self._open_by_link(tx, secret), user_id)
            session_store.end_sessions(tx, user_id, keep=None)
            return user_id

        return who

    def _join(self, tx: Tx, invitation: Invitation, user_id: str) -> None:
        """Make somebody a member, if whoever invited them could still do so now."""
        now = self._clock.now()
        _check_open(invitation, now)
        store.lock_organization(tx, invitation.organization_id)
        wanted = person_authority(invitation.organization_id, invitation.role)
        if invitation.created_by.startswith("usr_"):
            inviter = store.user(tx, invitation.organization_id, invitation.created_by)
            if inviter is None or person_authority(invitation.organization_id, inviter.role).lacks(wanted):
                raise InvitationOver("Whoever invited you may no longer do so; ask for a new invitation.")
        if not invitation_store.end(tx, invitation.id, "accepted", now):
            raise InvitationOver("This invitation was used just now.")
        store.set_role(tx, invitation.organization_id, user_id, invitation.role, now)
        member = store.user(tx, invitation.organization_id, user_id)
        if member is None:
            raise NotFound("user", user_id)
        joined = Principal(
            invitation.organization_id, user_id, "session", is_person=True, scopes=frozenset(), role=member.role
        )
        self._record(tx, joined, "invitation.accept", invitation)

    def _open_by_link(self, tx: Tx, secret: str) -> Invitation:
        found = invitation_store.by_hash(tx, _digest(secret))
        if found is None:
            raise NotFound("invitation", "of this link")
        _check_open(found, self._clock.now())
        return found

    def _end(self, tx: Tx, invitation: Invitation, outcome: str) -> None:
        _check_open(invitation, self._clock.now())
        invitation_store.end(tx, invitation.id, outcome, self._clock.now())

    def _of_organization(self, tx: Tx, principal: Principal, invitation_id: str) -> Invitation:
        found = invitation_store.find(tx, principal.organization_id, invitation_id)
        if found is None:
            raise NotFound("invitation", invitation_id)
        return found

    def _own(self, tx: Tx, principal: Principal, invitation_id: str) -> Invitation:
        for found in invitation_store.open_for(tx, self._address(tx, principal), self._clock.now()):
            if found.id == invitation_id:
                return found
        raise NotFound("invitation", invitation_id)

    @staticmethod
    def _address(tx: Tx, principal: Principal) -> str:
        found = store.user(tx, principal.organization_id, principal.actor)
        if found is None:
            raise Forbidden("Only a signed-in person has invitations of their own.")
        return found.email

    def _record(self, tx: Tx, principal: Principal, action: str, invitation: Invitation) -> None:
        there = Principal(
            invitation.organization_id,
            principal.actor,
            principal.proof,
            is_person=principal.is_person,
            scopes=principal.scopes,
            role=principal.role,
        )
        detail = {"email": invitation.email, "role": invitation.role}
        self._audit.record(tx, there, action, resource="invitation", resource_id=invitation.id, detail=detail)


_SIGN_IN_FIRST = "If {email} has an account here, sign in with it (or give its password), then open this link again."


def _require_person_who_manages(principal: Principal) -> None:
    require_management(principal)
    if not principal.is_person:
        raise Forbidden("Keys neither make people nor change what they may do; sign in.")


def _check_open(invitation: Invitation, now: int) -> None:
    if invitation.ended_at is not None:
        raise InvitationOver(
            f"This invitation was {invitation.outcome} on {iso(invitation.ended_at)}; ask for a new one."
        )
    if invitation.expires_at <= now:
        raise InvitationOver(f"This invitation ran out on {iso(invitation.expires_at)}; ask for a new one.")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
