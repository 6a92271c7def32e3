"""Owns how tests of memories save one and count rows."""

from holdfast.features.memory.model import NewMemory, Saved
from tests.support.features.memories import MemoryWorld


async def save(world: MemoryWorld, content: str, **fields: object) -> Saved:
    return await world.memory.save(world.agent, world.ws, NewMemory(content, **fields))  # type: ignore[arg-type]


async def count(world: MemoryWorld, table: str) -> int:
    row = await world.database.read(lambda tx: tx.one(f"SELECT COUNT(*) AS number FROM {table}"))
    return int(row["number"]) if row else 0
