"""Owns the proof of what went wrong with repositories unknown before: numbers, deprecations, bumps, decisions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

CHANGES = """# Changes

## 2.2.0 (2024-04-16)

- Drop support for Python 3.7.

## 2.1.0 (2023-11-04)

- Require `wire-errors` v2: `seal.throw` now takes a status first.
- Fix seals that broke on an empty payload.
- Faster seals.

## 2.0.0 (2021-05-11)

- Drop support for Python 2 and 3.5.
- `OpaqueSealer` is deprecated. Use a dedicated library such as sealing-wax instead.

## 1.0.0 (2018-10-18)

- Drop support for Python 2.6 and 3.3.
"""
STORES = """# 3. Seals are kept by libseal in a process of its own

**Context.** A seal is somebody else's data, and the seal command runs whatever a seal names.

**Decision.** libseal reads and writes; it executes nothing that a seal says. It runs in a child process with limits.

**Consequences.** libseal has no partial seals yet, which is said plainly. Starting a child costs a tenth of a second.
"""
TRIED = """# 9. Libraries tried in place of code

**libseal's comparison instead of `compare.py`: no.** It is right and shorter, but holds the interpreter while it works.
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> GitRepo:
    made = GitRepo(tmp_path_factory.mktemp("unknown") / "signet")
    made.commit("Begin", {"README.md": "# Signet\n\nSignet seals letters.\n", "signet/seal.py": "LIMIT = 2\n"})
    made.commit("Write down what was decided", {"docs/decisions/0003-stores.md": STORES})
    made.commit("Write down what was tried", {"docs/decisions/0009-libraries.md": TRIED})
    made.commit("Write the changes", {"CHANGES.md": CHANGES})
    made.commit("build(deps): bump wire-errors from 2.0.0 to 2.0.1 (#19)", {"requirements.txt": "wire-errors==2.0.1\n"})
    return made


@pytest.fixture
async def here(
    sqlite_database: Database, clock: MovableClock, tmp_path: Path, source: GitRepo
) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(sqlite_database, clock, tmp_path / "data") as made:
        await made.add(source, slug="signet")
        await made.services.search.tend()
        yield made


async def told(here: RepositoryWorld, question: str) -> str:
    """What stands above the sources."""
    answer = await here.services.ask.ask(here.principal, ["signet"], question, source="cli")
    return answer.markdown.partition("\n## Sources")[0]


async def test_a_number_belongs_to_what_it_counts(here: RepositoryWorld) -> None:
    answer = await told(here, "In which version was Python 2 support dropped?")
    assert answer.startswith('- **2.0.0 (2021-05-11)**, `CHANGES.md`: "Drop support for Python 2 and 3.5." [1]')
    assert "3.7" not in answer and "2.6" not in answer


async def test_why_something_was_removed_is_told_where_it_was_deprecated(here: RepositoryWorld) -> None:
    answer = await told(here, "Why was OpaqueSealer removed?")
    assert "Use a dedicated library such as sealing-wax instead." in answer
    assert "Nothing that was found" in await told(here, "When was OpaqueSealer removed?")


async def test_a_bump_of_a_library_does_not_displace_the_notes(here: RepositoryWorld) -> None:
    answer = await told(here, "When was seal.throw changed to use wire-errors v2?")
    assert answer.startswith("- **2.1.0 (2023-11-04)**, ")
    assert "bump wire-errors" not in answer
    assert "bump wire-errors" in await told(here, "Which commit last bumped wire-errors, and when?")


async def test_a_decision_comes_before_its_consequences_and_before_other_decisions(here: RepositoryWorld) -> None:
    answer = await told(here, "Why is libseal used instead of the seal command?")
    assert answer.startswith('- `docs/decisions/0003-stores.md`: "')
    assert "executes nothing that a seal says" in answer.splitlines()[0]


async def test_what_broke_in_a_version_is_what_was_mended(here: RepositoryWorld) -> None:
    answer = await told(here, "What broke in version 2.1.0?")
    assert answer.splitlines()[0].startswith("- **2.1.0 (2023-11-04)**") and "empty payload" in answer.splitlines()[0]
