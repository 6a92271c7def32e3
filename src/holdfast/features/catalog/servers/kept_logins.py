"""Owns logins and registrations as they are kept: sealed, opened when used, sealed anew with the master key."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass

from holdfast.core.clock import Clock
from holdfast.core.ids import new_id
from holdfast.engines.master_key import KeyRing, MasterKey, MasterKeyWrong
from holdfast.engines.mcp_client.oauth import AuthServer, Login, OAuthClient
from holdfast.features.catalog.model import LoginStanding
from holdfast.features.catalog.servers import login_store
from holdfast.features.secrets import store as secret_store
from holdfast.storage.database import Database, Tx

# Longer than an authorization server may take to answer, and both sides of it to be written down.
_RENEWAL_MILLIS = 30_000
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RemoteClient:
    """Who lets people into a remote server, and as whom we are registered there."""

    server: AuthServer
    client: OAuthClient
    redirect_uri: str


class KeptLogins:
    """Everything about remote logins that is secret."""

    def __init__(self, database: Database, keys: KeyRing, clock: Clock) -> None:
        self._database = database
        self._keys = keys
        self._clock = clock

    async def key(self) -> MasterKey:
        """The key to seal with; it may have to be made first."""
        return await asyncio.to_thread(self._keys.current)

    async def load(self, server_id: str, user_id: str) -> Login | None:
        """A person's login; one that was sealed under a key that is gone counts as none."""
        sealed = await self._database.read(lambda tx: login_store.find(tx, server_id, user_id))
        if sealed is None:
            return None
        try:
            return Login.from_json(self._keys.named(sealed.key_id).open(sealed, _login(server_id, user_id)).encode())
        except MasterKeyWrong:
            return None

    async def save(self, server_id: str, user_id: str, login: Login) -> None:
        """Keep a login, sealed."""
        current, now = await self.key(), self._clock.now()
        standing = LoginStanding(
            server_id,
            user_id,
            login.server.issuer,
            now,
            expires_at=None if login.expires_at is None else round(login.expires_at * 1000),
            renewable=login.refresh_token is not None,
            ended_at=None,
        )

        def work(tx: Tx) -> None:
            sealed = self._sealing(tx, current).seal(login.to_json().decode(), _login(server_id, user_id))
            login_store.put(tx, standing, sealed)

        await self._database.write(work)

    @asynccontextmanager
    async def renewal(self, server_id: str, user_id: str) -> AsyncIterator[None]:
        """Renew a login while nobody else does, in whatever process; whoever dies in here holds it up for a while."""
        holder = new_id("run")
        while True:
            if await self._database.write(lambda tx: self._begin_renewal(tx, server_id, user_id, holder)):
                break
            await asyncio.sleep(_LOOK_SECONDS)
        try:
            yield
        finally:
            await self._database.write(lambda tx: login_store.end_renewal(tx, server_id, user_id, holder))

    def _begin_renewal(self, tx: Tx, server_id: str, user_id: str, holder: str) -> bool:
        now = self._clock.now()
        return login_store.begin_renewal(tx, server_id, user_id, holder, now, now + _RENEWAL_MILLIS)

    async def end(self, server_id: str, user_id: str) -> None:
        """The server does not take it any more."""
        await self._database.write(lambda tx: login_store.end(tx, server_id, user_id, self._clock.now()))

    def keep_client(self, tx: Tx, server_id: str, url: str, known: RemoteClient, current: MasterKey) -> None:
        """Keep as whom we are registered for an entry; `current` is the key to seal with."""
        sealed = self._sealing(tx, current).seal(json.dumps(asdict(known)), _registration(server_id))
        issuer, back = known.server.issuer, known.redirect_uri
        login_store.put_client(tx, server_id, url, issuer, back, sealed, self._clock.now())

    async def client(self, server_id: str, url: str, redirect_uri: str) -> RemoteClient | None:
        """As whom we are registered; None where nobody is, or for other addresses, or under a key that is gone."""
        sealed = await self._database.read(lambda tx: login_store.client(tx, server_id, url, redirect_uri))
        if sealed is None:
            return None
        try:
            kept = json.loads(self._keys.named(sealed.key_id).open(sealed, _registration(server_id)))
        except MasterKeyWrong:
            return None
        return RemoteClient(AuthServer(**kept["server"]), OAuthClient(**kept["client"]), kept["redirect_uri"])

    def reseal(self, tx: Tx, key: MasterKey) -> int:
        """Keep every login and registration that can be opened under another master key; how many those are."""
        count = 0
        for server_id, user_id, sealed in login_store.every_login(tx):
            with suppress(MasterKeyWrong):
                text = self._keys.named(sealed.key_id).open(sealed, _login(server_id, user_id))
                login_store.reseal_login(tx, server_id, user_id, key.seal(text, _login(server_id, user_id)))
                count += 1
        for server_id, sealed in login_store.every_client(tx):
            with suppress(MasterKeyWrong):
                text = self._keys.named(sealed.key_id).open(sealed, _registration(server_id))
                login_store.reseal_client(tx, server_id, key.seal(text, _registration(server_id)))
                count += 1
        return count

    def _sealing(self, tx: Tx, current: MasterKey) -> MasterKey:
        """The key that everything else is under by now: the master key may have been changed a moment ago."""
        other = secret_store.other_key(tx, current.id)
        for key_id in [*([other] if other is not None else []), *login_store.other_keys(tx, current.id)]:
            with suppress(MasterKeyWrong):
                return self._keys.named(key_id)
        return current


def _login(server_id: str, user_id: str) -> str:
    return f"login {server_id} {user_id}"


def _registration(server_id: str) -> str:
    return f"registration {server_id}"
