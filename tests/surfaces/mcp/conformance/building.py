"""Owns how what the conformance suite asks for is made."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.parts import Parts
from holdfast.core.principal import Principal
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.events.bus import EventBus
from holdfast.registry.feature import Building
from holdfast.registry.methods import Method
from holdfast.registry.prompts import Prompt
from holdfast.registry.resources import Resource, ResourceTemplate
from holdfast.storage.database import Database
from tests.surfaces.mcp.conformance import reading
from tests.surfaces.mcp.conformance.tools import Fixtures

build = Building()


def tools(parts: Parts) -> list[AnyTool]:
    return Fixtures(parts[Database], parts[EventBus]).tools


def prompts(parts: Parts) -> list[Prompt]:
    return reading.prompts()


def resources(parts: Parts) -> list[Resource | ResourceTemplate]:
    return reading.resources()


def methods(parts: Parts) -> list[Method]:
    """Logging is gone from the newest revision and the product has none; the older suite asks for it."""

    async def set_level(principal: Principal, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    return [Method("logging/setLevel", set_level)]
