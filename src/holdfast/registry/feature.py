"""Owns Feature: what one folder of `features/` adds to the server, said without loading any of it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from holdfast.core.parts import Build, Parts
from holdfast.registry.topics import Topic

_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What a feature adds. Names of modules are files of its own folder, loaded when somebody needs what is in them."""

    name: str
    """Its folder below `package`."""
    package: str = "holdfast.features"
    """Where its folder is."""
    services: tuple[str, ...] = ()
    """The classes that its `building.py` makes, by name."""
    answers: tuple[str, ...] = ()
    """What features below it ask of those above, which it answers: also made in `building.py`."""
    tools: bool = False
    """Whether `building.tools(parts)` gives tools that models call."""
    aliases: bool = False
    """Whether `building.aliases(parts)` gives other names for tools, with their own arguments and answers."""
    prompts: bool = False
    """Whether `building.prompts(parts)` gives texts that people put into a conversation with an agent."""
    resources: bool = False
    """Whether `building.resources(parts)` gives what agents read at an address."""
    methods: bool = False
    """Whether `building.methods(parts)` answers requests of MCP beyond tools, prompts and resources."""
    operations: tuple[str, ...] = ()
    """Modules with REST operations, each in its `api`."""
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Commands of `holdfast`: where each is declared, such as `commands:memory`, and its help in the list of all.

    Several features can give commands to one group: the first of them names it.
    """
    jobs: tuple[str, ...] = ()
    """Kinds of background jobs that `building.handle_jobs(parts)` gives handlers to."""
    background: tuple[str, ...] = ()
    """Services, by name, that work beside the requests in each process: each has `run` and `stop`."""
    background_once: tuple[str, ...] = ()
    """The same for what one process does for all that share a data directory."""
    closes: tuple[str, ...] = ()
    """Services, by name, that hold connections or processes: each has `close`."""
    entities: bool = False
    """Whether `entities.py` says what kinds of things it keeps, as `ENTITIES`."""
    reacts: bool = False
    """Whether `building.forgotten(parts)` follows when something of another feature is removed."""
    names_things: bool = False
    """Whether `building.named(parts)` finds what a query names outright."""
    uses_secrets: bool = False
    """Whether `building.secret_uses(parts)` tells which secrets it sends where."""
    seals: bool = False
    """Whether `building.reseal(parts)` seals anew what it keeps under the master key."""
    topics: Mapping[str, Topic] = field(default_factory=dict)
    """What it tells subscribers about, by noun."""
    migrations: tuple[str, ...] = ()
    """The files of `storage/migrations` that hold its tables."""
    contract: tuple[str, ...] = ()
    """The rows of the contract that it keeps."""

    def module(self, name: str) -> ModuleType:
        """One of its files."""
        return import_module(f"{self.package}.{self.name}.{name}")


class Building:
    """Collects the functions that build a feature's services; what they return says what they build."""

    def __init__(self) -> None:
        self._builds: dict[str, Build] = {}
        self.kinds: dict[str, type[Any]] = {}
        """The classes that are built here, by name, but for those in quotes."""

    def __call__(self, build: Callable[[Parts], _Part]) -> Callable[[Parts], _Part]:
        # A class in quotes is one that the function imports itself: what else is built here can do without it.
        kind = inspect.get_annotations(build).get("return")
        name = kind if isinstance(kind, str) else kind.__name__ if inspect.isclass(kind) else None
        if name is None:
            raise TypeError(f"{build.__qualname__} says nothing of what it builds; annotate what it returns.")
        if name in self._builds:
            raise ValueError(f"Two functions build {name}.")
        self._builds[name] = build
        if inspect.isclass(kind):
            self.kinds[name] = kind
        return build

    def of(self, kind: type[Any]) -> Build:
        """How a class of that name is built."""
        return self._builds[kind.__name__]

    @property
    def names(self) -> frozenset[str]:
        """The classes that are built here."""
        return frozenset(self._builds)
