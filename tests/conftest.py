"""Owns the fixtures of every test: migrated databases on both stores, made anew for each test, and a movable clock."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from hypothesis import HealthCheck
from hypothesis import settings as properties

from holdfast.features.identity.sessions import passwords
from holdfast.storage.database import Database
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.properties import number
from tests.support.scratch import use_for_tests
from tests.support.stores.postgres import PostgresUnavailable, PrivatePostgres
from tests.support.stores.workers import CHANGES_SECONDS, WORKERS

OpenDatabase = Callable[[], Database]

pytest_plugins = ["tests.support.costs"]
use_for_tests()

# Properties are tried on the same examples everywhere, and a busy machine fails none of them for being slow.
properties.register_profile(
    "steady",
    max_examples=number(),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
properties.load_profile("steady")


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end on a loop of its own, whatever loop the test runner holds."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


async def _migrated(database: Database) -> None:
    try:
        await migrate(database)
    finally:
        await database.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is true of one process alone, where each server of a test has several."""
    for item in items:
        mark = item.get_closest_marker("one_process")
        if mark is not None and WORKERS > 1:
            item.add_marker(pytest.mark.skip(reason=f"true of each worker: {mark.args[0]}"))


@pytest.fixture(scope="session", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Passwords that are hashed in a moment. tests/features/identity/test_passwords.py looks at the real cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
        yield


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PrivatePostgres]:
    """One PostgreSQL for this worker process."""
    try:
        server = PrivatePostgres()
    except PostgresUnavailable as problem:
        reason = f"No PostgreSQL for tests: {problem}."
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PrivatePostgres) -> str:
    """The name of a migrated database that tests copy."""
    name = postgres_server.create()
    _run(_migrated(PostgresDatabase(postgres_server.url(name), connections=2)))
    return name


@pytest.fixture
def empty_postgres_url(postgres_server: PrivatePostgres) -> Iterator[str]:
    """A fresh PostgreSQL database without any table."""
    name = postgres_server.create()
    yield postgres_server.url(name)
    postgres_server.drop(name)


@pytest.fixture
def postgres_url(postgres_server: PrivatePostgres, postgres_template: str) -> Iterator[str]:
    """A fresh, migrated PostgreSQL database."""
    name = postgres_server.create(template=postgres_template)
    yield postgres_server.url(name)
    postgres_server.drop(name)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database file that tests copy."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    _run(_migrated(SqliteDatabase(path)))
    return path


@pytest.fixture
def sqlite_path(sqlite_template: Path, tmp_path: Path) -> Path:
    """A fresh, migrated database file."""
    return Path(shutil.copyfile(sqlite_template, tmp_path / "holdfast.db"))


@pytest.fixture(params=["sqlite", "postgresql"])
def open_database(request: pytest.FixtureRequest) -> OpenDatabase:
    """Opens this test's migrated database; may be called again, as a second server would. The caller closes it."""
    if request.param == "sqlite":
        path: Path = request.getfixturevalue("sqlite_path")
        return lambda: SqliteDatabase(path, changes_seconds=CHANGES_SECONDS)
    url: str = request.getfixturevalue("postgres_url")
    return lambda: PostgresDatabase(url)


@pytest.fixture
async def database(open_database: OpenDatabase) -> AsyncIterator[Database]:
    """A migrated database, on each store in turn."""
    opened = open_database()
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite_database(sqlite_path: Path) -> AsyncIterator[SqliteDatabase]:
    """A migrated SQLite database, for what has nothing to do with the store."""
    opened = SqliteDatabase(sqlite_path, changes_seconds=CHANGES_SECONDS)
    yield opened
    await opened.close()


@pytest.fixture
async def postgres_database(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    """A migrated PostgreSQL database."""
    opened = PostgresDatabase(postgres_url)
    yield opened
    await opened.close()
