"""Owns how tests clone: an engine that may reach this machine, what it leaves behind, and how it fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.model import Credentials, GitFailed, GitLimits
from holdfast.engines.git.transport.address import parse_location
from holdfast.engines.git.transport.tunnel import Rules


@asynccontextmanager
async def cloner(tmp_path: Path, *allowed: str, limits: GitLimits | None = None) -> AsyncIterator[GitEngine]:
    made = GitEngine(tmp_path / "mirrors", Rules(allow_private=allowed), limits=limits)
    try:
        yield made
    finally:
        await made.close()


def left(tmp_path: Path) -> list[str]:
    """What is in the directory of mirrors besides locks."""
    return sorted(path.name for path in (tmp_path / "mirrors").iterdir() if path.suffix != ".lock")


async def fails(git: GitEngine, url: str, **options: Credentials) -> GitFailed:
    with pytest.raises(GitFailed) as failure:
        await git.fetch("repo_1", parse_location(url), **options)  # type: ignore[arg-type]
    return failure.value
