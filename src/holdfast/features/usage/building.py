"""Owns how usage and its limits are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.engines.events.bus import EventBus
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.service import Spenders, Usage
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def limiter(parts: Parts) -> Limiter:
    return Limiter(parts[Database], parts[Clock])


@build
def usage(parts: Parts) -> Usage:
    return Usage(parts[Database], parts[Clock], parts[Spenders], parts[EventBus])
