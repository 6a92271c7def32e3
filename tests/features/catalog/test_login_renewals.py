"""A login whose tokens are replaced by their use is renewed by one process at a time, and by one that ends it."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from holdfast.core.settings import Settings
from holdfast.engines.mcp_client.base import LoginNeeded
from holdfast.engines.mcp_client.exchanges import RemoteAuth
from holdfast.engines.mcp_client.oauth import AuthServer, Login, LoginEnded, OAuthClient
from holdfast.features.catalog.model import NewEntry
from holdfast.features.catalog.servers import login_store
from holdfast.features.catalog.servers.kept_logins import KeptLogins
from holdfast.features.catalog.servers.logins import PersonsLogin
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.identity.service import local_principal
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, build_services, first_start

SERVER = AuthServer(
    "https://a.example", "https://a.example/a", "https://a.example/t", None, "https://r.example", "", True
)


class Rotating:
    """An authorization server that takes each refresh token once, as the network shows it."""

    def __init__(self) -> None:
        self.refreshes = 0
        self.current = "refresh 0"
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def refresh(self, login: Login) -> Login:
        if login.refresh_token != self.current:
            raise LoginEnded("It was used before.")
        self.refreshes += 1
        self.current = f"refresh {self.refreshes}"
        self.begun.set()
        await self.go_on.wait()
        now = time.time()
        return replace(
            login, access_token=f"access {self.refreshes}", refresh_token=self.current, expires_at=now + 3_600
        )


@dataclass
class Renewals:
    """A person's stale login, and replicas that share it."""

    services: Services
    clock: MovableClock
    server_id: str
    user_id: str
    oauth: Rotating = field(default_factory=Rotating)

    @property
    def kept(self) -> KeptLogins:
        return self.services[KeptLogins]

    def replica(self) -> RemoteAuth:
        kept = PersonsLogin(self.kept, self.server_id, self.user_id)
        return RemoteAuth("remote", self.oauth, kept, "https://h.example/connect")  # type: ignore[arg-type]

    async def signed_in(self, refresh: str = "refresh 0", *, access: str = "access 0", expires_at: float = 0) -> None:
        login = Login(SERVER, OAuthClient("us", None, "none"), access, refresh, expires_at, "")
        await self.kept.save(self.server_id, self.user_id, login)


@pytest.fixture
async def renewals(database: Database, clock: MovableClock) -> AsyncIterator[Renewals]:
    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY)
    services = build_services(settings, database, clock, WordEmbedder())
    start = await first_start(services)
    owner = local_principal(start.organization_id)
    entry = await services[ServerCatalog].register(
        owner,
        start.workspace_id,
        NewEntry(name="remote", shape="remote", url="https://r.example/mcp", headers={"Authorization": "x"}),
    )
    made = Renewals(services, clock, entry.id, start.owner_id)
    await made.signed_in()
    yield made


@pytest.mark.contract("XA-8")
async def test_of_twenty_callers_over_two_replicas_one_renews(renewals: Renewals) -> None:
    replicas = [renewals.replica(), renewals.replica()]
    asking = [asyncio.create_task(replicas[number % 2].token()) for number in range(20)]
    async with asyncio.timeout(30):
        await renewals.oauth.begun.wait()
        # The other replica has found the login stale by now, or will: it waits for its turn either way.
        await asyncio.sleep(0.3)
        renewals.oauth.go_on.set()
        assert set(await asyncio.gather(*asking)) == {"access 1"}
    assert renewals.oauth.refreshes == 1


async def test_a_caller_who_gives_up_in_the_middle_takes_no_tokens_along(renewals: Renewals) -> None:
    replica = renewals.replica()
    asking = asyncio.create_task(replica.token())
    async with asyncio.timeout(30):
        await renewals.oauth.begun.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        renewals.oauth.go_on.set()
        assert await replica.token() == "access 1"
    assert renewals.oauth.refreshes == 1


async def test_a_replica_that_died_holds_the_others_up_for_half_a_minute_only(renewals: Renewals) -> None:
    now = renewals.clock.now()
    await renewals.services.database.write(
        lambda tx: login_store.begin_renewal(tx, renewals.server_id, renewals.user_id, "run_dead", now, now + 30_000)
    )
    renewals.oauth.go_on.set()
    asking = asyncio.create_task(renewals.replica().token())
    done, _ = await asyncio.wait({asking}, timeout=0.5)
    assert not done and renewals.oauth.refreshes == 0
    renewals.clock.advance(seconds=31)
    async with asyncio.timeout(30):
        assert await asking == "access 1"


async def test_a_login_that_was_made_anew_meanwhile_is_not_ended(renewals: Renewals) -> None:
    refused = renewals.oauth.refresh

    async def slow(login: Login) -> Login:
        await renewals.signed_in("another", access="made anew", expires_at=time.time() + 3_600)
        return await refused(replace(login, refresh_token="used before"))

    renewals.oauth.refresh = slow  # type: ignore[method-assign]
    assert await renewals.replica().token() == "made anew"


async def test_a_login_that_is_not_taken_any_more_ends(renewals: Renewals) -> None:
    renewals.oauth.current = "another"
    with pytest.raises(LoginNeeded):
        await renewals.replica().token()
    assert await renewals.kept.load(renewals.server_id, renewals.user_id) is None
