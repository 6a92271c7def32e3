"""Owns how secrets are built."""

from typing import TYPE_CHECKING

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.engines.master_key import KeyRing
from holdfast.features.audit.service import Audit
from holdfast.features.secrets.moving import SecretStores
from holdfast.features.secrets.references import References
from holdfast.features.secrets.service import Secrets
from holdfast.features.secrets.values import SecretValues
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.registry.seals import Seals
from holdfast.storage.database import Database

if TYPE_CHECKING:
    from holdfast.engines.runtime.kubernetes.kept import KeptSecrets

build = Building()


@build
def values(parts: Parts) -> SecretValues:
    where = parts[Settings].secrets_store
    return SecretValues(parts[Database], parts[KeyRing], parts[Clock], lambda: _cluster(parts), where)


def _cluster(parts: Parts) -> "KeptSecrets":
    # Most servers have none: what it needs is not loaded for them.
    from holdfast.engines.runtime.kubernetes.kept import KeptSecrets

    return parts[KeptSecrets]


@build
def secrets(parts: Parts) -> Secrets:
    return Secrets(
        parts[Database],
        parts[Audit],
        parts[Workspaces],
        parts[KeyRing],
        parts[Clock],
        parts[Seals],
        parts[SecretValues],
    )


@build
def stores(parts: Parts) -> SecretStores:
    return SecretStores(parts[Database], parts[Audit], parts[SecretValues])


@build
def references(parts: Parts) -> References:
    return References(parts[Secrets])
