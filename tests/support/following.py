"""Owns reading Server-Sent Events in tests, each wait bounded."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

SECONDS = 60


@dataclass(slots=True)
class Followed:
    """A stream of events as they come."""

    _lines: AsyncIterator[str]
    comments: list[str] = field(default_factory=list)
    last_id: str = ""

    async def begin(self) -> None:
        """Read what comes before any event: `last_id` is the place to go on from then."""
        async with asyncio.timeout(SECONDS):
            while line := await anext(self._lines):
                self._note(line)

    async def next(self) -> dict[str, Any]:
        """The next event's data; StopAsyncIteration once the stream has ended."""
        async with asyncio.timeout(SECONDS):
            name, data = "", ""
            async for line in self._lines:
                if line == "" and data:
                    found: dict[str, Any] = json.loads(data)
                    assert found["topic"] == name
                    return found
                kind, value = self._note(line)
                name = value if kind == "event" else name
                data = value if kind == "data" else data
            raise StopAsyncIteration

    def _note(self, line: str) -> tuple[str, str]:
        kind, _, value = line.partition(": ")
        if line.startswith(":"):
            self.comments.append(value)
        elif kind == "id":
            self.last_id = value
        return kind, value

    async def until(self, topic: str) -> list[dict[str, Any]]:
        """Every event up to the next of this topic."""
        found = [await self.next()]
        while found[-1]["topic"] != topic:
            found.append(await self.next())
        return found

    async def rest(self) -> list[dict[str, Any]]:
        """Every event up to the end of the stream."""
        found = []
        while True:
            try:
                found.append(await self.next())
            except StopAsyncIteration:
                return found


@asynccontextmanager
async def following(
    client: httpx.AsyncClient, workspace_id: str | None, topics: str | None = None, *, after: str | None = None
) -> AsyncIterator[Followed]:
    """Follow a workspace, or all that one sees; what happens from here on comes."""
    async with client.stream(
        "GET",
        "/api/events" if workspace_id is None else f"/api/workspaces/{workspace_id}/events",
        params={} if topics is None else {"topics": topics},
        headers={} if after is None else {"Last-Event-ID": after},
    ) as answer:
        assert answer.status_code == 200, (await answer.aread()).decode()
        assert answer.headers["content-type"] == "text/event-stream"
        yield Followed(answer.aiter_lines())
