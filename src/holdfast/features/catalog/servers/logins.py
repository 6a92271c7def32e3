"""Owns people's logins at remote servers: begun by a person, sealed, one for each person, surviving restarts."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING

from holdfast.core.clock import Clock
from holdfast.core.errors import Conflict, Forbidden, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.fetch.network.guard import Guard
from holdfast.engines.master_key import KeyRing
from holdfast.engines.mcp_client.base import Connection, LoginNeeded
from holdfast.engines.mcp_client.oauth import AuthServer, Login, LoginBegun, OAuthClient, RemoteOAuth
from holdfast.features.catalog import store
from holdfast.features.catalog.model import CatalogEntry, ConnectedPerson, EntryNotFound, LoginStanding
from holdfast.features.catalog.servers import login_store
from holdfast.features.catalog.servers.connections import LoginOwner, ServerStart
from holdfast.features.catalog.servers.kept_logins import KeptLogins, RemoteClient
from holdfast.features.catalog.servers.remote_clients import RemoteClients, sends_credential
from holdfast.features.identity import store as identity_store
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

if TYPE_CHECKING:
    from holdfast.engines.mcp_client.exchanges import RemoteAuth

ATTEMPT_MILLIS = 600_000


class RemoteLogins:
    """Opens remote servers as the person whom a call acts for, and lets people sign in there."""

    def __init__(
        self,
        database: Database,
        workspaces: Workspaces,
        keys: KeyRing,
        guard: Guard,
        clock: Clock,
        url: Callable[[], str],
        kept: KeptLogins,
        clients: RemoteClients,
        owner: LoginOwner,
    ) -> None:
        """`url` is where people reach this server."""
        self._database = database
        self._workspaces = workspaces
        self._keys = keys
        self._guard = guard
        self._clock = clock
        self._url = url
        self._kept = kept
        self._clients = clients
        self._owner = owner
        self._oauth = RemoteOAuth(guard)
        self._auths: dict[tuple[str, str], RemoteAuth] = {}

    async def open(self, start: ServerStart, /) -> Connection:
        """A connection with the entry's headers or the person's login; LoginNeeded where it takes one."""
        # The official client takes a second to import, which most commands need not spend.
        from holdfast.engines.mcp_client.exchanges import NotSignedIn
        from holdfast.engines.mcp_client.remote import open_remote

        name, url = start.entry.name, start.url or ""
        try:
            auth = await self._auth(start)
            return await open_remote(self._guard, name, url, headers=start.headers, auth=auth, secrets=start.secrets)
        except NotSignedIn:
            link = self.link(start.entry.id)
            if start.user_id is None:
                # Signing in would change nothing: there is nobody whose login the key could use.
                nobodys = "this key is nobody's, for it was made on the server's own machine"
                said = f"{name} needs a person's login, and {nobodys}. Use a key that you make when signed in: {link}"
                raise LoginNeeded(said, link) from None
            raise LoginNeeded(f"{name} needs you to sign in there first. Open {link}", link) from None

    def link(self, server_id: str) -> str:
        """Where a person begins to sign in."""
        return f"{self._url().rstrip('/')}/connect/{server_id}"

    async def begin(self, principal: Principal, server_id: str) -> str:
        """Where the person goes on: the authorization server that the remote one names."""
        entry = await self._database.read(lambda tx: self._entry(tx, principal, server_id))
        known = await self._registered(entry)
        begun = self._oauth.begin(known.server, known.client, known.redirect_uri)
        key = await asyncio.to_thread(self._keys.current)
        state = _digest(begun.state)
        sealed = key.seal(json.dumps(asdict(begun)), f"attempt {state} {principal.actor}")
        now = self._clock.now()
        await self._database.write(lambda tx: login_store.begin(tx, state, entry.id, principal.actor, sealed, now))
        return begun.url

    async def finish(self, principal: Principal, state: str, code: str, issuer: str | None) -> CatalogEntry:
        """Keep the login that a person came back with; the state is theirs, and good once."""
        hashed, since = _digest(state), self._clock.now() - ATTEMPT_MILLIS
        taken = await self._database.write(lambda tx: login_store.take(tx, hashed, principal.actor, since))
        if taken is None:
            raise Conflict("This login was not begun here, or too long ago; begin once more.")
        server_id, sealed = taken
        kept = json.loads(self._keys.named(sealed.key_id).open(sealed, f"attempt {hashed} {principal.actor}"))
        begun = LoginBegun(**(kept | {"server": AuthServer(**kept["server"]), "client": OAuthClient(**kept["client"])}))
        entry = await self._database.read(lambda tx: self._entry(tx, principal, server_id))
        await self._kept.save(server_id, principal.actor, await self._oauth.finish(begun, code, issuer))
        return entry

    async def connected(self, principal: Principal, server_id: str) -> list[str]:
        """Who is connected, by id."""

        def work(tx: Tx) -> list[str]:
            found = login_store.standings(tx, self._entry(tx, principal, server_id).id)
            return [each.user_id for each in found if each.ended_at is None]

        return await self._database.read(work)

    async def people(self, principal: Principal, workspace_id: str, name: str) -> Sequence[ConnectedPerson]:
        """Who has a login at an entry, and who needs a new one: all of them for an admin, for others their own."""

        def work(tx: Tx) -> Sequence[ConnectedPerson]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            entry = store.find(tx, workspace.id, name)
            if entry is None:
                raise EntryNotFound(name)
            found = login_store.standings(tx, entry.id)
            if not self._administers(tx, principal, workspace.id):
                own = self._owner(tx, principal)
                found = [each for each in found if each.user_id == own]
            return [self._person(tx, principal, each) for each in found]

        return await self._database.read(work)

    async def disconnect(self, principal: Principal, server_id: str) -> None:
        """Forget the person's own login here; what the other side keeps is revoked there."""

        def work(tx: Tx) -> None:
            if not login_store.delete(tx, self._entry(tx, principal, server_id).id, principal.actor):
                raise Conflict("You are not connected there.")

        await self._database.write(work)
        self._auths.pop((server_id, principal.actor), None)

    def _person(self, tx: Tx, principal: Principal, standing: LoginStanding) -> ConnectedPerson:
        user = identity_store.user(tx, principal.organization_id, standing.user_id)
        needs = standing.needs_login(self._clock.now())
        # Removed since; what they left there is shown as it is kept.
        return ConnectedPerson(standing, user.name if user else standing.user_id, user.email if user else "", needs)

    def _administers(self, tx: Tx, principal: Principal, workspace_id: str) -> bool:
        try:
            self._workspaces.administered(tx, principal, workspace_id)
        except Forbidden:
            return False
        return principal.is_person or "management" in principal.scopes

    async def _registered(self, entry: CatalogEntry) -> RemoteClient:
        """As whom we are known there: as was found at save, else found now, for this address of ours may be new."""
        url = entry.spec.url or ""
        known = await self._kept.client(entry.id, url, self._clients.redirect_uri)
        if known is None:
            known = await self._clients.register(url)
            keep = await self._clients.keeping(url, known)
            await self._database.write(lambda tx: keep(tx, entry.id))
        return known

    async def _auth(self, start: ServerStart) -> "RemoteAuth | None":
        from holdfast.engines.mcp_client.exchanges import RemoteAuth

        user_id, server_id = start.user_id, start.entry.id
        if user_id is None or sends_credential(start.headers, start.entry.spec.url):
            return None
        if await self._kept.load(server_id, user_id) is None:
            return None
        kept = PersonsLogin(self._kept, server_id, user_id)
        made = RemoteAuth(start.entry.name, self._oauth, kept, self.link(server_id))
        # One for all connections of a person: of twenty calls with a stale token one renews it.
        return self._auths.setdefault((server_id, user_id), made)

    def _entry(self, tx: Tx, principal: Principal, server_id: str) -> CatalogEntry:
        if not principal.is_person or principal.proof != "session":
            raise Forbidden("Only a person who is signed in here signs in elsewhere.")
        entry = store.by_id(tx, server_id)
        if entry is None:
            raise EntryNotFound(server_id)
        self._workspaces.check(tx, principal, entry.workspace_id)
        if entry.spec.shape != "remote":
            raise Invalid(f"{entry.name} is no remote server; there is nothing to sign in to.")
        return entry


class PersonsLogin:
    """One person's login at one server, as the client of remote servers wants it."""

    def __init__(self, kept: KeptLogins, server_id: str, user_id: str) -> None:
        self._kept = kept
        self._server_id = server_id
        self._user_id = user_id

    async def load(self) -> Login | None:
        return await self._kept.load(self._server_id, self._user_id)

    async def save(self, login: Login) -> None:
        await self._kept.save(self._server_id, self._user_id, login)

    def renewal(self) -> AbstractAsyncContextManager[None]:
        return self._kept.renewal(self._server_id, self._user_id)

    async def forget(self) -> None:
        await self._kept.end(self._server_id, self._user_id)


def _digest(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()
