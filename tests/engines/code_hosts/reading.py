"""Owns how tests read a history to its end, and what was waited for on the way."""

from dataclasses import dataclass, field
from typing import Any

from holdfast.engines.code_hosts.history import HostHistory, HostItem, HostItemKind

YEAR = 1_767_225_600_000


@dataclass
class Waits:
    """A sleep that only remembers how long it should have been."""

    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def read(
    history: HostHistory, kind: HostItemKind, since: int | None = None, *, name: str = "octo/tides", **more: Any
) -> list[HostItem]:
    return [item async for item in history.items(name, kind, since, **more)]
