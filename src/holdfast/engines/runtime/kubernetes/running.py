"""Owns one run of a program in a container of a pod: its streams, its limits, its end, and what it leaves."""

import asyncio
import base64
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from holdfast.core.errors import HoldfastError
from holdfast.engines.runtime.base import Ended, Mounted, RunEnding, hide
from holdfast.engines.runtime.egress import EgressProxy
from holdfast.engines.runtime.kubernetes.cluster.api import Object
from holdfast.engines.runtime.kubernetes.failures import PodFailure
from holdfast.engines.runtime.kubernetes.files import pack, unpack
from holdfast.engines.runtime.kubernetes.inside.link import LinkBroken, PodStream
from holdfast.engines.runtime.kubernetes.pods import Box, is_brought, secret_names
from holdfast.engines.runtime.kubernetes.tunnel import PodLost, PodTunnel
from holdfast.engines.runtime.seccomp import syscall_filter

_READ_BYTES = 1 << 20
_PIECE = 65_536
_TAIL_BYTES = 16_384
_QUIET_END_SECONDS = 0.5
_LAST_WORDS_SECONDS = 2.0
_KILL_SECONDS = 20.0


class InPod(Protocol):
    """What a run needs of its pod."""

    @property
    def tunnel(self) -> PodTunnel: ...

    def failure(self) -> PodFailure | None:
        """Why the pod is ended from outside, if it is."""
        ...

    async def lost(self) -> PodFailure:
        """Why a program of it was killed, as far as the cluster says within a moment."""
        ...


class PodRun:
    """One program, and everything that it started in its container."""

    def __init__(self, pod: InPod, box: Box, proxy: EgressProxy | None, ended: Callable[[], Awaitable[None]]) -> None:
        self._pod = pod
        self._box = box
        self._proxy = proxy
        self._after = ended
        self._id = uuid.uuid4().hex
        self._tail = bytearray()
        self._printed = 0
        self._asked: Ended | None = None
        self._began = time.monotonic()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._ends: list[asyncio.StreamWriter] = []
        self._watching: asyncio.Task[RunEnding] | None = None
        self._joining: asyncio.Task[None] | None = None

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._writer is not None
        return self._writer

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self._reader is not None
        return self._reader

    def stderr_tail(self) -> str:
        said = hide(bytes(self._tail).decode("utf-8", "replace"), self._box.spec.secrets)
        if self._proxy is not None and self._proxy.refused:
            said += f"\n[sandbox] refused to reach {', '.join(self._proxy.refused)}"
        return said.strip()

    async def begin(self) -> None:
        """Start it; PodLost where its pod is gone."""
        spec = self._box.spec
        watch = self._order({"do": "watch", "id": self._id})
        run = self._order(
            {
                "do": "run",
                "id": self._id,
                "argv": None if self._box.is_server else list(self._box.command),
                "env": self._box.env(),
                "keep": sorted(secret_names(spec)),
                "directory": spec.directory,
                "processes": spec.limits.processes,
                "file_bytes": spec.limits.file_bytes,
                "filter": base64.b64encode(syscall_filter()).decode(),
            }
        )
        # Two pairs: whoever closes the program's stdin still reads what it prints.
        given, self._writer = await self._pair()
        self._reader, printed = await self._pair()
        self._joining = asyncio.create_task(self._join(run, given, printed))
        self._watching = asyncio.create_task(self._watch(watch))
        if spec.limits.seconds is not None:
            asyncio.get_running_loop().call_later(spec.limits.seconds, self._out_of_time)

    async def wait(self) -> RunEnding:
        assert self._watching is not None
        return await asyncio.shield(self._watching)

    async def stop(self, grace_seconds: float = 2) -> RunEnding:
        assert self._watching is not None
        if not self._watching.done() and grace_seconds > 0:
            self._asked = self._asked or "stopped"
            with suppress(OSError):
                self.stdin.close()
            first = min(_QUIET_END_SECONDS, grace_seconds / 2)
            for ask, patience in (("", first), ("TERM", grace_seconds - first)):
                if self._watching.done():
                    break
                with suppress(TimeoutError):
                    # The way into the pod may be broken, and be made again for minutes.
                    async with asyncio.timeout(patience):
                        if ask:
                            await self._signal(ask)
                        await self.wait()
        if not self._watching.done():
            self._asked = self._asked or "stopped"
            try:
                async with asyncio.timeout(_KILL_SECONDS):
                    await self._signal("KILL")
                    await self.wait()
            except TimeoutError:
                self._pod.tunnel.lose("Its pod did not stop it.")
        ending = await self.wait()
        for end in self._ends:
            end.close()
        return ending

    async def _pair(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A stream within this process: what is written at one end is read at the other."""
        one, other = socket.socketpair()
        reader, unused = await asyncio.open_connection(sock=one, limit=_READ_BYTES)
        _, writer = await asyncio.open_connection(sock=other, limit=_READ_BYTES)
        self._ends += (unused, writer)
        return reader, writer

    def _order(self, order: Object) -> "_Ordered":
        channel = self._pod.tunnel.channel({"to": "box", "box": self._box.name})
        return _Ordered(channel, order)

    async def _signal(self, name: str) -> None:
        with suppress(LinkBroken, HoldfastError):
            await self._order({"do": "signal", "id": self._id, "name": name}).answer()

    def _out_of_time(self) -> None:
        self._end_by("time")

    def _end_by(self, how: Ended) -> None:
        if self._asked is None and self._watching is not None and not self._watching.done():
            self._asked = how
            killing = asyncio.create_task(self._signal("KILL"))
            # Held on to until it is done.
            self._watching.add_done_callback(lambda _: killing.cancel())

    async def _join(self, run: "_Ordered", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def give() -> None:
            while piece := await reader.read(_PIECE):
                await run.channel.write(piece)
            run.channel.eof()

        async def take() -> None:
            while piece := await run.channel.read():
                self._count(len(piece))
                writer.write(piece)
                await writer.drain()

        giving = asyncio.create_task(give())
        try:
            await run.begin()
            await take()
        except (LinkBroken, OSError):
            pass
        finally:
            giving.cancel()
            await asyncio.gather(giving, return_exceptions=True)
            run.channel.close()
            writer.close()
            # Whoever still writes is told that nobody reads.
            self._ends[0].close()

    async def _watch(self, watch: "_Ordered") -> RunEnding:
        end: Object | None = None
        try:
            await watch.begin()
            buffer = b""
            while end is None and (piece := await watch.channel.read()):
                *lines, buffer = (buffer + piece).split(b"\n")
                for line in lines:
                    told = json.loads(line)
                    end = told.get("end", end)
                    if "stderr" in told:
                        self._say(base64.b64decode(told["stderr"]))
        except (LinkBroken, ValueError):
            pass
        finally:
            watch.channel.close()
        if end is not None and self._joining is not None:
            # What it printed last may still be on its way.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    await asyncio.shield(self._joining)
        ending = await self._ending(end)
        try:
            await self._after()
        finally:
            if self._joining is not None:
                self._joining.cancel()
        return ending

    def _say(self, said: bytes) -> None:
        self._tail += said
        del self._tail[:-_TAIL_BYTES]
        self._count(len(said))

    def _count(self, size: int) -> None:
        self._printed += size
        most = self._box.spec.limits.output_bytes
        if most is not None and self._printed > most:
            self._end_by("output")

    async def _ending(self, end: Object | None) -> RunEnding:
        seconds = time.monotonic() - self._began
        limits = self._box.spec.limits
        if self._asked is not None:
            said = {
                "time": f"It was stopped because it ran for more than {limits.seconds or 0:g} seconds.",
                "output": f"It was stopped because it printed more than {limits.output_bytes or 0:,} bytes.",
            }.get(self._asked, "It was stopped.")
            return RunEnding(self._asked, None, seconds, said)
        if end is None:
            failure = await self._pod.lost()
            return RunEnding(failure.how, None, seconds, failure.said)
        if "problem" in end:
            return RunEnding("exited", 127, seconds, f"It could not be started: {end['problem']}.")
        code = int(end["code"])
        if end["out_of_memory"] and code != 0:
            said = f"It was stopped because it used more than {limits.memory_bytes >> 20} MiB of memory."
            return RunEnding("memory", None, seconds, said)
        if code < 0:
            # As a shell has it.
            code = 128 - code
        return RunEnding("exited", code, seconds, f"It ended by itself with status {code}.")


class _Ordered:
    """A connection to a container's bridge that begins with an order."""

    def __init__(self, channel: PodStream, order: Object) -> None:
        self.channel = channel
        self._order = order

    async def begin(self) -> None:
        """Give the order."""
        await self.channel.write(json.dumps(self._order).encode() + b"\n")

    async def answer(self) -> None:
        """Give the order and wait for its answer; PodLost where it is no."""
        await self.begin()
        answer = json.loads(await self.channel.read_all() or b"{}")
        self.channel.close()
        if not answer.get("ok"):
            raise PodLost(f"The pod could not do what it was asked: {answer.get('problem') or 'it is gone'}")


async def greet(tunnel: PodTunnel, box: str) -> None:
    """Return when a container is up; PodLost where it does not come."""
    try:
        await _Ordered(tunnel.channel({"to": "box", "box": box}), {"do": "greet"}).answer()
    except LinkBroken as problem:
        raise PodLost(tunnel.problem or str(problem)) from None


async def send_directory(tunnel: PodTunnel, box: str, mount: Mounted) -> None:
    """Fill a directory of a container with what a mount's source holds."""
    if mount.writable:
        await asyncio.to_thread(_away(mount).touch)
    ordered = _Ordered(tunnel.channel({"to": "box", "box": box}), {"do": "put", "path": mount.target})
    await ordered.begin()
    reading, writing = os.pipe()
    # In a thread of its own, which may wait in the middle of a file for the pod to take what was read.
    packing = threading.Thread(target=_packed, args=(mount, writing), daemon=True)
    packing.start()
    try:
        with os.fdopen(reading, "rb", buffering=0) as stream:
            while piece := await asyncio.to_thread(stream.read, _PIECE):
                await ordered.channel.write(piece)
        ordered.channel.eof()
        answer = json.loads(await ordered.channel.read_all() or b"{}")
    except LinkBroken as problem:
        raise PodLost(tunnel.problem or str(problem)) from None
    finally:
        ordered.channel.close()
    if not answer.get("ok"):
        raise PodLost(f"{mount.target} could not be filled: {answer.get('problem') or tunnel.problem}")


async def fetch_directory(tunnel: PodTunnel, box: str, mount: Mounted, most_bytes: int) -> None:
    """Bring a directory of a container back to a mount's source."""
    ordered = _Ordered(tunnel.channel({"to": "box", "box": box}), {"do": "get", "path": mount.target})
    await ordered.begin()
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        unpacking = asyncio.create_task(asyncio.to_thread(unpack, stream, mount.source, most_bytes))
        try:
            while piece := await ordered.channel.read():
                await asyncio.to_thread(_write_all, writing, piece)
        except OSError:
            # It is refused; what was handed over before says why.
            pass
        finally:
            os.close(writing)
            ordered.channel.close()
        await unpacking
    if tunnel.problem is not None:
        raise PodLost(tunnel.problem)


def came_back(mount: Mounted) -> None:
    """What the source holds is what its program wrote last."""
    _away(mount).unlink(missing_ok=True)


def is_here(mount: Mounted) -> bool:
    """Whether the source holds what was written last, and no pod does."""
    return mount.source.is_dir() and not _away(mount).exists()


def _away(mount: Mounted) -> Path:
    """Beside a directory while a pod writes to a copy of it."""
    return mount.source.with_name(f".{mount.source.name}.away")


def writable(box: Box, mounts: tuple[Mounted, ...]) -> list[Mounted]:
    """What of a spec's mounts comes back from its container."""
    return [mount for mount in mounts if mount.writable and is_brought(mount) and mount.target in box.held]


def _packed(mount: Mounted, writing: int) -> None:
    with suppress(BrokenPipeError), os.fdopen(writing, "wb") as stream:
        pack(mount.source, stream)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
