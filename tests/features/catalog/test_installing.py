"""Installations: what was installed is started once to see its tools, what fails is said, and can be tried again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.mcp_client.base import ServerDescription, ServerFailed
from holdfast.engines.runtime.packages import (
    InstalledPackage,
    InstallFailed,
    PackageCommand,
    Packages,
    TellInstall,
)
from holdfast.features.catalog.model import CatalogEntry, NewEntry
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.connections import ServerStart
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.identity.service import local_principal
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.fakes.mcp.inside import InsideServers
from tests.support.clock import MovableClock
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, background, build_services, first_start


class Registry:
    """In place of npm and PyPI: gives every package, unless it has a problem."""

    def __init__(self) -> None:
        self.problem: str | None = None

    async def install(self, wanted: PackageCommand, tell: TellInstall) -> InstalledPackage:
        if self.problem is not None:
            raise InstallFailed(self.problem)
        return InstalledPackage("npm", wanted.name, "1.0.0", "sha256-x", {}, Path(NOWHERE), ("node", "x"))


class Servers(InsideServers):
    """Counts starts to see tools, and fails where a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: str | None = None

    async def describe(self, start: ServerStart) -> ServerDescription:
        described = await super().describe(start)
        if self.problem is not None:
            raise ServerFailed(self.problem)
        return described


@dataclass
class Place:
    services: Services
    servers: Servers
    registry: Registry
    owner: Principal
    workspace: str

    async def register(self, *, enabled: bool = True) -> CatalogEntry:
        args = ("-y", "weather-mcp@1.0.0")
        new = NewEntry(name="weather", shape="command", command="npx", args=args, enabled=enabled)
        return await self.services[ServerCatalog].register(self.owner, self.workspace, new)

    async def until(self, holds: Callable[[CatalogEntry], bool]) -> CatalogEntry:
        async with asyncio.timeout(20):
            while not holds(entry := await self.services[ServerCatalog].get(self.owner, self.workspace, "weather")):
                await asyncio.sleep(0.01)
        return entry

    async def save(self, entry: CatalogEntry, *, enabled: bool = True) -> CatalogEntry:
        spec = replace(entry.spec, enabled=enabled)
        return await self.services[ServerCatalog].change(self.owner, self.workspace, "weather", spec)

    async def tools(self) -> set[str]:
        return {each.name for each in await self.services[ToolPins].of(self.owner, self.workspace, "weather")}


@pytest.fixture
async def place(database: Database, clock: MovableClock) -> AsyncIterator[Place]:
    servers, registry = Servers(), Registry()
    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY)
    instead = {**servers.instead(), Packages: registry}
    services = build_services(settings, database, clock, WordEmbedder(), instead=instead)
    async with background(services):
        start = await first_start(services)
        yield Place(services, servers, registry, local_principal(start.organization_id), start.workspace_id)


@pytest.mark.contract("XA-2")
async def test_what_was_installed_is_started_once_and_has_its_tools(place: Place) -> None:
    assert (await place.register()).install == "installing"
    entry = await place.until(lambda entry: entry.probed_at is not None)
    assert (entry.install, entry.problem) == ("installed", None)
    assert {"add", "count"} <= await place.tools() and len(place.servers.starts) == 1


async def test_what_is_switched_off_is_started_when_it_is_switched_on(place: Place) -> None:
    await place.register(enabled=False)
    entry = await place.until(lambda entry: entry.install == "installed")
    assert place.servers.starts == [] and await place.tools() == set()
    await place.save(entry)
    await place.until(lambda entry: entry.probed_at is not None)
    assert "add" in await place.tools()


async def test_a_start_that_fails_is_said_on_the_entry_until_a_probe_succeeds(place: Place) -> None:
    place.servers.problem = "weather ended. WEATHER_HOST is required"
    await place.register()
    entry = await place.until(lambda entry: entry.problem is not None)
    assert entry.install == "installed" and entry.probed_at is None
    assert "Its tools are not known yet. weather ended." in (entry.problem or "")
    place.servers.problem = None
    await place.services[ToolPins].probe(place.owner, place.workspace, "weather")
    assert (await place.until(lambda entry: entry.probed_at is not None)).problem is None


async def test_what_could_not_be_installed_is_tried_again_when_it_is_saved_again(place: Place) -> None:
    place.registry.problem = "the registry is down"
    await place.register()
    entry = await place.until(lambda entry: entry.install == "failed")
    assert entry.problem == "the registry is down"
    place.registry.problem = None
    assert (await place.save(entry)).install == "installing"
    await place.until(lambda entry: entry.probed_at is not None)
    assert "add" in await place.tools()
