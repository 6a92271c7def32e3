"""Owns Parts: what a server is made of, each part built when it is first asked for."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

_Part = TypeVar("_Part")

Build = Callable[["Parts"], object]
"""Makes one part from others: `lambda parts: MemoryService(parts[Database], parts[Audit], …)`."""


class Builders(Protocol):
    """Knows how to make a part of a class."""

    def __call__(self, kind: type[Any]) -> Build | None: ...


class Parts:
    """Services and engines by their class. `parts[MemoryService]` makes it, and what it needs, once."""

    def __init__(self, builders: Builders, given: Mapping[type[Any], object]) -> None:
        """`given` are parts that exist already: the settings, the database, the clock."""
        self._builders = builders
        self._made: dict[type[Any], object] = dict(given)
        self._making: list[type[Any]] = []
        self._building = threading.RLock()

    def __getitem__(self, kind: type[_Part]) -> _Part:
        made = self._made.get(kind)
        if made is None:
            # Transactions run on threads of the store, and may be the first to need a part.
            with self._building:
                made = self._made.get(kind)
                if made is None:
                    made = self._made[kind] = self._make(kind)
        return cast(_Part, made)

    def __contains__(self, kind: type[Any]) -> bool:
        """Whether it was made already."""
        return kind in self._made

    @property
    def made(self) -> tuple[object, ...]:
        """What was made so far, in the order in which it was finished."""
        return tuple(self._made.values())

    def _make(self, kind: type[Any]) -> object:
        if kind in self._making:
            circle = " → ".join(each.__name__ for each in (*self._making, kind))
            raise LookupError(f"These parts need each other: {circle}.")
        build = self._builders(kind)
        if build is None:
            raise LookupError(f"No feature builds {kind.__module__}.{kind.__qualname__}; name it in its feature.py.")
        self._making.append(kind)
        try:
            return build(self)
        finally:
            self._making.pop()
