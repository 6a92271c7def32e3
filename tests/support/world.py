"""Owns every service on a test's database, with one founded organization."""

from dataclasses import dataclass

from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.features.identity.service import local_principal
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.support.clock import MovableClock
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, Start, build_services, first_start


@dataclass(frozen=True, slots=True)
class World:
    """The services and who owns the first organization."""

    services: Services
    start: Start
    clock: MovableClock

    @property
    def owner(self) -> Principal:
        return local_principal(self.start.organization_id)

    async def link(self, user_id: str) -> str:
        """The secret of a sign-in link, as the operator makes one."""
        return (await self.services.sign_in.new_link(self.owner, user_id)).secret


async def new_world(database: Database, clock: MovableClock) -> World:
    """Services as the server builds them, without background work."""
    services = build_services(
        Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY), database, clock, WordEmbedder()
    )
    return World(services, await first_start(services), clock)
