"""Owns clients of a gate's socket: the MCP library's own, through socat, and raw ones that send whatever they like."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

ERAS = ("legacy", "auto")
"""With a handshake, and by discovery."""


def sdk_client(socket: Path, era: str = "auto") -> Client:
    """The MCP library's client, as an agent has it: socat between it and the socket."""
    command = StdioServerParameters(command="socat", args=["-", f"UNIX-CONNECT:{socket}"])
    return Client(stdio_client(command), mode=era)


@asynccontextmanager
async def hosted(client: Client) -> AsyncIterator[Client]:
    """A client that lives in a task of its own: pytest begins and ends fixtures in different ones."""
    ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def live() -> None:
        try:
            async with client as entered:
                ready.set_result(entered)
                await over.wait()
        except BaseException as problem:
            if not ready.done():
                ready.set_exception(problem)
            raise

    living = asyncio.create_task(live())
    try:
        yield await ready
    finally:
        over.set()
        await living


class RawClient:
    """Sends bytes as they are and reads lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._id = 0

    @classmethod
    async def connect(cls, socket: Path) -> "RawClient":
        reader, writer = await asyncio.open_unix_connection(str(socket), limit=32 << 20)
        return cls(reader, writer)

    async def send(self, line: bytes) -> None:
        self.writer.write(line)
        await self.writer.drain()

    async def read(self) -> dict[str, Any] | None:
        """The next message; None when the other end is closed."""
        with suppress(ConnectionError):
            async with asyncio.timeout(30):
                line = await self.reader.readline()
            if line:
                message: dict[str, Any] = json.loads(line)
                return message
        return None

    async def ask(self, method: str, params: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The answer to a request."""
        self._id += 1
        asked = {"jsonrpc": "2.0", "id": self._id, "method": method, **({} if params is None else {"params": params})}
        await self.send(json.dumps(asked | more).encode() + b"\n")
        while (answer := await self.read()) is not None:
            if answer.get("id") == self._id:
                return answer
        raise AssertionError("the gate hung up")

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a call, or the error."""
        answer = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        return dict(answer.get("result") or answer["error"])

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()
