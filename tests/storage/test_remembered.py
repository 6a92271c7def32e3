"""What is remembered of a store is never more than a moment behind what any process committed there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from holdfast.core.errors import NotFound, Unauthenticated
from holdfast.core.principal import SCOPES
from holdfast.features.identity.model import NewKey
from holdfast.storage.database import Database, Tx
from holdfast.storage.remembered import Remembered
from tests.conftest import OpenDatabase
from tests.support.clock import MovableClock
from tests.support.world import World, new_world

SOON_SECONDS = 5.0


@pytest.fixture
async def two(open_database: OpenDatabase) -> AsyncIterator[tuple[Database, Database]]:
    databases = open_database(), open_database()
    yield databases
    for database in databases:
        await database.close()


@pytest.fixture
async def worlds(two: tuple[Database, Database]) -> tuple[World, World]:
    """Two servers on one store."""
    here = await new_world(two[0], MovableClock())
    there = await new_world(two[1], MovableClock())
    return here, there


async def refused(ask: Callable[[], Awaitable[object]], error: type[Exception]) -> None:
    """Within the bound of `changes` (a millisecond, here with room for a busy machine) it is refused, and stays so."""
    async with asyncio.timeout(SOON_SECONDS):
        while True:
            try:
                await ask()
            except error:
                break
            await asyncio.sleep(0.001)
    with pytest.raises(error):
        await ask()


async def test_a_change_of_this_process_shows_at_once(database: Database) -> None:
    await database.write(lambda tx: tx.execute("CREATE TABLE thing (id TEXT PRIMARY KEY, name TEXT)"))
    await database.write(lambda tx: tx.execute("INSERT INTO thing VALUES ('a', 'first')"))
    things: Remembered[str, str] = Remembered(database)
    for name in ("first", "second", "third"):
        await database.write(lambda tx, name=name: tx.execute("UPDATE thing SET name = :name", {"name": name}))  # type: ignore[misc]
        assert [await things.get("a", _name) for _ in range(3)] == [name] * 3


async def test_what_nobody_changed_is_read_once(sqlite_database: Database) -> None:
    reads = 0

    def read(tx: Tx) -> int:
        nonlocal reads
        reads += 1
        return 1

    numbers: Remembered[str, int] = Remembered(sqlite_database)
    assert [await numbers.get("a", read) for _ in range(20)] == [1] * 20
    assert reads == 1


async def test_a_mistake_is_not_remembered(sqlite_database: Database) -> None:
    def wrong(tx: Tx) -> int:
        raise NotFound("thing", "a")

    numbers: Remembered[str, int] = Remembered(sqlite_database)
    with pytest.raises(NotFound):
        await numbers.get("a", wrong)
    assert await numbers.get("a", lambda tx: 1) == 1


async def test_a_key_revoked_by_another_process_is_refused(worlds: tuple[World, World]) -> None:
    here, there = worlds
    new = NewKey(name="k", project_id=here.start.project_id, scopes=frozenset(SCOPES))
    minted = await there.services.keys.create(there.owner, new)
    assert (await here.services.keys.authenticate(minted.secret)).actor == minted.key.id
    await there.services.keys.revoke(there.owner, minted.key.id)
    await refused(lambda: here.services.keys.authenticate(minted.secret), Unauthenticated)


async def test_a_key_narrowed_by_another_process_is_narrow(worlds: tuple[World, World]) -> None:
    here, there = worlds
    new = NewKey(name="k", project_id=here.start.project_id, scopes=frozenset(SCOPES))
    minted = await there.services.keys.create(there.owner, new)
    assert "management" in (await here.services.keys.authenticate(minted.secret)).scopes
    await there.services.keys.update(there.owner, minted.key.id, scopes=frozenset({"read"}), tier="core")
    async with asyncio.timeout(SOON_SECONDS):
        while (seen := await here.services.keys.authenticate(minted.secret)).tier != "core":
            await asyncio.sleep(0.001)
    assert seen.scopes == {"read"}


async def test_a_workspace_deleted_by_another_process_is_gone(worlds: tuple[World, World]) -> None:
    here, there = worlds
    made = await there.services.workspaces.create(there.owner, here.start.project_id, "Short-lived")
    assert (await here.services.workspaces.get(here.owner, made.id)).name == "Short-lived"
    await there.services.workspaces.delete(there.owner, made.id)
    await refused(lambda: here.services.workspaces.get(here.owner, made.id), NotFound)


async def test_a_project_deleted_by_another_process_is_gone(worlds: tuple[World, World]) -> None:
    here, there = worlds
    made = await there.services.identity.create_project(there.owner, "Short-lived")
    assert await here.services.identity.project_exists(here.owner, made.id)
    await there.services.identity.delete_project(there.owner, made.id)
    async with asyncio.timeout(SOON_SECONDS):
        while await here.services.identity.project_exists(here.owner, made.id):
            await asyncio.sleep(0.001)


async def test_a_remembered_workspace_is_shown_to_nobody_who_may_not_see_it(database: Database) -> None:
    world = await new_world(database, MovableClock())
    workspaces = world.services.workspaces
    made = await workspaces.create(world.owner, world.start.project_id, "Ours")
    assert (await workspaces.get(world.owner, made.id)).id == made.id
    other = await world.services.identity.create_project(world.owner, "Other")
    strangers = (
        replace(world.owner, organization_id="org_" + "0" * 32),
        replace(world.owner, project_id=other.id),
        replace(world.owner, workspace_ids=frozenset({world.start.workspace_id})),
    )
    for stranger in strangers:
        with pytest.raises(NotFound):
            await workspaces.get(stranger, made.id)
    with pytest.raises(NotFound):
        await workspaces.get(world.owner, made.id, project_id=other.id)


def _name(tx: Tx) -> str:
    row = tx.one("SELECT name FROM thing WHERE id = 'a'")
    assert row is not None
    return str(row["name"])
