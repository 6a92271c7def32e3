"""Owns the proof that a killed server loses nothing of a document: rows and index agree once another goes on."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from holdfast.core.clock import SystemClock
from holdfast.features.documents.model import Document
from holdfast.storage.database import Database
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.features.library import Library, library

pytestmark = pytest.mark.slow

PARAGRAPHS = 2500
TEXT = "\n\n".join(f"Paragraph {n}. " + f"The giraffe number {n} eats leaves at noon. " * 18 for n in range(PARAGRAPHS))


def _address(database: Database) -> tuple[str, str]:
    if isinstance(database, SqliteDatabase):
        return "sqlite", str(database.path)
    assert isinstance(database, PostgresDatabase)
    return "postgresql", database.url


async def _killed_when(here: Library, document: Document, reached: Callable[[Document], bool]) -> None:
    """Have another process read until that point, then kill it with -9."""
    where = (*_address(here.database), here.principal.organization_id, here.workspace_id)
    process = subprocess.Popen([sys.executable, "-m", "tests.features.documents.doomed", *where])
    try:
        async with asyncio.timeout(90):
            while True:
                now = await here.documents.get(here.principal, here.workspace_id, document.id)
                if reached(now):
                    return
                assert process.poll() is None
                await asyncio.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def test_reading_goes_on_after_kill_9_and_index_and_rows_agree(database: Database) -> None:
    here = await library(database, SystemClock())
    kept = (await here.upload("long.txt", TEXT.encode())).document

    await _killed_when(here, kept, lambda now: now.state != "queued")
    await _killed_when(here, kept, lambda now: now.finished or (now.state == "indexing" and now.progress_done > 0))
    async with here.working():
        document = await here.read(kept)

    assert (document.state, document.chunks) == ("ready", PARAGRAPHS)
    rows = await database.read(
        lambda tx: tx.all(
            "SELECT number, text FROM document_chunk WHERE document_id = :id ORDER BY number", {"id": document.id}
        )
    )
    entries = await database.read(
        lambda tx: tx.all(
            "SELECT part, search_text.text AS text FROM search_entry JOIN search_text "
            "ON search_text.number = search_entry.number WHERE id = :id ORDER BY part",
            {"id": document.id},
        )
    )
    expected = list(enumerate(paragraph.strip() for paragraph in TEXT.split("\n\n")))
    assert [(row["number"], row["text"]) for row in rows] == expected
    assert [(row["part"], row["text"]) for row in entries] == expected
    assert {hit.id for hit in await here.found("giraffe number 1234", "document")} == {document.id}
