"""Owns a git server and a repository that it serves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.code.git import GitRepo
from tests.support.code.git_server import GitServer, git_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "served") as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    bare = GitRepo(tmp_path / "served" / "project.git", bare=True)
    bare.grow(30)
    return bare
