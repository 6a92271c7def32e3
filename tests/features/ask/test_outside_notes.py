"""Owns the proof of what outside repositories showed: notes of any form, records with a context, files as origins."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

NESTED = """# Wicket Changelog

## [2.0.0-rc1](https://example.org/wicket/tree/v2.0.0-rc1) - (2020-07-29)

_No change to code._

### 1.12.0 (2015-01-22)

- Add latch support
- Better hinges
"""
PLAIN = """4.2.1:
  - Fixing a regression that came with 4.2.0, sorry
  - The minimum supported lua version is now `5.4.0`.

4.2.0:
  - Added bolt support
  - Fixed a lua 5.4 warning

4.1.0:
  - Fixed lua 5.4 names
"""
RECORD = """# 2. Keep keys in a drawer

## Status

Accepted

## Context

Keys were left in the lock. Everybody who passed could turn them.

## Decision

Keys are kept in a drawer beside the door.
"""
GRACE = ("Grace Hopper", "grace@example.org")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> GitRepo:
    made = GitRepo(tmp_path_factory.mktemp("outside") / "wicket")
    made.commit("Begin", {"README.md": "# Wicket\n\nWicket is a door.\n", "CHANGELOG.md": NESTED})
    made.commit("First cut", {"src/decoder_hinge.go": "package src\n"}, author=GRACE[0], email=GRACE[1])
    made.commit("Quote hinges in the decoder", {"src/decoder_hinge.go": "package src\n\nvar hinge = 1\n"})
    made.commit("Write down what was decided", {"doc/adr/0002-keys.md": RECORD})
    made.commit("Write the notes", {"release_notes.txt": PLAIN})
    return made


@pytest.fixture
async def here(
    sqlite_database: Database, clock: MovableClock, tmp_path: Path, source: GitRepo
) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(sqlite_database, clock, tmp_path / "data") as made:
        await made.add(source, slug="wicket")
        await made.services.search.tend()
        yield made


async def first(here: RepositoryWorld, question: str) -> str:
    """The first line of an answer."""
    answer = await here.services.ask.ask(here.principal, ["wicket"], question, source="cli")
    return answer.markdown.splitlines()[0]


async def test_a_version_below_another_one_is_a_version_of_its_own(here: RepositoryWorld) -> None:
    answer = await first(here, "In which version was latch support added?")
    assert answer == '- **1.12.0 (2015-01-22)**, `CHANGELOG.md`: "Add latch support" [1]'


async def test_plain_release_notes_tell_their_versions(here: RepositoryWorld) -> None:
    answer = await first(here, "Which version added bolt support?")
    assert answer == '- **4.2.0**, `release_notes.txt`: "Added bolt support" [1]'
    assert "regression that came with 4.2.0" in await first(here, "What went wrong in 4.2.0?")
    assert (await first(here, "Since which version does wicket need lua 5.4?")).startswith("- **4.2.1**")


async def test_why_is_told_by_the_context_of_a_record(here: RepositoryWorld) -> None:
    answer = await here.services.ask.ask(here.principal, ["wicket"], "Why are keys kept in a drawer?", source="cli")
    decided, because = answer.markdown.splitlines()[:2]
    assert "Keys are kept in a drawer" in decided
    assert "Keys were left in the lock." in because


async def test_who_wrote_a_part_is_who_made_its_file(here: RepositoryWorld) -> None:
    answer = await first(here, "Who first wrote the hinge decoder?")
    assert answer.startswith("- **Grace Hopper**, ") and "first commit of src/decoder_hinge.go" in answer
