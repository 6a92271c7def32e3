"""Owns how a server is put together from its features: parts, registries, jobs, what runs beside."""

from collections.abc import Iterator
from typing import Any, Protocol, cast

from holdfast.core.clock import Clock
from holdfast.core.parts import Build, Parts
from holdfast.core.settings import Settings
from holdfast.registry.entities import Entities, EntityType
from holdfast.registry.topics import Topics
from holdfast.server import engines
from holdfast.server.engines import Step
from holdfast.server.features import Features, brought, features, named
from holdfast.storage.database import Database


class _Closing(Protocol):
    async def close(self) -> None: ...


def build_parts(settings: Settings, database: Database, clock: Clock, given: dict[type[Any], object] = {}) -> Parts:
    """Everything on one database, each built when first used. `given` takes the place of what would be built."""
    made = {Features: features(), Settings: settings, Database: database, Clock: clock, **given}
    listed = cast(Features, made[Features])

    def builder(kind: type[Any]) -> Build | None:
        return _REGISTRIES.get(kind.__name__) or listed.builder(kind) or engines.builder(kind)

    return Parts(builder, made)


def _entities(parts: Parts) -> Entities:
    def types() -> Iterator[EntityType]:
        for feature in parts[Features]:
            if feature.entities:
                yield from feature.module("entities").ENTITIES

    # The latest first: what was derived from a thing goes before what ties it to others.
    following = [feature for feature in reversed(parts[Features]) if feature.reacts]
    naming = [feature for feature in parts[Features] if feature.names_things]
    return Entities(
        types,
        lambda: [feature.module("building").forgotten(parts) for feature in following],
        lambda: [feature.module("building").named(parts) for feature in naming],
    )


def _topics(parts: Parts) -> Topics:
    nouns = {noun: topic for feature in parts[Features] for noun, topic in feature.topics.items()}
    return Topics({noun: nouns[noun] for noun in sorted(nouns)})


# Each of these is imported only where it is asked for: most commands call no tool, and no agent reads there.


def _gateway(parts: Parts) -> object:
    from holdfast.server.tools import build_gateway, catalog

    return build_gateway(parts, lambda: catalog(parts))


def _prompts(parts: Parts) -> object:
    from holdfast.registry.prompts import Prompts

    # The latest first: what shows the whole workspace stands before what writes one thing.
    return Prompts(lambda: brought(parts, reversed(parts[Features]), "prompts"))


def _resources(parts: Parts) -> object:
    from holdfast.registry.resources import Resources

    return Resources(lambda: brought(parts, parts[Features], "resources"))


def _methods(parts: Parts) -> object:
    from holdfast.registry.methods import Methods

    return Methods(lambda: brought(parts, parts[Features], "methods"))


def _seals(parts: Parts) -> object:
    from holdfast.registry.seals import Seals

    sealing = [feature for feature in parts[Features] if feature.seals]
    return Seals(lambda: [feature.module("building").reseal(parts) for feature in sealing])


def _model_door(parts: Parts) -> object:
    from holdfast.server.endpoints.model_door import EndpointDoor

    return EndpointDoor(parts[Settings], parts)


_REGISTRIES: dict[str, Build] = {
    "Entities": _entities,
    "Topics": _topics,
    "Gateway": _gateway,
    "Prompts": _prompts,
    "Resources": _resources,
    "Methods": _methods,
    "Seals": _seals,
    "ModelDoor": _model_door,
}


def background(parts: Parts) -> Iterator[tuple[str, Step, Step, bool]]:
    """What works beside the requests: name, run, stop, whether one process does it for all; stopped in reverse."""
    for feature in parts[Features]:
        for kind in named((*feature.background, *feature.background_once), feature):
            yield kind.__name__, parts[kind].run, parts[kind].stop, kind.__name__ in feature.background_once
    yield from engines.background(parts)


async def close(parts: Parts) -> None:
    """Hang up, and end child processes: of what was made, the last first."""
    closing = {*engines.CLOSES, *(name for feature in parts[Features] for name in feature.closes)}
    for made in reversed(parts.made):
        if type(made).__name__ in closing:
            await cast(_Closing, made).close()
