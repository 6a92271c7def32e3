"""Owns how endpoints and the models behind them are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.engines.events.bus import EventBus
from holdfast.features.audit.service import Audit
from holdfast.features.endpoints.addresses import AddressRules
from holdfast.features.endpoints.models import EndpointModels
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.identity import store as identity_store
from holdfast.features.secrets.service import Secrets, SecretUses
from holdfast.features.workspaces import store as workspace_store
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def endpoints(parts: Parts) -> Endpoints:
    return Endpoints(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[Secrets],
        parts[Clock],
        identity_store.project_exists,
        workspace_store.ids_of_project,
        AddressRules(parts[Settings].upstream_allow),
        parts[EventBus],
    )


@build
def models(parts: Parts) -> EndpointModels:
    return EndpointModels(parts[Database], parts[Endpoints])


def secret_uses(parts: Parts) -> SecretUses:
    """Which secrets are sent where: the workspace, the name, the place."""
    return parts[Endpoints].secret_uses
