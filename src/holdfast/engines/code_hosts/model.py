"""Owns what GitHub and GitLab have in common: hits, overviews, files, directories."""

from dataclasses import dataclass, replace
from typing import Literal, Protocol

from holdfast.core.errors import FieldError, Invalid

MAX_PATHS = 10
FULL_CONTENTS = 3
CHARACTERS = 60_000
README_CHARACTERS = 12_000
TREE_ENTRIES = 400
COMMITS = 10


@dataclass(frozen=True, slots=True)
class CodeHit:
    """A file that matches; `content` is the whole file for the first three."""

    repository: str
    path: str
    url: str
    snippets: tuple[str, ...]
    content: str | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Hits:
    """Matches, best first; `total` counts those that were not asked for, where the host tells."""

    results: tuple[CodeHit, ...]
    total: int | None = None


@dataclass(frozen=True, slots=True)
class HostTreeEntry:
    """One name in a repository; `size` in bytes where the host tells."""

    path: str
    kind: Literal["file", "directory", "other"]
    size: int | None = None


@dataclass(frozen=True, slots=True)
class HostCommit:
    """A recent change: the first line of its message."""

    sha: str
    message: str
    author: str
    date: str


@dataclass(frozen=True, slots=True)
class Overview:
    """A repository at a glance; `languages` in percent of the code."""

    repository: str
    url: str
    description: str
    default_branch: str
    stars: int
    forks: int
    open_issues: int
    license: str
    topics: tuple[str, ...]
    archived: bool
    updated_at: str
    languages: dict[str, float]
    readme: str
    tree: tuple[HostTreeEntry, ...]
    tree_truncated: bool
    recent_commits: tuple[HostCommit, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A file, a directory, or why there is neither."""

    path: str
    kind: Literal["file", "directory", "error"]
    content: str = ""
    entries: tuple[HostTreeEntry, ...] = ()
    truncated: bool = False


class CodeHost(Protocol):
    """A place where code lives."""

    name: str
    max_results: int

    async def search(self, query: str, *, language: str | None, max_results: int) -> Hits:
        """Files whose content matches."""
        ...

    async def overview(self, repository: str) -> Overview:
        """Metadata, languages, README, tree and recent commits."""
        ...

    async def read(self, repository: str, paths: tuple[str, ...], *, ref: str | None = None) -> list[Read]:
        """Files or directories, in the order asked for; a missing one becomes an error entry."""
        ...


def shared(reads: list[Read]) -> list[Read]:
    """The files, cut so that all of them together stay within the budget of characters."""
    files = sum(read.kind == "file" for read in reads)
    share = CHARACTERS // max(files, 1)
    return [
        replace(read, content=read.content[:share], truncated=True)
        if read.kind == "file" and len(read.content) > share
        else read
        for read in reads
    ]


def as_text(body: bytes) -> str | None:
    """A file's text, or None for a binary one."""
    if b"\0" in body[:8_000]:
        return None
    return body.decode("utf-8", "replace")


def file_read(path: str, body: bytes) -> Read:
    """A file that was had, unless it is no text."""
    text = as_text(body)
    if text is None:
        return Read(path, "error", content=f"{path} is a binary file of {len(body):,} bytes.")
    return Read(path, "file", content=text)


def clean_path(path: str) -> str:
    """A path inside a repository without its outer slashes; Invalid for one that leaves it."""
    cleaned = path.strip().strip("/")
    if any(part in ("..", ".") for part in cleaned.split("/")) and cleaned != ".":
        raise Invalid("A path is not right.", fields=[FieldError("path", f"{path!r} leaves the repository")])
    if any(character < " " for character in cleaned) or len(cleaned) > 1_000:
        raise Invalid("A path is not right.", fields=[FieldError("path", "it is too long or holds control characters")])
    return "" if cleaned == "." else cleaned
