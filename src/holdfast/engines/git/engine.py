"""Owns reading git repositories: fetched behind a guard, walked and read in processes that can be ended."""

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from holdfast.core.errors import NotFound
from holdfast.engines.git import rows
from holdfast.engines.git.model import (
    BlameLine,
    BranchHead,
    Commit,
    Credentials,
    Excerpt,
    GitFailed,
    GitLimits,
    HistoryChange,
    Progress,
    ShownCommit,
    SnapshotChange,
    Tag,
    TreeEntry,
)
from holdfast.engines.git.process import Child
from holdfast.engines.git.readers import MODULE, Readers
from holdfast.engines.git.transport.address import Location
from holdfast.engines.git.transport.mirrors import Mirrors
from holdfast.engines.git.transport.tunnel import Rules
from holdfast.engines.sandbox.bounds import Bounds

Tell = Callable[[Progress], Awaitable[None]]
_NOT_FOUND = {"no_such_path": "path", "no_such_commit": "commit"}
_PACK = re.compile(r"pack-[0-9a-f]{40,64}\.(pack|idx)")
_LOOK_CPU_SECONDS = 900
_CHECKOUT_SECONDS = 300.0
_CHECKOUT_FILE_BYTES = 2 * 1024**3


class GitEngine:
    """Reads repositories. `directory` holds a bare mirror of each that has a URL; local ones are read in place."""

    def __init__(self, directory: Path, rules: Rules | None = None, *, limits: GitLimits | None = None) -> None:
        self.limits = limits or GitLimits()
        self._mirrors = Mirrors(directory, rules or Rules(), self.limits)
        self._bounds = Bounds(self.limits.memory_bytes, int(self.limits.clone_seconds))
        # A sync can wait for others; somebody waits for a look.
        self._readers = Readers(Bounds(self.limits.memory_bytes, _LOOK_CPU_SECONDS, niceness=0))

    def check(self, location: Location) -> None:
        """Refuse a URL that can't be cloned whatever its name leads to; GitFailed says why."""
        self._mirrors.check(location)

    async def fetch(
        self,
        repository_id: str,
        location: Location,
        *,
        branch: str = "",
        credentials: Credentials | None = None,
        progress: Tell | None = None,
    ) -> BranchHead:
        """Bring what a URL has now into the mirror; where it stands then. A local path is only looked at."""
        if not location.is_local:
            await self._mirrors.update(repository_id, location, credentials, progress)
        return rows.understood(rows.head, await self._look(repository_id, location, "head", branch=branch))

    async def history(
        self,
        repository_id: str,
        location: Location,
        head: BranchHead,
        *,
        known_head: str = "",
        known: Callable[[], Awaitable[Collection[str]]],
    ) -> AsyncGenerator[HistoryChange, None]:
        """Commits that came and went since what is known, oldest first, in batches.

        While `known_head` (the head of the last completed walk) is part of the history, only what is newer is walked;
        otherwise all of `known` is compared, so that a rewritten branch and a walk that was cut short come right."""
        job = {"job": "history", "head": head.commit, "known_head": known_head}
        async for child, value in self._stream(repository_id, location, job):
            if "ask" in value:
                await child.tell("".join(await known()))
            elif "total" in value:
                yield HistoryChange(total=int(value["total"]))
            elif "added" in value:
                yield HistoryChange(added=[rows.understood(rows.commit, row) for row in value["added"]])
            elif "removed" in value:
                yield HistoryChange(removed=value["removed"])

    async def snapshot(
        self, repository_id: str, location: Location, head: BranchHead, known: Mapping[str, str]
    ) -> AsyncGenerator[SnapshotChange, None]:
        """The files of the head that differ from `known` (path → blob), read into passages; then paths that went."""
        job = {"job": "snapshot", "head": head.commit, "known": dict(known)}
        async for _, value in self._stream(repository_id, location, job):
            if "total" in value:
                yield SnapshotChange(total=int(value["total"]))
            elif "files" in value:
                yield SnapshotChange(files=[rows.understood(rows.file, row) for row in value["files"]])
            elif "removed" in value:
                yield SnapshotChange(removed=value["removed"])

    async def tags(self, repository_id: str, location: Location, head: BranchHead) -> Sequence[Tag]:
        """Every tag that names a commit, oldest first."""
        found = await self._look(repository_id, location, "tags")
        return [rows.understood(rows.tag, row) for row in found]

    async def tree(
        self,
        repository_id: str,
        location: Location,
        commit: str,
        path: str = "",
        *,
        recursive: bool = False,
        limit: int = 500,
    ) -> Sequence[TreeEntry]:
        """The names in a directory as they are at a commit."""
        asked = {"commit": commit, "path": path, "recursive": recursive, "limit": limit}
        found = await self._look(repository_id, location, "tree", **asked)
        return [rows.understood(rows.tree_entry, row) for row in found]

    async def read(
        self,
        repository_id: str,
        location: Location,
        commit: str,
        path: str,
        start_line: int = 1,
        end_line: int | None = None,
    ) -> Excerpt:
        """Lines of a file as it is at a commit; NotFound when there is none."""
        asked = {"commit": commit, "path": path, "start_line": start_line, "end_line": end_line}
        return rows.understood(rows.excerpt, await self._look(repository_id, location, "read", **asked))

    async def log(
        self, repository_id: str, location: Location, commit: str, path: str, limit: int = 20
    ) -> Sequence[Commit]:
        """The commits that changed a path, newest first; a file's former names are followed."""
        found = await self._look(repository_id, location, "log", commit=commit, path=path, limit=limit)
        return [rows.understood(rows.commit, row) for row in found]

    async def blame(
        self, repository_id: str, location: Location, commit: str, path: str, start_line: int, end_line: int
    ) -> Sequence[BlameLine]:
        """Who last changed these lines, in runs."""
        asked = {"commit": commit, "path": path, "start_line": start_line, "end_line": end_line}
        found = await self._look(repository_id, location, "blame", **asked)
        return [rows.understood(rows.blame_line, row) for row in found]

    async def introduced(
        self, repository_id: str, location: Location, commit: str, name: str, *, seconds: float = 10.0
    ) -> Commit | None:
        """The first commit that has a name in one of its files; None where none has, or finding it takes longer."""
        asked = {"commit": commit, "name": name, "seconds": seconds}
        found = await self._look(repository_id, location, "introduced", **asked)
        return None if found is None else rows.understood(rows.commit, found)

    async def show(self, repository_id: str, location: Location, sha_prefix: str) -> ShownCommit:
        """A commit with its patch; NotFound unless the hash begins exactly one commit's."""
        found = await self._look(repository_id, location, "show", sha_prefix=sha_prefix)
        return rows.understood(rows.shown, found)

    async def commit_id(self, repository_id: str, location: Location, commit: str) -> str:
        """The whole hash of a commit; NotFound unless what is given begins exactly one commit's."""
        return str(await self._look(repository_id, location, "commit_id", commit=commit))

    async def checkout(self, repository_id: str, location: Location, commit: str, directory: Path) -> None:
        """Write a commit's files into an empty directory, and nothing else of the repository: no `.git`."""
        bounds = replace(self._bounds, written_bytes=_CHECKOUT_FILE_BYTES, writable=str(directory))
        asked = {"job": "checkout", **self._place(repository_id, location), "limits": asdict(self.limits)}
        child = await Child.start(MODULE, bounds)
        try:
            async with asyncio.timeout(_CHECKOUT_SECONDS):
                async for _ in child.answers({**asked, "commit": commit, "directory": str(directory)}):
                    pass
        except TimeoutError:
            raise GitFailed("Checking out the commit takes longer than allowed.", code="too_slow") from None
        except GitFailed as problem:
            raise _as_not_found(problem) from None
        finally:
            await child.end()

    async def adopt(self, repository_id: str, packs: Sequence[tuple[str, bytes]]) -> None:
        """Keep objects that were made here beside a repository's own: packs and their indexes, by their names.

        Whoever made them is not believed: an object is checked against its id whenever it is read.
        """
        await asyncio.to_thread(_keep_packs, self._made_here(repository_id) / "pack", packs)

    async def mirrored(self) -> set[str]:
        """The repositories that have a mirror here."""
        return await asyncio.to_thread(self._mirrors.ids)

    async def forget(self, repository_id: str) -> None:
        """Remove a mirror; nothing happens without one."""
        await self._readers.drop(str(self._mirrors.path(repository_id)))
        await self._mirrors.remove(repository_id)
        await asyncio.to_thread(shutil.rmtree, self._made_here(repository_id).parent, ignore_errors=True)

    async def close(self) -> None:
        """End all processes."""
        await self._readers.close()

    def path(self, repository_id: str, location: Location) -> str:
        """Where a repository is on this machine: its own directory, or our mirror of it."""
        return location.path if location.is_local else str(self._mirrors.path(repository_id))

    def _place(self, repository_id: str, location: Location) -> dict[str, Any]:
        """Where a repository is, and where objects that were made here are, if there are any."""
        # One that is only looked at before it is added has no id yet.
        also = self._made_here(repository_id) if repository_id else None
        found = also is not None and also.is_dir()
        return {"path": self.path(repository_id, location), "also": str(also) if found else None}

    def _made_here(self, repository_id: str) -> Path:
        mirror = self._mirrors.path(repository_id)
        return mirror.with_suffix(".made") / "objects"

    async def _look(self, repository_id: str, location: Location, job: str, **arguments: Any) -> Any:
        place = self._place(repository_id, location)
        asked = {"job": job, "also": place["also"], "limits": asdict(self.limits), "arguments": arguments}
        try:
            return await self._readers.ask(self.path(repository_id, location), asked)
        except GitFailed as problem:
            raise _as_not_found(problem) from None

    async def _stream(
        self, repository_id: str, location: Location, job: dict[str, Any]
    ) -> AsyncGenerator[tuple[Child, dict[str, Any]], None]:
        """The values of a long job in a process of its own, which ends with the iterator."""
        child = await Child.start(MODULE, self._bounds)
        try:
            asked = {**job, **self._place(repository_id, location), "limits": asdict(self.limits)}
            async for value in child.answers(asked):
                yield child, value
        finally:
            await child.end()


def _keep_packs(directory: Path, packs: Sequence[tuple[str, bytes]]) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The index comes last: a pack without one is not seen.
    for name, content in sorted(packs, key=lambda each: each[0].endswith(".idx")):
        if _PACK.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a pack")
        coming = directory / f".{name}.coming"
        coming.write_bytes(content)
        coming.rename(directory / name)


def _as_not_found(problem: GitFailed) -> GitFailed | NotFound:
    kind = _NOT_FOUND.get(problem.code)
    return problem if kind is None else NotFound(kind, problem.message)
