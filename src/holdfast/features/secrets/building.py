"""Owns how secrets are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.engines.master_key import KeyRing
from holdfast.features.audit.service import Audit
from holdfast.features.secrets.references import References
from holdfast.features.secrets.service import Secrets
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.feature import Building
from holdfast.registry.seals import Seals
from holdfast.storage.database import Database

build = Building()


@build
def secrets(parts: Parts) -> Secrets:
    return Secrets(parts[Database], parts[Audit], parts[Workspaces], parts[KeyRing], parts[Clock], parts[Seals])


@build
def references(parts: Parts) -> References:
    return References(parts[Secrets])
