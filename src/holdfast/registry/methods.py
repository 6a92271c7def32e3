"""Owns Method: a request of MCP beyond tools, prompts and resources, declared by the feature that answers it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdfast.core.principal import Principal


@dataclass(frozen=True, slots=True)
class Method:
    """A method that only some servers have, such as those of tasks; a client asks for what the handshake told it."""

    name: str
    answer: Callable[[Principal, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
    """The result, from the parameters as they were sent."""


class Methods:
    """Every method that the features bring."""

    def __init__(self, methods: Callable[[], Iterable[Method]]) -> None:
        self._declared = methods

    @cached_property
    def all(self) -> dict[str, Method]:
        """The methods by name."""
        found: dict[str, Method] = {}
        for method in self._declared():
            if method.name in found:
                raise ValueError(f"two features answer {method.name}")
            found[method.name] = method
        return found
