"""Owns the sidecar of a pod: it joins what is in the pod and Holdfast, which dials in, and decides nothing itself.

    sidecar.py '{"control": PATH, "sockets": DIRECTORY, "boxes": {NAME: SOCKET}, "patience": SECONDS}'

It has no credential and opens no connection but to its own pod.
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
# Beside it in the pod, where there is no package.
from link import LinkBroken, PodLink, PodStream, Records, TakenOver, over, pump  # type: ignore[import-not-found]

_BOX_SECONDS = 180.0
"""Containers are started one after the other, and an image may have to be fetched for each."""


class Sidecar:
    """Holds one link, to whoever dialled last."""

    def __init__(self, told: "dict[str, Any]") -> None:
        self._told = told
        self._link: Any = None
        self._serving: Any = None
        self._listening: list[asyncio.base_events.Server] = []
        self._dialled = asyncio.Event()

    async def run(self) -> None:
        """Until nobody has dialled for too long."""
        control = self._told["control"]
        server = await asyncio.start_unix_server(self._accept, control)
        Path(control).chmod(0o600)
        while True:
            self._dialled.clear()
            if self._serving is None:
                try:
                    await asyncio.wait_for(self._dialled.wait(), self._told["patience"])
                except asyncio.TimeoutError:  # noqa: UP041 - it may run on an older Python
                    break
            else:
                await asyncio.wait({self._serving})
                if self._serving is not None and self._serving.done():
                    self._serving = None
        server.close()
        for box in self._told["boxes"].values():
            with suppress(OSError):
                _, writer = await asyncio.open_unix_connection(box)
                writer.write(b'{"do": "end"}\n')
                await writer.drain()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def receive() -> bytes:
            return await reader.read(65_536)

        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            hello = await Records(receive).hello()
            if self._serving is not None:
                self._serving.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await self._serving
            if self._link is None or self._link.holder != hello["holder"]:
                self._begin(hello["holder"])
            self._serving = asyncio.current_task()
            self._dialled.set()
            await self._link.serve(receive, send, hello)
        except (LinkBroken, TakenOver, OSError):
            pass
        except asyncio.CancelledError:
            with suppress(OSError):
                writer.write(over())
        finally:
            writer.close()

    def _begin(self, holder: str) -> None:
        """Somebody new: nothing that another began goes on."""
        if self._link is not None:
            self._link.end()
        for server in self._listening:
            server.close()
        self._listening = []
        self._link = PodLink(first=False, holder=holder, accept=self._opened)

    async def _opened(self, channel: PodStream) -> None:
        to = channel.order.get("to")
        try:
            if to == "box":
                await self._join(channel, self._told["boxes"][channel.order["box"]])
            elif to == "port":
                await self._listen_at_port(int(channel.order["port"]))
                await _answer(channel, {"ok": True})
            elif to == "sockets":
                for name in channel.order["names"]:
                    await self._listen_at_socket(str(name))
                await _answer(channel, {"ok": True})
            else:
                await _answer(channel, {"problem": "unknown order"})
        except (OSError, KeyError, ValueError) as problem:
            await _answer(channel, {"problem": f"{type(problem).__name__}: {problem}"})

    async def _join(self, channel: PodStream, path: str) -> None:
        """Join a stream and a container; a word of ours in it would be taken for its program's."""
        try:
            await pump(channel, *await self._box(path))
        except OSError as problem:
            sys.stderr.write(f"{path} does not answer: {problem}\n")
            channel.close()

    async def _box(self, path: str) -> "tuple[asyncio.StreamReader, asyncio.StreamWriter]":
        deadline = asyncio.get_running_loop().time() + _BOX_SECONDS
        while True:
            try:
                return await asyncio.open_unix_connection(path)
            except OSError:
                # Its container may still be on its way.
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.02)

    async def _listen_at_port(self, port: int) -> None:
        link = self._link

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(LinkBroken):
                await pump(link.open({"from": "port", "port": port}), reader, writer)

        self._listening.append(await asyncio.start_server(accepted, "127.0.0.1", port))

    async def _listen_at_socket(self, name: str) -> None:
        link = self._link
        path = Path(self._told["sockets"]) / name
        if path.name != name:
            raise ValueError("no name of a socket")

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(LinkBroken):
                await pump(link.open({"from": "socket", "name": name}), reader, writer)

        with suppress(FileNotFoundError):
            path.unlink()
        self._listening.append(await asyncio.start_unix_server(accepted, str(path)))
        path.chmod(0o666)


async def _answer(channel: PodStream, answer: "dict[str, Any]") -> None:
    with suppress(LinkBroken):
        await channel.write(json.dumps(answer).encode())
        channel.eof()


if __name__ == "__main__":
    asyncio.run(Sidecar(json.loads(sys.argv[1])).run())
