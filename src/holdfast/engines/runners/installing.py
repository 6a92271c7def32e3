"""Owns agents of others as they are installed: fetched when an operator asks for it, pinned, and found again."""

import asyncio
import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.runners.base import RunnerMissing
from holdfast.engines.runtime.base import Mounted
from holdfast.engines.runtime.packages import InstalledPackage, InstallFailed, PackageCommand, Packages, TellInstall

PLACE = "/opt/agent/node_modules"
"""Where an installed agent lies in a sandbox; some find their parts by the name of that folder."""
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]{1,40})?")
_CPUS = {"x86_64": ("x64", "x86_64"), "aarch64": ("arm64", "aarch64")}


@dataclass(frozen=True, slots=True)
class PublishedAgent:
    """An agent as its makers publish it."""

    package: str
    version: str
    """The one that our tests drive; any other is at the operator's own risk."""
    programs: tuple[str, ...]
    """Where its program may lie, the best first; `cpu`, `machine`, `libc` and `fast` are this machine's."""


PUBLISHED: Mapping[str, PublishedAgent] = {
    "claude-code": PublishedAgent(
        "@anthropic-ai/claude-code", "2.1.325", ("@anthropic-ai/claude-code-linux-{cpu}{libc}/claude",)
    ),
    "codex": PublishedAgent(
        "@openai/codex", "0.166.0", ("@openai/codex-linux-{cpu}/vendor/{machine}-unknown-linux-musl/bin/codex",)
    ),
    "opencode": PublishedAgent(
        "opencode-ai",
        "1.18.33",
        ("opencode-linux-{cpu}{fast}{libc}/bin/opencode", "opencode-linux-{cpu}-baseline{libc}/bin/opencode"),
    ),
    "goose": PublishedAgent("@aaif/goose-acp", "1.50.0", ("@aaif/goose-binary-linux-{cpu}/bin/goose",)),
}


@dataclass(frozen=True, slots=True)
class InstalledAgent:
    """An agent on this machine."""

    name: str
    package: str
    version: str
    integrity: str
    """A digest over the digests of everything that was installed."""
    directory: Path
    program: str
    """Its program, as a sandbox with its mount finds it."""

    @property
    def mount(self) -> Mounted:
        """What a sandbox must show of this machine, read-only."""
        return Mounted(self.directory / "node_modules", PLACE, in_images=True)


class InstalledAgents:
    """Installs below one directory, and finds what was installed there."""

    def __init__(self, directory: Path, pins: Mapping[str, str] = {}) -> None:
        """`pins` are the digests of those that are to be found as they were, whatever was installed since."""
        self._directory = directory
        self._packages = Packages(directory)
        self._pins = pins

    def pinned(self, name: str, integrity: str) -> "InstalledAgents":
        """The same, with one of them as it was when it had this digest."""
        return InstalledAgents(self._directory, {**self._pins, name: integrity})

    @property
    def directory(self) -> Path:
        """Where they lie."""
        return self._directory

    def find(self, name: str) -> InstalledAgent:
        """The one of that name; RunnerMissing with the remedy where there is none."""
        _published(name)
        missing = f"{name} is not installed here. Run: holdfast agents install {name}"
        try:
            integrity = self._pins.get(name) or json.loads(self._record(name).read_text())["integrity"]
        except (FileNotFoundError, NotADirectoryError):
            raise RunnerMissing(missing) from None
        package = self._packages.find("npm", integrity)
        if package is None:
            raise RunnerMissing(missing)
        return _agent(name, package)

    def installed(self) -> list[InstalledAgent]:
        """All that are here."""
        return [self.find(name) for name in PUBLISHED if self._record(name).exists()]

    async def install(self, name: str, tell: TellInstall, version: str | None = None) -> InstalledAgent:
        """Fetch an agent and everything that it needs, at one version; the sessions that run keep theirs."""
        published = _published(name)
        if version is not None and _VERSION.fullmatch(version) is None:
            problem = f"{version!r} is not a version like {published.version}"
            raise Invalid(f"{name} can't be installed: {problem}.", fields=[FieldError("version", problem)])
        wanted = PackageCommand("npm", published.package, version or published.version, None, ())
        package = await self._packages.install(wanted, tell)
        agent = _agent(name, package)
        await asyncio.to_thread(self._write, agent)
        return agent

    def _write(self, agent: InstalledAgent) -> None:
        record = {"version": agent.version, "integrity": agent.integrity}
        making = self._record(agent.name).with_suffix(".making")
        making.write_text(json.dumps(record))
        making.replace(self._record(agent.name))

    def _record(self, name: str) -> Path:
        return self._directory / f"{name}.json"


def _published(name: str) -> PublishedAgent:
    if name not in PUBLISHED:
        problem = f"{name!r} can't be installed; these can: {', '.join(PUBLISHED)}"
        raise Invalid(f"There is no such agent: {problem}.", fields=[FieldError("name", problem)])
    return PUBLISHED[name]


def _agent(name: str, package: InstalledPackage) -> InstalledAgent:
    cpu, machine = _CPUS.get(platform.machine(), ("", ""))
    libc = "" if platform.libc_ver()[0] == "glibc" else "-musl"
    for pattern in PUBLISHED[name].programs:
        path = pattern.format(cpu=cpu, machine=machine, libc=libc, fast="" if _is_fast() else "-baseline")
        if os.access(package.directory / "node_modules" / path, os.X_OK):
            program = f"{PLACE}/{path}"
            return InstalledAgent(name, package.name, package.version, package.integrity, package.directory, program)
    raise InstallFailed(f"{name} {package.version} has no program for this machine ({platform.machine()}{libc}).")


def _is_fast() -> bool:
    """Whether the processor knows what newer builds need."""
    if platform.machine() != "x86_64":
        return True
    return "avx2" in Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split()
