"""Owns the proof that changes are told by notes and commits: a repository with the traits of those found in the wild.

A class that is defined in one place, tested in many, and told of in release notes; a function that others rewrote after
somebody brought it; commits that were rebased long after they were written.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.features.ask.model import CitedAnswer
from holdfast.features.ask.service import NOTHING_FOUND
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

NOTES = """# Release notes

## 0.27.0 (May 16, 2023)

This release fixes a path traversal vulnerability in `StaticFiles`.

### Removed

* Drop Python 3.7 support.

## 0.21.0 (September 26, 2022)

### Changed

* Replace `requests` with `httpx` in `TestClient`.

### Added

* Add `gzip_level` to `GZipMiddleware`.

## 0.17.0 (November 4, 2021)

### Removed

* Remove GraphQL support.
"""
STATIC = '''"""Serves files."""


class StaticFiles:
    """Serve a directory of static files."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def lookup_path(self, path: str) -> str:
        """The full path of a static file, checked against path traversal."""
        return path
'''
CLIENT = '''import httpx


class TestClient(httpx.Client):
    """Make requests against an application."""
'''
README = """# Beacon

<p align="center"><img src="beacon.svg"></p>

Beacon is a small web framework for lighthouses.

## Serving static files

Mount `StaticFiles` to serve static files from a directory:

```python
app.mount("/static", StaticFiles(directory="static"))
```
"""
POOL_BEFORE = "def run_in_pool(work):\n    return work()\n"
POOL = '''def run_in_pool(work: Callable[[], T]) -> T:
    """Run work in a pool of threads."""
    return pool.submit(work).result()
'''


def _tests(number: int) -> str:
    return f'''from beacon.staticfiles import StaticFiles
from beacon.testclient import TestClient


def test_serve_static_files_{number}() -> None:
    """How do I serve static files: path traversal, requests, httpx and the TestClient in version {number}."""
    client = TestClient(StaticFiles(directory="static"))
    assert client.get("/static/file").status_code == 200
'''


def beacon(path: Path) -> GitRepo:
    """The repository."""
    made = GitRepo(path)
    made.commit("Begin", {"README.md": README, "beacon/staticfiles.py": STATIC, "beacon/testclient.py": CLIENT})
    written = {"GIT_AUTHOR_DATE": "2019-02-03T04:05:06+00:00", "GIT_AUTHOR_NAME": "Yera Diaz"}
    written |= {"GIT_COMMITTER_DATE": "2022-11-12T13:14:15+00:00", "GIT_AUTHOR_EMAIL": "yera@example.org"}
    written |= {"GIT_COMMITTER_NAME": "Release Bot", "GIT_COMMITTER_EMAIL": "bot@example.org"}
    made.write("beacon/pool.py", POOL_BEFORE)
    made.run("add", "-A")
    made.run("commit", "-q", "-m", "Add run_in_pool", who=written)
    made.commit(
        "Replace requests by httpx in TestClient\n\nrequests has no way to call an application in the same process "
        "without\nan adapter of our own, so that every release of it broke us.\n",
        {"beacon/testclient.py": CLIENT + "\n    follow = True\n"},
    )
    made.commit("Annotate run_in_pool", {"beacon/pool.py": POOL}, author="Marcel T")
    made.commit("Remove GraphQL support", {"docs/notes.md": "Nothing here.\n"}, author="Marcel T")
    made.commit("Write the notes", {"docs/release-notes.md": NOTES})
    made.commit("Test much", {f"tests/test_static_{number}.py": _tests(number) for number in range(8)})
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> GitRepo:
    return beacon(tmp_path_factory.mktemp("outside") / "beacon")


@pytest.fixture
async def here(
    sqlite_database: Database, clock: MovableClock, tmp_path: Path, source: GitRepo
) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(sqlite_database, clock, tmp_path / "data") as made:
        await made.add(source, slug="beacon")
        await made.services.search.tend()
        yield made


async def ask(here: RepositoryWorld, question: str) -> CitedAnswer:
    return await here.services.ask.ask(here.principal, ["beacon"], question, source="cli")


async def test_a_definition_does_not_displace_release_notes(here: RepositoryWorld) -> None:
    question = "What was the path traversal problem in StaticFiles and in which version was it fixed?"
    what, version = (await ask(here, question)).markdown.split("## ")[1:3]
    told = '- **0.27.0 (May 16, 2023)**, `docs/release-notes.md`: "This release fixes a path traversal vulnerability'
    assert told in what and told in version
    assert "class StaticFiles" not in what + version


async def test_a_reason_is_found_beside_a_symbol_that_is_named(here: RepositoryWorld) -> None:
    answer = (await ask(here, "Why did TestClient move from requests to httpx?")).markdown
    assert "so that every release of it broke us" in answer
    assert "**0.21.0 (September 26, 2022)**" in answer
    assert "tests/" not in answer and "class TestClient" not in answer


async def test_a_version_is_that_of_the_notes_above_the_line(here: RepositoryWorld) -> None:
    answer = (await ask(here, "Which version dropped Python 3.7 support?")).markdown
    assert answer.startswith('- **0.27.0 (May 16, 2023)**, `docs/release-notes.md`: "Drop Python 3.7 support." [1]')


async def test_a_how_to_is_answered_by_documents_with_their_example_before_tests(here: RepositoryWorld) -> None:
    answer = await ask(here, "How do I serve static files?")
    assert answer.markdown.startswith("- `README.md`: ")
    assert 'app.mount("/static", StaticFiles(directory="static"))' in answer.markdown
    assert answer.citations[0].address.startswith("beacon:README.md#")
    assert not any(each.address.startswith("beacon:tests/") for each in answer.citations[:2])


async def test_what_a_thing_is_is_told_by_the_sentence_that_says_so(here: RepositoryWorld) -> None:
    answer = (await ask(here, "What is Beacon?")).markdown
    assert answer.startswith('- `README.md`: "Beacon is a small web framework for lighthouses." [1]')


@pytest.mark.parametrize("question", ["Who introduced run_in_pool?", "Who added the run_in_pool function?"])
async def test_who_introduced_something_wrote_the_first_commit_that_has_it(
    here: RepositoryWorld, question: str
) -> None:
    answer = (await ask(here, question)).markdown
    assert answer.startswith('- **Yera Diaz**, 2019-02-03, first commit that has run_in_pool: "Add run_in_pool" [1]')
    assert "Marcel" not in answer and "2022" not in answer


async def test_when_is_the_day_on_which_it_was_written_not_committed(here: RepositoryWorld) -> None:
    answer = (await ask(here, "When was run_in_pool added?")).markdown
    assert answer.startswith('- 2019-02-03: "Add run_in_pool", Yera Diaz [1]')
    hits = await here.hits("Add run_in_pool", "commit")
    assert hits[0].occurred_at == 1_549_166_706_000


@pytest.mark.parametrize(
    "question",
    [
        "When did Beacon add gRPC support?",
        "When was the QUIC transport removed?",
        "Why was the Kafka middleware deprecated?",
        "Who introduced the CassandraSessionBackend?",
        "In which version was StaticFiles removed?",
        "Which version dropped Python 3.9 support?",
        "Why did Beacon drop TestClient?",
        "How do I connect to a Redis cluster?",
    ],
)
async def test_a_false_premise_is_not_found(here: RepositoryWorld, question: str) -> None:
    answer = await ask(here, question)
    assert answer.markdown.startswith("Nothing that was found"), answer.markdown
    assert len(answer.citations) <= 1


async def test_what_is_near_but_tells_nothing_is_named_as_such(here: RepositoryWorld) -> None:
    answer = await ask(here, "In which version was StaticFiles removed?")
    assert answer.markdown.startswith(f"{NOTHING_FOUND} Searched: beacon (")
    assert "but does not tell this: [1]." in answer.markdown
    assert "Tried: release notes and changelogs (" in answer.markdown and "tests (" in answer.markdown


@pytest.mark.parametrize("question", ["Who wrote the first commit?", "Who started this project?"])
async def test_who_began_a_repository_wrote_its_oldest_commit(here: RepositoryWorld, question: str) -> None:
    answer = (await ask(here, question)).markdown
    assert ', first commit: "' in answer.splitlines()[0]


async def test_whether_something_is_supported_is_told_by_prose_not_by_code(here: RepositoryWorld) -> None:
    answer = (await ask(here, "Does GZipMiddleware support gzip_level?")).markdown
    assert answer.startswith("- **0.21.0 (September 26, 2022)**, `docs/release-notes.md`: ")
    assert (await ask(here, "Does Beacon support Kerberos?")).markdown.startswith("Nothing that was found")


async def test_a_true_removal_is_found(here: RepositoryWorld) -> None:
    answer = (await ask(here, "When was GraphQL support removed?")).markdown
    assert '"Remove GraphQL support", Marcel T' in answer
    assert '**0.17.0 (November 4, 2021)**, `docs/release-notes.md`: "Remove GraphQL support."' in answer
