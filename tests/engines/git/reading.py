"""Owns reading a repository whole, for tests that compare it with what git says."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.model import BranchHead, Commit, File, GitLimits
from holdfast.engines.git.transport.address import Location, parse_location


@dataclass
class Read:
    """What one walk gave."""

    commits: list[Commit]
    removed: list[str]
    totals: list[int]


@asynccontextmanager
async def engine(directory: Path, limits: GitLimits | None = None) -> AsyncIterator[GitEngine]:
    """An engine that ends its processes."""
    made = GitEngine(directory / "mirrors", limits=limits)
    try:
        yield made
    finally:
        await made.close()


async def walked(
    git: GitEngine, location: Location, head: BranchHead, *, known_head: str = "", known: Collection[str] = ()
) -> Read:
    """The whole of what a walk gives."""
    read = Read([], [], [])

    async def kept() -> Collection[str]:
        return known

    async for change in git.history("repo_1", location, head, known_head=known_head, known=kept):
        read.commits.extend(change.added)
        read.removed.extend(change.removed)
        if change.total is not None:
            read.totals.append(change.total)
    return read


async def history(path: Path, directory: Path, *, branch: str = "", limits: GitLimits | None = None) -> Read:
    """The history of a local repository."""
    async with engine(directory, limits) as git:
        location = parse_location(str(path))
        return await walked(git, location, await git.fetch("repo_1", location, branch=branch))


async def snapshot(
    git: GitEngine, location: Location, head: BranchHead, known: Mapping[str, str] | None = None
) -> tuple[dict[str, File], list[str]]:
    """The files of a head by path, and the paths that went."""
    files: dict[str, File] = {}
    removed: list[str] = []
    async for change in git.snapshot("repo_1", location, head, known or {}):
        files |= {file.path: file for file in change.files}
        removed.extend(change.removed)
    return files, removed


async def files_of(path: Path, directory: Path, limits: GitLimits | None = None) -> dict[str, File]:
    """The files of a local repository's head."""
    async with engine(directory, limits) as git:
        location = parse_location(str(path))
        return (await snapshot(git, location, await git.fetch("repo_1", location)))[0]
