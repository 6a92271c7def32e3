"""Owns what running servers say of their tools now, to be held against what was pinned."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.engines.mcp_client.base import Connection, ServerDescription
from holdfast.features.catalog.pins import description_of, digest_of

RECHECK_SECONDS = 60.0
"""How long what a running server said of its tools is taken for granted."""


@dataclass(frozen=True, slots=True)
class LiveDescription:
    """What a server said of itself, and the digest of each of its tools; of twins the first counts."""

    described: ServerDescription
    digests: Mapping[str, str]


class LiveTools:
    """Asks running servers for their tools, each not more often than needed."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Connection, float, LiveDescription]] = {}

    def known(self, connection: Connection) -> LiveDescription | None:
        """What the server at the other end said, if that is not too long ago."""
        known = self._known.get(id(connection))
        if known is not None and known[0] is connection and time.monotonic() - known[1] <= RECHECK_SECONDS:
            return known[2]
        return None

    async def of(self, connection: Connection) -> LiveDescription:
        """What the server at the other end says."""
        known = self.known(connection)
        if known is not None:
            return known
        now = time.monotonic()
        described = await connection.describe()
        digests: dict[str, str] = {}
        for tool in described.tools:
            digests.setdefault(tool.name, digest_of(description_of(tool)))
        live = LiveDescription(described, digests)
        self._known = {key: each for key, each in self._known.items() if not each[0].closed}
        self._known[id(connection)] = (connection, now, live)
        return live
