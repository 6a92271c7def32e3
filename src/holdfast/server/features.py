"""Owns the list of features, in order: the server is this list. A feature may use those above it."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from holdfast.core.parts import Build
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
    "knowledge",
    "synthesis",
    "ask",
    "interchange",
    "clients",
    "client_bundles",
    "server_tools",
    "chat",
    "deep_think",
    "turns",
    "responses",
)


@cache
def features() -> tuple[Feature, ...]:
    """What each adds. Saying so loads none of it."""
    found = []
    for name in NAMES:
        feature = import_module(f"holdfast.features.{name}.feature").FEATURE
        assert isinstance(feature, Feature) and feature.name == name
        found.append(feature)
    return tuple(found)


@cache
def _makers() -> dict[str, Feature]:
    """The feature that makes each class, by the class's name."""
    return {made: feature for feature in features() for made in (*feature.services, *feature.answers)}


def commands() -> dict[str, tuple[tuple[str, ...], str]]:
    """The commands that features bring: where each is declared, and its help."""
    listed: dict[str, tuple[tuple[str, ...], str]] = {}
    for feature in features():
        for name, (where, help) in feature.commands.items():
            before, said = listed.get(name, ((), help))
            listed[name] = ((*before, f"holdfast.features.{feature.name}.{where}"), said)
    return listed


def builder(kind: type[Any]) -> Build | None:
    """How a feature builds a class; None for what no feature builds."""
    feature = _makers().get(kind.__name__)
    if feature is None:
        return None
    build = feature.module("building").build
    assert isinstance(build, Building)
    return build.of(kind)


def named(names: tuple[str, ...], feature: Feature) -> Iterator[type[Any]]:
    """The classes of a feature that go by these names."""
    kinds = feature.module("building").build.kinds
    yield from (kinds[name] for name in names)
