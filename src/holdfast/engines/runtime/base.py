"""Owns what a program that we run for somebody is given and may use, and the narrow interface of whatever runs it."""

import asyncio
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from holdfast.core.errors import Unavailable

Ended = Literal["exited", "stopped", "memory", "processes", "time", "output", "disk", "processor", "lost"]
"""How a program ended: by itself, because we stopped it, at one of its limits, or without anybody seeing it."""

_SHORTEST_SECRET = 6


class SandboxMissing(Unavailable):
    """This machine can't confine a program; the message says what to do about it. Nothing is run without."""

    code = "sandbox_missing"


@dataclass(frozen=True, slots=True)
class Mounted:
    """A file or directory of ours that the program sees."""

    source: Path
    target: str
    writable: bool = False
    """Where we are root, what is writable belongs to the program's own user from then on, also at its next start."""
    most_bytes: int | None = None
    """How much a writable directory may hold: who keeps more is stopped."""
    in_images: bool = False
    """Whether images that programs run in as pods have it at the same place, so that nobody has to bring it there."""


class LoopbackService(Protocol):
    """What Holdfast answers at one port of a sandbox's own loopback; used for one program, and closed with it."""

    async def open(self, listener: socket.socket) -> None:
        """Begin to answer on the sandbox's listening socket."""
        ...

    async def close(self) -> None:
        """Break everything off; also where it never was opened."""
        ...


@dataclass(frozen=True, slots=True)
class KeptAt:
    """Where a cluster keeps the very value that a program is given: an object that never changes."""

    ref: str
    """`namespace/name`."""
    key: str


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How much a program may use; the whole tree of its processes together."""

    memory_bytes: int = 1 << 30
    processes: int = 128
    seconds: float | None = None
    """How long it may live; None for a server that is stopped when nobody needs it."""
    lifetime_seconds: float | None = None
    """However long it may take, waiting included: for a cluster that keeps it when nobody is left to stop it."""
    processor_seconds: float | None = None
    """How much the processors may work for it in all; a cluster bounds that by its own means."""
    output_bytes: int | None = None
    """How much it may print in all; None where whoever reads it has limits of its own."""
    file_bytes: int = 1 << 30
    """The largest file it may write; and what it may hold open of files that it has removed, in all."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One program: what to run, with what, and what it may reach. Everything else is out of its reach."""

    name: str
    """How logs and errors call it."""
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Everything in its environment; values may be secret, so they are in no repr, log or command line."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Those of its values that its log does not show either, should it print them."""
    kept: Mapping[str, KeptAt] = field(default_factory=dict[str, KeptAt])
    """Those of its variables whose values a cluster keeps: a pod there refers to them."""
    directory: str = "/work"
    """Where it starts; `/work` is private, writable and gone afterwards, unless something is mounted there."""
    mounts: tuple[Mounted, ...] = ()
    root: Path | None = None
    """An unpacked image to live in instead of this machine's read-only system."""
    egress: tuple[str, ...] = ()
    """The `host:port`s that its proxy lets it reach; none, and it has no network."""
    listeners: Mapping[int, LoopbackService] = field(default_factory=dict[int, LoopbackService], repr=False)
    """What Holdfast serves on ports of the program's own loopback; nobody else can reach them."""
    limits: RunLimits = RunLimits()
    role: Literal["program", "agent", "server"] = "program"
    tenant: str | None = None
    """The workspace that it runs for; in a cluster its namespace."""
    group: str | None = None
    """What runs together where that costs less, with one thing to find it by after a crash: a session's id."""
    companions: tuple["RunSpec", ...] = ()
    """Servers of the same group that will be started while it runs."""
    later: tuple[str, ...] = ()
    """Places that programs which are started in its group afterwards want writable."""
    image: str | None = None
    """The name of the image behind `root`, where a cluster can fetch it by that."""


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text without these values; what is as short as a word of it is none."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[secret]")
    return text


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How a program ended, and what a person is told of it."""

    how: Ended
    code: int | None
    """Its exit status; None where it did not exit by itself."""
    seconds: float
    said: str
    """One plain sentence: 'It was stopped because it used more than 512 MiB of memory.'"""


class Running(Protocol):
    """A program that was started."""

    @property
    def stdin(self) -> asyncio.StreamWriter: ...

    @property
    def stdout(self) -> asyncio.StreamReader: ...

    def stderr_tail(self) -> str:
        """The last of what it wrote to stderr."""
        ...

    async def wait(self) -> RunEnding:
        """How it ended, once it has; the same for everybody who asks."""
        ...

    async def stop(self, grace_seconds: float = 2) -> RunEnding:
        """Ask it to end, then make sure of it: no process of its tree is left when this returns."""
        ...


class Runtime(Protocol):
    """Whatever runs programs: processes in a sandbox of this machine, or pods."""

    async def check(self) -> None:
        """SandboxMissing with the remedy where programs can't be confined here."""
        ...

    async def start(self, spec: RunSpec) -> Running:
        """Start a program; SandboxMissing, or Invalid where the spec names what is not there."""
        ...

    async def recover(self, spec: RunSpec) -> bool:
        """Stop what an earlier process of ours left of a group, and bring what it wrote back to the mounts' sources.

        False where what it wrote last is lost.
        """
        ...

    async def refresh(self, group: str) -> None:
        """Bring the mounts' sources up to date with what a group that runs has written until now."""
        ...

    async def release(self, group: str) -> None:
        """Nothing is started in that group any more: give back what it holds."""
        ...

    async def close(self) -> None:
        """Stop everything that was started."""
        ...
