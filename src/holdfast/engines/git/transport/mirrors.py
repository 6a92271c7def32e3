"""Owns the bare mirrors of repositories that have a URL: complete or absent, one for each repository id."""

import asyncio
import fcntl
import os
import re
import secrets
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.git.model import Credentials, GitFailed, GitLimits, Progress
from holdfast.engines.git.process import Child
from holdfast.engines.git.transport.address import Location
from holdfast.engines.git.transport.preflight import check, find_target
from holdfast.engines.git.transport.remedies import remedied
from holdfast.engines.git.transport.tunnel import CloneTarget, Rules, Tunnel
from holdfast.engines.sandbox.bounds import Bounds

Tell = Callable[[Progress], Awaitable[None]]
_MODULE = "holdfast.engines.git.transport.cloning"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_WATCH_SECONDS = 0.25
_LEAST_CPU_SECONDS = 10
_KEPT_IN_PACKS = (".pack", ".idx", ".rev", ".bitmap", ".keep", ".promisor")


class Mirrors:
    """Clones and fetches, one at a time for each repository."""

    def __init__(self, directory: Path, rules: Rules, limits: GitLimits) -> None:
        self._directory = directory
        self._rules = rules
        self._limits = limits
        self._locks: dict[str, asyncio.Lock] = {}

    def path(self, repository_id: str) -> Path:
        """Where a mirror is, or would be."""
        if _ID.fullmatch(repository_id) is None:
            problem = "an id has letters, digits, '_', '-' and '.' only"
            raise Invalid("This is no repository id.", fields=[FieldError("repository_id", problem)])
        return self._directory / f"{repository_id}.git"

    def check(self, location: Location) -> None:
        """GitFailed for a URL that is refused as it stands."""
        check(location, self._rules)

    async def update(
        self, repository_id: str, location: Location, credentials: Credentials | None, progress: Tell | None
    ) -> None:
        """Clone, or fetch what is new; GitFailed says why not and what to do."""
        path = self.path(repository_id)
        async with self._held(repository_id):
            target = await find_target(location, credentials, self._rules)
            if path.exists():
                await asyncio.to_thread(_tidy, path)
                await self._run(path, target, credentials, progress)
                return
            await asyncio.to_thread(self._remove_beginnings, repository_id)
            beginning = self._directory / f".{repository_id}.{secrets.token_hex(4)}.cloning"
            beginning.mkdir(mode=0o700)
            try:
                await self._run(beginning, target, credentials, progress)
                beginning.rename(path)
            finally:
                await asyncio.to_thread(shutil.rmtree, beginning, ignore_errors=True)

    def ids(self) -> set[str]:
        """The repositories of which there is something here, be it the beginning of a clone."""
        beginnings = {path.name.split(".")[1] for path in self._directory.glob(".*.cloning")}
        return beginnings | {path.name.removesuffix(".git") for path in self._directory.glob("*.git")}

    async def remove(self, repository_id: str) -> None:
        """Remove a mirror, once nobody is fetching into it; nothing happens without one."""
        path = self.path(repository_id)
        if not self._directory.exists():
            return
        async with self._held(repository_id):
            await asyncio.to_thread(self._remove_beginnings, repository_id)
            if path.exists():
                # Under another name first: a mirror is complete or absent, also while it goes.
                going = self._directory / f".{repository_id}.{secrets.token_hex(4)}.cloning"
                path.rename(going)
                await asyncio.to_thread(shutil.rmtree, going, ignore_errors=True)
            (self._directory / f".{repository_id}.lock").unlink(missing_ok=True)

    def _remove_beginnings(self, repository_id: str) -> None:
        """What a clone that was killed left behind."""
        for left in self._directory.glob(f".{repository_id}.*.cloning"):
            shutil.rmtree(left, ignore_errors=True)

    @asynccontextmanager
    async def _held(self, repository_id: str) -> AsyncIterator[None]:
        """Alone with a repository: in this process, and among others that share the directory."""
        async with self._locks.setdefault(repository_id, asyncio.Lock()):
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = self._directory / f".{repository_id}.lock"
            file = -1
            try:
                # A lock that its holder's death releases; it is asked for again since waiting would block the loop.
                async with asyncio.timeout(self._limits.clone_seconds):
                    while (file := _lock(lock)) < 0:  # noqa: ASYNC110 - another process has no event to wait for
                        await asyncio.sleep(_WATCH_SECONDS)
            except TimeoutError:
                raise GitFailed("Another process is still fetching this repository.", code="busy") from None
            try:
                yield
            finally:
                os.close(file)

    async def _run(
        self, path: Path, target: CloneTarget, credentials: Credentials | None, progress: Tell | None
    ) -> None:
        limits = self._limits
        cpu_seconds = max(_LEAST_CPU_SECONDS, int(limits.clone_seconds))
        bounds = Bounds(limits.memory_bytes, cpu_seconds, written_bytes=limits.clone_bytes, writable=str(path))
        ours, theirs = socket.socketpair()
        tunnel = Tunnel(target, self._rules)
        child: Child | None = None
        try:
            with theirs:
                child = await Child.start(_MODULE, bounds, fd=theirs.fileno())
            await self._open(tunnel, child, ours)
            watch = asyncio.ensure_future(self._watch(path, tunnel, child))
            talk = asyncio.ensure_future(_talk(child, self._job(path, target, credentials, tunnel), progress))
            try:
                done, _ = await asyncio.wait({watch, talk}, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in (watch, talk):
                    task.cancel()
                await asyncio.gather(watch, talk, return_exceptions=True)
        except GitFailed as failure:
            raise remedied(tunnel.problem or failure, target.host) from None
        finally:
            ours.close()
            if child is not None:
                await child.end()
            await tunnel.close()

    async def _open(self, tunnel: Tunnel, child: Child, ours: socket.socket) -> None:
        """Take the child's listening socket, which may be in a network where nobody else is."""
        await child.hear()
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        if len(fds) != 1:
            raise GitFailed("The cloning process could not start.", code="crashed")
        listener = socket.socket(fileno=fds[0])
        listener.setblocking(False)
        await tunnel.open(listener)

    def _job(self, path: Path, target: CloneTarget, credentials: Credentials | None, tunnel: Tunnel) -> dict[str, Any]:
        trusted = ssl.get_default_verify_paths()
        return {
            "path": str(path),
            "scheme": target.scheme,
            "authority": target.authority,
            "target": target.path,
            "secret": tunnel.secret,
            "username": credentials.username if credentials is not None else "",
            "token": credentials.token.sent_to(target.place) if credentials is not None else "",
            "ca_file": self._rules.ca_file or trusted.cafile or "",
            "ca_directory": "" if self._rules.ca_file else trusted.capath or "",
        }

    async def _watch(self, path: Path, tunnel: Tunnel, child: Child) -> None:
        """Returns never: a clone that takes too long, too much work or becomes too large is a failure."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._limits.clone_seconds
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if clock() > end:
                seconds = f"{self._limits.clone_seconds:.0f} seconds"
                raise GitFailed(f"Cloning takes longer than {seconds}.", code="too_slow")
            if child.cpu_seconds > self._limits.unpack_seconds + tunnel.received / self._limits.unpack_bytes:
                raise GitFailed(
                    f"Unpacking {tunnel.received:,} bytes takes more work than any real repository of that size.",
                    code="hostile",
                )
            size = await asyncio.to_thread(_size, path)
            if max(size, tunnel.received) > self._limits.clone_bytes:
                raise GitFailed("The repository is larger than allowed.", code="too_large")
            if tunnel.problem is not None:
                raise GitFailed("The connection failed.", code="unreachable")


async def _talk(child: Child, job: dict[str, Any], progress: Tell | None) -> None:
    async for value in child.answers(job):
        if progress is not None and "progress" in value:
            done, total = value["progress"]
            await progress(Progress(int(done), int(total), "Receiving objects"))


def _lock(path: Path) -> int:
    """The lock's descriptor; -1 while somebody else holds it, or has just removed it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file).st_ino == path.stat().st_ino:
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(file)
    return -1


def _tidy(path: Path) -> None:
    """Remove what a fetch that was killed left: locks that nobody holds, and packs that never became whole."""
    for lock in (*path.glob("*.lock"), *(path / "refs").rglob("*.lock")):
        lock.unlink(missing_ok=True)
    for left in (path / "objects" / "pack").glob("*"):
        if left.suffix not in _KEPT_IN_PACKS:
            left.unlink(missing_ok=True)


def _size(path: Path) -> int:
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            try:
                total += (Path(directory) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total
