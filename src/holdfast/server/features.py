"""Owns the list of features, in order: the server is this list. A feature may use those above it."""

from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Literal

from holdfast.core.parts import Build, Parts
from holdfast.registry.feature import Building, Feature

NAMES = (
    "audit",
    "usage",
    "identity",
    "workspaces",
    "secrets",
    "endpoints",
    "memory",
    "documents",
    "artifacts",
    "jobs",
    "repositories",
    "intelligence",
    "collections",
    "synthesis",
    "ask",
    "cases",
    "interchange",
    "clients",
    "client_bundles",
    "catalog",
    "execution",
    "agents",
    "server_tools",
    "chat",
    "deep_think",
    "turns",
    "responses",
)


class Features:
    """What a server is made of, in order. A part itself, so that whatever is built asks the same list."""

    def __init__(self, listed: Iterable[Feature]) -> None:
        self._listed = tuple(listed)

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._listed)

    def __reversed__(self) -> Iterator[Feature]:
        return reversed(self._listed)

    def builder(self, kind: type[Any]) -> Build | None:
        """How a feature builds a class; None for what no feature builds."""
        feature = self._makers.get(kind.__name__)
        if feature is None:
            return None
        build = feature.module("building").build
        assert isinstance(build, Building)
        return build.of(kind)

    @cached_property
    def _makers(self) -> dict[str, Feature]:
        """The feature that makes each class, by the class's name."""
        return {made: feature for feature in self for made in (*feature.services, *feature.answers)}


@cache
def features() -> Features:
    """The product's. Saying what each adds loads none of it."""
    found = []
    for name in NAMES:
        feature = import_module(f"holdfast.features.{name}.feature").FEATURE
        assert isinstance(feature, Feature) and feature.name == name
        found.append(feature)
    return Features(found)


def commands() -> dict[str, tuple[tuple[str, ...], str]]:
    """The commands that features bring: where each is declared, and its help."""
    listed: dict[str, tuple[tuple[str, ...], str]] = {}
    for feature in features():
        for name, (where, help) in feature.commands.items():
            before, said = listed.get(name, ((), help))
            listed[name] = ((*before, f"{feature.package}.{feature.name}.{where}"), said)
    return listed


Brought = Literal["tools", "aliases", "prompts", "resources", "methods"]
"""What agents are served, by the name of the function in `building.py` that gives it."""


def brought(parts: Parts, by: Iterable[Feature], what: Brought) -> list[Any]:
    """What those features bring that say they do."""
    bringing = (getattr(feature.module("building"), what) for feature in by if getattr(feature, what))
    return [each for bring in bringing for each in bring(parts)]


def named(names: tuple[str, ...], feature: Feature) -> Iterator[type[Any]]:
    """The classes of a feature that go by these names."""
    kinds = feature.module("building").build.kinds
    yield from (kinds[name] for name in names)
