"""Owns how a server is put together from its features: parts, registries, jobs, what runs beside."""

from collections.abc import Iterator
from typing import Any, Protocol, cast

from holdfast.core.clock import Clock
from holdfast.core.parts import Build, Parts
from holdfast.core.settings import Settings
from holdfast.registry.entities import Entities, EntityType
from holdfast.registry.topics import Topics
from holdfast.server import engines, features
from holdfast.server.engines import Step
from holdfast.storage.database import Database


class _Closing(Protocol):
    async def close(self) -> None: ...


def build_parts(settings: Settings, database: Database, clock: Clock, given: dict[type[Any], object] = {}) -> Parts:
    """Everything on one database, each built when first used. `given` takes the place of what would be built."""
    return Parts(_builder, {Settings: settings, Database: database, Clock: clock, **given})


def _builder(kind: type[Any]) -> Build | None:
    return _REGISTRIES.get(kind.__name__) or features.builder(kind) or engines.builder(kind)


def _entities(parts: Parts) -> Entities:
    def types() -> Iterator[EntityType]:
        for feature in features.features():
            if feature.entities:
                yield from feature.module("entities").ENTITIES

    # The latest first: what was derived from a thing goes before what ties it to others.
    following = [feature for feature in reversed(features.features()) if feature.reacts]
    naming = [feature for feature in features.features() if feature.names_things]
    return Entities(
        types,
        lambda: [feature.module("building").forgotten(parts) for feature in following],
        lambda: [feature.module("building").named(parts) for feature in naming],
    )


def _topics(parts: Parts) -> Topics:
    nouns = {noun: topic for feature in features.features() for noun, topic in feature.topics.items()}
    return Topics({noun: nouns[noun] for noun in sorted(nouns)})


def _gateway(parts: Parts) -> object:
    # Imported only where tools are called: most commands call none.
    from holdfast.server.tools import build_gateway, catalog

    return build_gateway(parts, lambda: catalog(parts))


_REGISTRIES: dict[str, Build] = {"Entities": _entities, "Topics": _topics, "Gateway": _gateway}


def background(parts: Parts) -> Iterator[tuple[str, Step, Step]]:
    """What works beside the requests: name, run, stop; stopped in reverse order."""
    for feature in features.features():
        for kind in features.named(feature.background, feature):
            yield kind.__name__, parts[kind].run, parts[kind].stop
    yield from engines.background(parts)


async def close(parts: Parts) -> None:
    """Hang up, and end child processes: of what was made, the last first."""
    closing = {*engines.CLOSES, *(name for feature in features.features() for name in feature.closes)}
    for made in reversed(parts.made):
        if type(made).__name__ in closing:
            await cast(_Closing, made).close()
