"""Owns how the catalog is built."""

from collections.abc import Iterable

from holdfast.core.clock import Clock
from holdfast.core.credential import Place
from holdfast.core.parts import Parts
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs import JobRun
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.master_key import KeyRing
from holdfast.engines.mcp_client.pool import ConnectionPool
from holdfast.engines.runtime.base import RunLimits, Runtime
from holdfast.engines.runtime.images import Images
from holdfast.engines.runtime.packages import Packages
from holdfast.engines.web import WebAccess
from holdfast.features.audit.service import Audit
from holdfast.features.catalog import store
from holdfast.features.catalog.details import ServerDetails
from holdfast.features.catalog.manifest import places_of
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.address import PublicAddress
from holdfast.features.catalog.servers.addresses import references_in
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStarts
from holdfast.features.catalog.servers.installing import KIND, Installations
from holdfast.features.catalog.servers.kept_logins import KeptLogins
from holdfast.features.catalog.servers.logins import RemoteLogins
from holdfast.features.catalog.servers.paths import PathRules
from holdfast.features.catalog.servers.remote_clients import RemoteClients
from holdfast.features.catalog.servers.states import ServerStates, StateSweep
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.catalog.snippets.importing import SnippetImport
from holdfast.features.identity.keys import store as key_store
from holdfast.features.jobs.service import JobService
from holdfast.features.secrets.references import References, referred
from holdfast.features.secrets.service import Secrets, SecretUses
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.registry.seals import Reseal
from holdfast.storage.database import Database, Tx
from holdfast.storage.running import known_url

build = Building()


@build
def catalog(parts: Parts) -> ServerCatalog:
    return ServerCatalog(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[References],
        parts[EventBus],
        parts[Clock],
        parts[ServerConnections],
        parts[Installations],
        PathRules(parts[Settings].data_dir, parts[Settings].server_paths),
        parts[RemoteClients],
    )


@build
def packages(parts: Parts) -> Packages:
    return Packages(parts[Settings].data_dir.expanduser() / "servers" / "packages")


@build
def images(parts: Parts) -> Images:
    return Images(parts[Settings].data_dir.expanduser() / "servers" / "images")


@build
def installations(parts: Parts) -> Installations:
    return Installations(parts[JobEngine], parts[EventBus], parts[Clock], parts[Packages], parts[Images])


@build
def connections(parts: Parts) -> ServerConnections:
    settings = parts[Settings]
    return ServerConnections(
        parts[Runtime],
        parts[Packages],
        parts[Images],
        ConnectionPool(most=settings.server_most, idle_seconds=settings.server_idle_seconds),
        lambda start: parts[RemoteLogins].open(start),
        RunLimits(memory_bytes=settings.server_memory_mb << 20),
        parts[ServerStates],
    )


@build
def states(parts: Parts) -> ServerStates:
    settings = parts[Settings]
    return ServerStates(settings.data_dir.expanduser() / "servers" / "state", settings.server_state_mb << 20)


@build
def sweep(parts: Parts) -> StateSweep:
    return StateSweep(parts[Database], parts[ServerStates])


@build
def logins(parts: Parts) -> RemoteLogins:
    return RemoteLogins(
        parts[Database],
        parts[Workspaces],
        parts[KeyRing],
        parts[WebAccess].guard,
        parts[Clock],
        lambda: parts[PublicAddress].url,
        parts[KeptLogins],
        parts[RemoteClients],
        _owner,
    )


@build
def kept_logins(parts: Parts) -> KeptLogins:
    return KeptLogins(parts[Database], parts[KeyRing], parts[Clock])


@build
def clients(parts: Parts) -> RemoteClients:
    return RemoteClients(parts[KeptLogins], parts[WebAccess].guard, lambda: parts[PublicAddress].url)


def reseal(parts: Parts) -> Reseal:
    """Logins at remote servers, and as whom we are registered there."""
    return parts[KeptLogins].reseal


@build
def address(parts: Parts) -> PublicAddress:
    return PublicAddress(known_url(parts[Settings]))


def handle_jobs(parts: Parts) -> None:
    """Install packages and unpack images, and see their tools."""
    installations = parts[Installations]

    async def run(job: JobRun) -> None:
        await installations.run(job, parts[ToolPins].probe)

    parts[JobEngine].handle(KIND, run, concurrency=2, max_attempts=3, ended=installations.ended)


@build
def starts(parts: Parts) -> ServerStarts:
    return ServerStarts(parts[Database], parts[References], _owner)


@build
def pins(parts: Parts) -> ToolPins:
    return ToolPins(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[EventBus],
        parts[Clock],
        parts[ServerCatalog],
        parts[ServerStarts],
        parts[ServerConnections],
    )


@build
def details(parts: Parts) -> ServerDetails:
    return ServerDetails(parts[ServerCatalog], parts[ToolPins], parts[RemoteLogins], parts[JobService])


@build
def snippets(parts: Parts) -> SnippetImport:
    return SnippetImport(parts[Database], parts[ServerCatalog], parts[Secrets])


def secret_uses(parts: Parts) -> SecretUses:
    """Which secrets are sent where: the workspace, the name, the place."""

    def uses(tx: Tx) -> Iterable[tuple[str, str, Place]]:
        for entry in store.every(tx):
            spec = entry.spec
            given = (spec.env, spec.headers, references_in(spec.url or ""))
            named = [referred(value) for values in given for value in values.values()]
            for name in named:
                for place in places_of(entry.spec) if name is not None else ():
                    yield entry.workspace_id, str(name), place

    return uses


def _owner(tx: Tx, principal: Principal) -> str | None:
    if principal.is_person:
        return principal.actor
    return key_store.person_behind(tx, principal.organization_id, principal.actor)
