"""An MCP server without a process: it counts its runs, and waits where a test tells it to."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from holdfast.engines.mcp_client.base import (
    CallResult,
    LoginNeeded,
    ServedTool,
    ServerDescription,
    ServerFailed,
    TellProgress,
)
from holdfast.engines.runtime.base import RunSpec
from holdfast.features.catalog.servers.connections import ServerConnections, ServerStart
from tests.fakes.mcp.counting import TOOLS


class InsideServer:
    """A connection that is its own server."""

    def __init__(self) -> None:
        self.tools: list[dict[str, Any]] = [dict(tool) for tool in TOOLS]
        self.runs: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.is_dying = False
        self.refusal: LoginNeeded | None = None
        """What it says instead of doing anything."""
        self.closed = False

    async def describe(self) -> ServerDescription:
        return ServerDescription({"name": "inside", "version": "1"}, "2025-11-25", tuple(map(_served, self.tools)))

    async def call(
        self, tool: str, arguments: Mapping[str, Any], *, progress: TellProgress | None = None
    ) -> CallResult:
        if self.refusal is not None:
            raise self.refusal
        self.runs[tool] += 1
        self.begun.set()
        if self.is_dying:
            raise ServerFailed("inside ended in the middle of the call.")
        if tool == "slow":
            if progress is not None:
                await progress(1, 2, "half")
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cancelled[tool] += 1
                raise
        if tool == "fail":
            return CallResult(({"type": "text", "text": "It went wrong."},), None, True)
        if tool == "long":
            return CallResult(({"type": "text", "text": "x" * int(arguments["characters"])},), None, False)
        if tool == "add":
            total = arguments["left"] + arguments.get("right", 0)
            return CallResult(({"type": "text", "text": str(total)},), {"total": total}, False)
        return CallResult(({"type": "text", "text": f"{tool} {self.runs[tool]}"},), None, False)

    def logs(self) -> str:
        return "inside is ready"

    async def close(self) -> None:
        self.closed = True


class InsideServers:
    """Every entry is the one server inside."""

    def __init__(self) -> None:
        self.server = InsideServer()
        self.starts: list[ServerStart] = []

    @asynccontextmanager
    async def connection(self, start: ServerStart) -> AsyncIterator[InsideServer]:
        self.starts.append(start)
        yield self.server

    def running(self, start: ServerStart) -> InsideServer | None:
        return self.server if any(each.key == start.key for each in self.starts) else None

    async def open(self, start: ServerStart) -> InsideServer:
        self.starts.append(start)
        return self.server

    async def spec(self, start: ServerStart) -> RunSpec:
        """It runs nowhere."""
        return RunSpec(name=start.entry.spec.name, command=("true",))

    async def describe(self, start: ServerStart) -> ServerDescription:
        self.starts.append(start)
        return await self.server.describe()

    def logs(self, server_id: str) -> str:
        return self.server.logs()

    async def retire(self, server_id: str) -> None:
        """Nothing runs that could be stopped."""

    async def forget(self, server_id: str) -> None:
        """Nothing was kept."""

    async def close(self) -> None:
        """Nothing runs that could be stopped."""

    def instead(self) -> Mapping[type[Any], object]:
        """What takes the place of the product's own."""
        return {ServerConnections: self}


def _served(tool: Mapping[str, Any]) -> ServedTool:
    return ServedTool(
        tool["name"],
        tool.get("title"),
        tool["description"],
        tool["inputSchema"],
        tool.get("outputSchema"),
        tool.get("annotations", {}),
    )
