"""Lists the files of `src` that one request passes, in the order of their first call: python -m bench.walk [--list]."""

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import holdfast
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving

SRC = Path(holdfast.__file__).parent
JSON = {"Accept": "application/json, text/event-stream"}
SAVE = {"name": "xerotier.memory.save", "arguments": {"content": "We deploy on Thursdays after lunch"}}


class Passing:
    """The files whose functions are called while it looks, on every thread that was started since it was installed."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._looking = False

    def install(self) -> None:
        """Look at calls from now on, here and on later threads."""
        sys.setprofile(self._call)
        threading.setprofile(self._call)

    @contextmanager
    def during(self) -> Iterator[list[str]]:
        """The files that are passed inside."""
        self.files, self._looking = [], True
        try:
            yield self.files
        finally:
            self._looking = False

    def _call(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self._looking or event != "call":
            return
        name = frame.f_code.co_filename
        if name.startswith(str(SRC)):
            short = str(Path(name).relative_to(SRC))
            if short not in self.files:
                self.files.append(short)


async def mcp_save(server: TestServer, passing: Passing) -> list[str]:
    """`memory.save` over MCP, in a session that is initialised."""
    url = f"/{server.start.project_id}/v1/mcp"
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "walk", "version": "1"}}
    async with server.client(**JSON, **{"X-Xerotier-Workspace": server.start.workspace_id}) as client:
        opened = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)

        async def save(number: int) -> None:
            text = {**SAVE, "arguments": {"content": f"We deploy on Thursdays, {number} hours after lunch"}}
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": text}
            (await client.post(url, json=request, headers=session)).raise_for_status()

        return await _second(passing, save)


async def chat_with_tool(server: TestServer, passing: Passing) -> list[str]:
    """A chat completion of the embedded model that calls the calculator."""
    url = f"/{server.start.project_id}/default/v1/chat/completions"
    async with server.client() as client:

        async def ask(number: int) -> None:
            asked = {"role": "user", "content": f"What is 12 * {number}?"}
            (await client.post(url, json={"model": "m", "messages": [asked]})).raise_for_status()

        return await _second(passing, ask)


async def rest_read(server: TestServer, passing: Passing) -> list[str]:
    """One memory over REST."""
    base = f"/api/workspaces/{server.start.workspace_id}/memories"
    async with server.client() as client:
        slug = (await client.post(base, json={"content": "The lamp turns at dusk because ships pass"})).json()["slug"]

        async def read(number: int) -> None:
            (await client.get(f"{base}/{slug}")).raise_for_status()

        return await _second(passing, read)


async def repos_ask(server: TestServer, passing: Passing) -> list[str]:
    """A question about this repository, as `holdfast repos ask` asks the service."""
    repositories, owner = server.services.repositories, server.owner
    new = _new_repository(str(SRC.parents[1]))
    added = await repositories.add(owner, server.start.workspace_id, new)
    await server.services.jobs.wait(str(added.job_id), timeout_seconds=300)

    async def ask(number: int) -> None:
        await server.services.ask.ask(owner, [added.slug], f"Who wrote the calculator, {number}?", source="cli")

    return await _second(passing, ask)


def _new_repository(path: str) -> Any:
    from holdfast.features.repositories.model import NewRepository

    return NewRepository(path)


async def _second(passing: Passing, call: Callable[[int], Awaitable[None]]) -> list[str]:
    """The files of the second call: what the first one imports and builds is no part of a request."""
    await call(7)
    await asyncio.sleep(0.5)
    with passing.during() as files:
        await call(11)
    return files


async def main(shown: bool) -> None:
    """Walk all four."""
    passing = Passing()
    passing.install()
    with tempfile.TemporaryDirectory() as directory:
        database = SqliteDatabase(Path(directory) / "holdfast.db")
        await migrate(database)
        async with serving(database, data_dir=Path(directory)) as server:
            for walk in (mcp_save, chat_with_tool, rest_read, repos_ask):
                files = await walk(server, passing)
                print(f"{walk.__name__}: {len(files)} files")
                if shown:
                    print("  " + " → ".join(files))
        await database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the files")
    asyncio.run(main(parser.parse_args().list))
