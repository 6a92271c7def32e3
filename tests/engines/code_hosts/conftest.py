"""Owns code hosts that are not there, and the readers of their histories."""

from collections.abc import AsyncIterator

import pytest

from holdfast.engines.code_hosts.github_history import GitHubHistory
from holdfast.engines.code_hosts.gitlab_history import GitLabHistory
from holdfast.engines.code_hosts.history import Token
from holdfast.engines.code_hosts.patience import Patience
from holdfast.engines.fetch.network.guard import Guard
from tests.engines.code_hosts.reading import Waits
from tests.fakes.code_hosts import github as fake_github
from tests.fakes.code_hosts import gitlab as fake_gitlab
from tests.fakes.code_hosts.github import FakeGitHub
from tests.fakes.code_hosts.gitlab import FakeGitLab
from tests.support.access.credentials import credential


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
async def hub() -> AsyncIterator[FakeGitHub]:
    async with fake_github.github() as made:
        yield made


@pytest.fixture
async def lab() -> AsyncIterator[FakeGitLab]:
    async with fake_gitlab.gitlab() as made:
        yield made


@pytest.fixture
async def on_hub(hub: FakeGitHub, waits: Waits) -> AsyncIterator[GitHubHistory]:
    token = Token(credential(fake_github.TOKEN, hub.url), "the secret HUB")
    made = GitHubHistory(Guard(), token, base_url=hub.url, patience=Patience(wait_seconds=100), sleep=waits)
    yield made
    await made.aclose()


@pytest.fixture
async def on_lab(lab: FakeGitLab, waits: Waits) -> AsyncIterator[GitLabHistory]:
    token = Token(credential(fake_gitlab.TOKEN, lab.url), "the secret LAB")
    made = GitLabHistory(Guard(), token, base_url=lab.url, patience=Patience(wait_seconds=100), sleep=waits)
    yield made
    await made.aclose()
