"""Owns how the audit log is built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.engines.events.bus import EventBus
from holdfast.engines.master_key import KeyRing
from holdfast.features.audit.service import Audit
from holdfast.features.audit.visibility import Administered
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def audit(parts: Parts) -> Audit:
    return Audit(
        parts[Database],
        parts[KeyRing],
        parts[Settings].data_dir,
        parts[Clock],
        administered=parts[Administered],
        events=parts[EventBus],
    )
