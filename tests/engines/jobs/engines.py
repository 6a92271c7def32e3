"""Owns job engines for tests: made on a database, running, and waited for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from holdfast.engines.events import EventBus
from holdfast.engines.jobs import JobEngine
from holdfast.storage.database import Database, Tx

WORKSPACES = ("ws_1", "ws_2")


async def engine_on(database: Database) -> JobEngine:
    def add(tx: Tx) -> None:
        tx.execute("INSERT INTO organization (id, name, created_at) VALUES ('org_1', 'o', 0) ON CONFLICT DO NOTHING")
        tx.execute(
            "INSERT INTO project (id, organization_id, slug, name, created_at) "
            "VALUES ('proj_1', 'org_1', 'p', 'p', 0) ON CONFLICT DO NOTHING"
        )
        for workspace_id in WORKSPACES:
            tx.execute(
                "INSERT INTO workspace (id, project_id, organization_id, slug, name, created_at) "
                "VALUES (:id, 'proj_1', 'org_1', :id, 'w', 0) ON CONFLICT DO NOTHING",
                {"id": workspace_id},
            )

    await database.write(add)
    # Only what dies should lose its lease here, not what a busy machine holds up.
    return JobEngine(database, EventBus(database), lease_seconds=120)


@asynccontextmanager
async def running(*engines: JobEngine) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(engine.run()) for engine in engines]
    try:
        yield
    finally:
        for engine in engines:
            await engine.stop()
        for task in tasks:
            await task


async def enqueue(database: Database, engine: JobEngine, kind: str = "work", **options: object) -> str:
    return await database.write(lambda tx: engine.enqueue(tx, kind, {"n": 1}, **options))  # type: ignore[arg-type]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(90):
        while not await condition():
            await asyncio.sleep(0.02)
