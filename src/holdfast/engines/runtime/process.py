"""Owns programs as processes of this machine, each in a sandbox of its own: started, watched, ended."""

import asyncio
import json
import logging
import os
import socket
import sys
import time
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.engines.runtime import cgroups
from holdfast.engines.runtime.base import Ended, LoopbackService, RunEnding, RunLimits, RunSpec, SandboxMissing, hide
from holdfast.engines.runtime.bwrap import PROXY_PORT, arguments, check_spec, find_bwrap, reachable
from holdfast.engines.runtime.cgroups import ControlGroup, ControlGroups
from holdfast.engines.runtime.egress import EgressProxy, EgressRules
from holdfast.engines.runtime.probe import PROBE
from holdfast.engines.runtime.seccomp import UnknownMachine, syscall_filter
from holdfast.engines.runtime.trees import give_tree

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_FIRST_UIDS = (1_900_000_000, 61_184)
"""Outside of every range that is handed out; and where a container has few users, those that systemd keeps for this."""
_UIDS = 4_096
_READ_BYTES = 1 << 20
_TAIL_BYTES = 16_384
_PIECE_BYTES = 65_536
_FLOOD_PAUSE = 0.02
_START_SECONDS = 30.0
_QUIET_END_SECONDS = 0.5
_NAMESPACES = (
    "Let ordinary users make user namespaces: `sysctl kernel.unprivileged_userns_clone=1` on older Debian, "
    "`sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu 24.04 and newer, `--privileged` or a node "
    "that allows them in a container"
)

_log = logging.getLogger(__name__)


class ProcessRuntime:
    """Runs programs with bubblewrap, a filter of system calls, and a user of their own where we are root."""

    def __init__(self, rules: EgressRules = EgressRules()) -> None:  # noqa: B008 - frozen
        self._rules = rules
        self._running: set[SandboxedProcess] = set()
        self._checking = asyncio.Lock()
        self._is_checked = False
        self._next_uid = os.getpid() % _UIDS
        self._groups: ControlGroups | None = None

    async def check(self) -> None:
        async with self._checking:
            if not self._is_checked:
                groups = await asyncio.to_thread(cgroups.found)
                if groups is not None and await asyncio.to_thread(groups.open):
                    self._groups = groups
                await self._probe()
                self._is_checked = True

    async def start(self, spec: RunSpec) -> "SandboxedProcess":
        await self.check()
        return await self._start(spec)

    async def recover(self, spec: RunSpec) -> bool:
        """Nothing outlives us here, and what was written lies on our own disk."""
        return all(mount.source.is_dir() for mount in spec.mounts)

    async def refresh(self, group: str) -> None:
        """The sources themselves are mounted."""

    async def release(self, group: str) -> None:
        """A group holds nothing here: each of its programs has a sandbox of its own."""

    async def close(self) -> None:
        await asyncio.gather(*(process.stop(0) for process in tuple(self._running)))
        if self._groups is not None:
            groups, self._groups, self._is_checked = self._groups, None, False
            await asyncio.to_thread(groups.close)

    async def _probe(self) -> None:
        """Run a program that tries what must not work."""
        try:
            syscall_filter()
        except UnknownMachine as problem:
            raise SandboxMissing(
                f"Programs can't be confined on {problem} processors; use x86_64 or aarch64."
            ) from None
        spec = RunSpec(name="the sandbox's own check", command=("/bin/sh", "-c", PROBE), limits=RunLimits(seconds=20))
        running = await self._start(spec)
        running.stdin.close()
        said = (await running.stdout.read(4_096)).decode("utf-8", "replace").strip()
        ending = await running.wait()
        if ending.how != "exited" or said != "confined":
            why = said or running.stderr_tail() or ending.said
            raise SandboxMissing(f"Programs can't be confined on this machine: {why}. {_NAMESPACES}.")

    async def _start(self, spec: RunSpec) -> "SandboxedProcess":
        bwrap = find_bwrap()
        if bwrap is None:
            raise SandboxMissing(
                "Programs can't be confined: bubblewrap is missing. On Debian: apt-get install bubblewrap."
            )
        check_spec(spec)
        services = dict(spec.listeners)
        if spec.egress:
            services[PROXY_PORT] = EgressProxy(spec.name, spec.egress, self._rules)
        order = await asyncio.to_thread(self._order, spec, bwrap)
        group = self._group(spec)
        if group is not None:
            order["group"] = group.order()
        process = SandboxedProcess(spec, services, self._running.discard, group)
        self._running.add(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await process.launch(order)
        except BaseException as problem:
            await process.stop(0)
            if isinstance(problem, TimeoutError):
                raise SandboxMissing(
                    f"The sandbox of {spec.name} did not start within {_START_SECONDS:g} seconds."
                ) from None
            raise
        return process

    def _group(self, spec: RunSpec) -> ControlGroup | None:
        if self._groups is None:
            return None
        try:
            return self._groups.make(spec.limits)
        except OSError as problem:
            _log.warning("%s runs without a control group: %s", spec.name, problem)
            return None

    def _order(self, spec: RunSpec, bwrap: Path) -> dict[str, Any]:
        args, sources = arguments(spec)
        program = reachable(bwrap, sources)
        uid = self._uid()
        writable = [mount for mount in spec.mounts if mount.writable]
        if uid is not None:
            # Whoever had a directory before has it again, and so do several programs at once that share one.
            uid = next(filter(None, (_owner(mount.source) for mount in writable)), uid)
            for mount in writable:
                # Also what we put there since it last ran.
                give_tree(mount.source, uid)
        limits = spec.limits
        return {
            "bwrap": program,
            "args": args,
            "command": list(spec.command),
            "uid": uid,
            "staged": sources,
            "stage_at": _staging_place(sources) if uid is not None else "",
            "ports": [*spec.listeners, *((PROXY_PORT,) if spec.egress else ())],
            "limits": {
                "memory_bytes": limits.memory_bytes,
                "processes": limits.processes,
                "file_bytes": limits.file_bytes,
                "seconds": limits.seconds,
                "processor_seconds": limits.processor_seconds,
                "devices": sorted({mount.source.stat().st_dev for mount in writable}),
                "kept": [[str(mount.source), mount.most_bytes] for mount in writable if mount.most_bytes is not None],
            },
        }

    def _uid(self) -> int | None:
        """As root, a user whom nobody else is, for each program another; else nobody but us."""
        first = _first_uid()
        if first is None:
            return None
        self._next_uid = (self._next_uid + 1) % _UIDS
        return first + self._next_uid


class SandboxedProcess:
    """One program and everything that it started."""

    def __init__(
        self,
        spec: RunSpec,
        services: Mapping[int, LoopbackService],
        forget: Callable[["SandboxedProcess"], None],
        group: ControlGroup | None,
    ) -> None:
        self._name = spec.name
        self._limits = spec.limits
        self._most_kept = min(
            (mount.most_bytes for mount in spec.mounts if mount.most_bytes is not None), default=spec.limits.file_bytes
        )
        self._secrets = spec.secrets
        self._services = services
        self._forget = forget
        self._group = group
        self._tail = bytearray()
        self._printed = 0
        self._asked: Ended | None = None
        self._began = time.monotonic()
        self._control: socket.socket | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._gone = asyncio.Event()
        self._watching: asyncio.Task[RunEnding] | None = None
        self._draining: asyncio.Task[None] | None = None

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process is not None and self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self._process is not None and self._process.stdout is not None
        return self._process.stdout

    def stderr_tail(self) -> str:
        said = hide(bytes(self._tail).decode("utf-8", "replace"), self._secrets)
        proxy = self._services.get(PROXY_PORT)
        if isinstance(proxy, EgressProxy) and proxy.refused:
            said += f"\n[sandbox] refused to reach {', '.join(proxy.refused)}"
        return said.strip()

    async def wait(self) -> RunEnding:
        assert self._watching is not None
        return await asyncio.shield(self._watching)

    async def stop(self, grace_seconds: float = 2) -> RunEnding:
        if self._watching is None or self._process is None:
            # It never came to life; closing the socket ends a launcher that was under way.
            await self._abandon()
            return RunEnding("lost", None, 0.0, "It was not started.")
        if not self._watching.done() and grace_seconds > 0:
            self._asked = self._asked or "stopped"
            with suppress(OSError):
                self.stdin.close()
            # Most servers end with their input; the others are asked.
            first = min(_QUIET_END_SECONDS, grace_seconds / 2)
            for ask, patience in ((b"", first), (b"T", grace_seconds - first)):
                if self._watching.done():
                    break
                self._send(ask)
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience):
                        await self.wait()
        self._asked = self._asked or "stopped"
        self._send(b"K")
        ending = await self.wait()
        if self._transport is not None:
            # What it printed and nobody has read would keep its pipe open for good.
            self._transport.close()
        return ending

    async def launch(self, order: dict[str, Any]) -> None:
        """Hand the order to a launcher, and return when the program runs; SandboxMissing where that can't be."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._control = ours
        loop = asyncio.get_running_loop()
        with theirs:
            command = (sys.executable, "-I", "-S", _LAUNCHER, str(theirs.fileno()))
            transport, protocol = await loop.subprocess_exec(
                lambda: _Counted(loop, self._count, self._gone.set),
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={"LANG": "C.UTF-8"},
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._transport = transport
        self._process = asyncio.subprocess.Process(transport, protocol, loop)
        assert self._process.stderr is not None
        self._draining = asyncio.create_task(self._drain(self._process.stderr))
        text = json.dumps(order).encode()
        await loop.sock_sendall(ours, len(text).to_bytes(4, "big") + text)
        await self._await_start()
        self._watching = asyncio.create_task(self._watch())

    async def _await_start(self) -> None:
        while True:
            told, listener = await self._told()
            if told is not None and listener is not None:
                listener.setblocking(False)
                await self._services[told["port"]].open(listener)
            elif told is None:
                raise SandboxMissing(f"The sandbox of {self._name} could not be started: {self.stderr_tail()}")
            elif "cannot" in told:
                raise SandboxMissing(f"Programs can't be confined on this machine: {told['cannot']}. {_NAMESPACES}.")
            elif "started" in told:
                return

    async def _told(self) -> tuple[dict[str, Any] | None, socket.socket | None]:
        """The launcher's next line, and the descriptor that came with it; None when it is gone."""
        assert self._control is not None
        line, descriptor = b"", None
        while not line.endswith(b"\n"):
            await _readable(self._control)
            # Byte by byte would be many calls, but lines are few and a descriptor comes with its own line alone.
            piece, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
            if not piece:
                return None, None
            line += piece
            descriptor = descriptors[0] if descriptors else descriptor
        told: dict[str, Any] = json.loads(line)
        return told, None if descriptor is None else socket.socket(fileno=descriptor)

    async def _watch(self) -> RunEnding:
        assert self._process is not None
        told, _ = await self._told()
        await self._abandon()
        if self._draining is not None:
            await self._draining
        return self._ending(told)

    def _ending(self, told: dict[str, Any] | None) -> RunEnding:
        seconds = time.monotonic() - self._began
        if told is None:
            return RunEnding("lost", None, seconds, "It ended with the process that watched it.")
        how: Ended = self._asked or told["how"]
        limits = self._limits
        said = {
            "exited": f"It ended by itself with status {told['code']}.",
            "stopped": "It was stopped.",
            "memory": f"It was stopped because it used more than {limits.memory_bytes >> 20} MiB of memory.",
            "time": f"It was stopped because it ran for more than {limits.seconds or 0:g} seconds.",
            "processor": f"It was stopped because it used more than {limits.processor_seconds or 0:g} seconds of "
            "processor time.",
            "output": f"It was stopped because it printed more than {limits.output_bytes or 0:,} bytes.",
            "disk": f"It was stopped because it keeps more than {self._most_kept >> 20} MiB in its directory, "
            "or hides how much.",
            "processes": f"It was stopped because it wanted more than {limits.processes} processes.",
        }[how]
        return RunEnding(how, told["code"] if how == "exited" else None, seconds, said)

    async def _abandon(self) -> None:
        if self._control is not None:
            self._control.close()
        for service in self._services.values():
            await service.close()
        if self._process is not None:
            with suppress(OSError):
                self.stdin.close()
            # Closed sockets end the launcher, and the launcher ends only when nothing is left. The process's own
            # `wait` also waits for somebody to read all that it printed.
            await self._gone.wait()
        if self._draining is not None and self._watching is None:
            self._draining.cancel()
        if self._group is not None:
            self._group.remove()
        self._forget(self)

    async def _drain(self, stderr: asyncio.StreamReader) -> None:
        while piece := await stderr.read(_PIECE_BYTES):
            self._tail += piece
            del self._tail[:-_TAIL_BYTES]
            self._count(len(piece))
            if len(piece) == _PIECE_BYTES:
                # More is waiting; whoever writes without end waits with it, instead of keeping us busy.
                await asyncio.sleep(_FLOOD_PAUSE)

    def _count(self, size: int) -> None:
        self._printed += size
        most = self._limits.output_bytes
        if most is not None and self._printed > most and self._asked is None:
            self._asked = "output"
            self._send(b"K")

    def _send(self, asked: bytes) -> None:
        if self._control is not None and asked:
            with suppress(OSError):
                self._control.send(asked)


class _Counted(SubprocessStreamProtocol):
    """Counts what comes out before anybody reads it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, count: Callable[[int], None], exited: Callable[[], None]
    ) -> None:
        super().__init__(limit=_READ_BYTES, loop=loop)
        self._count = count
        self._exited = exited

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if fd == 1:
            self._count(len(data))
        super().pipe_data_received(fd, data)

    def process_exited(self) -> None:
        super().process_exited()
        self._exited()


def _first_uid() -> int | None:
    """The first of the users whom programs get; None where we can't become anybody else."""
    if os.geteuid() != 0:
        return None
    for first in _FIRST_UIDS:
        for line in Path("/proc/self/uid_map").read_text().splitlines():
            inside, _, count = map(int, line.split())
            if inside <= first and first + _UIDS <= inside + count:
                return first
    # Root of a namespace in which there is nobody else is an ordinary user outside of it.
    return None


def _owner(path: Path) -> int | None:
    """The one of our programs' users who owns a directory; None where it is somebody else's."""
    first, owner = _first_uid(), path.stat().st_uid
    return owner if first is not None and first <= owner < first + _UIDS else None


def is_own_user(uid: int) -> bool:
    """Whether a process of that user is ours, or one that we confined."""
    first = _first_uid()
    return uid == os.geteuid() or (first is not None and first <= uid < first + _UIDS)


async def _readable(source: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(source, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(source)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _staging_place(sources: list[str]) -> str:
    """A directory that every machine has and this program does not need; it is covered in its mount namespace alone."""
    for place in ("/mnt", "/media", "/srv", "/home", "/opt"):
        if Path(place).is_dir() and not any(Path(source).is_relative_to(place) for source in sources):
            return place
    raise SandboxMissing("Programs can't be confined: there is neither /mnt nor /media to stage what they are given.")
