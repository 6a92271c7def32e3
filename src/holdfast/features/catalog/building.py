"""Owns how the catalog is built."""

from collections.abc import Iterable

from holdfast.core.clock import Clock
from holdfast.core.credential import Place
from holdfast.core.parts import Parts
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.features.audit.service import Audit
from holdfast.features.catalog import store
from holdfast.features.catalog.importing import SnippetImport
from holdfast.features.catalog.manifest import places_of
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers import ServerConnections, ServerStarts
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.identity.keys import store as key_store
from holdfast.features.secrets.references import References, referred
from holdfast.features.secrets.service import Secrets, SecretUses
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database, Tx

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
        lambda tx, entry: entry,
    )


@build
def connections(parts: Parts) -> ServerConnections:
    raise NotImplementedError


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
def snippets(parts: Parts) -> SnippetImport:
    return SnippetImport(parts[Database], parts[ServerCatalog], parts[Secrets])


def secret_uses(parts: Parts) -> SecretUses:
    """Which secrets are sent where: the workspace, the name, the place."""

    def uses(tx: Tx) -> Iterable[tuple[str, str, Place]]:
        for entry in store.every(tx):
            named = [referred(value) for value in (*entry.spec.env.values(), *entry.spec.headers.values())]
            for name in named:
                for place in places_of(entry.spec) if name is not None else ():
                    yield entry.workspace_id, str(name), place

    return uses


def _owner(tx: Tx, principal: Principal) -> str | None:
    if principal.is_person:
        return principal.actor
    return key_store.person_behind(tx, principal.organization_id, principal.actor)
