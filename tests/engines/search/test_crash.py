"""Owns the proof that entries and index agree after the writing process was killed."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.engines.search import Query
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.search.corpus import engine, workspace
from tests.support.clock import MovableClock

_WRITER = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from holdfast.engines.search.stores import packs
    from holdfast.storage.sqlite import SqliteDatabase
    from tests.engines.search.corpus import engine, entry, put
    from tests.support.clock import MovableClock

    async def write() -> None:
        database = SqliteDatabase(Path(sys.argv[1]))
        search = engine(database, MovableClock())
        packs.ENTRIES = 30
        for turn in range(1_000_000):
            texts = [f"turn {turn} words number{number}" for number in range(20)]
            entries = [entry("ws_a", f"m{turn % 50}-{number}", text) for number, text in enumerate(texts)]
            await put(search, database, entries, embedded=turn % 2 == 0)
            await database.write(lambda tx: search.remove(tx, "ws_a", "memory", f"m{turn % 50}-3"))
            await search.index()
            print(turn, flush=True)

    asyncio.run(write())
""")


@pytest.mark.slow
async def test_a_killed_writer_leaves_rows_and_index_in_agreement(sqlite_path: Path, clock: MovableClock) -> None:
    database = SqliteDatabase(sqlite_path)
    await database.write(lambda tx: workspace(tx, "a"))
    await database.close()

    for turns in (1, 4, 9):
        last = await asyncio.to_thread(_write_and_kill, sqlite_path, turns)
        database = SqliteDatabase(sqlite_path)
        search = engine(database, clock)
        assert await search.check() == []
        hits = await search.search(Query("ws_a", f"turn {last} words", limit=50))
        assert any(f"turn {last} " in hit.text for hit in hits)
        await database.close()


def _write_and_kill(path: Path, turns: int) -> int:
    """Let a process write that many turns at least, kill it in the middle of the next; the last it reported."""
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert writer.stdout is not None
    try:
        for line in writer.stdout:
            if int(line) >= turns:
                break
    finally:
        writer.send_signal(signal.SIGKILL)
    reported = [int(line) for line in writer.stdout.read().split("\n") if line.strip().isdigit()]
    writer.wait()
    writer.stdout.close()
    return max([turns, *reported])
