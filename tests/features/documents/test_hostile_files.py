"""Owns the proof that every hostile file ends ready or failed with a reason, and that the next good one is read."""

from dataclasses import replace

import pytest

from holdfast.engines.extract.formats import UnsupportedFormat
from holdfast.engines.extract.model import ExtractLimits
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.attacks.hostile_files import FILES, SLOW_FILES, Hostile
from tests.support.clock import MovableClock
from tests.support.features.library import Library, library, settle

_FEW = ("div.html", "laughs.xlsx", "overlapping.docx", "locked.pdf", "numbers.xlsx", "locked-parts.docx")
# So that two processors share them.
_PARTS = 4


async def _ends(here: Library, hostile: Hostile) -> None:
    if hostile.reason_code == "refused":
        with pytest.raises(UnsupportedFormat, match=hostile.told):
            await here.upload(hostile.filename, hostile.content())
        return
    kept = await here.upload(hostile.filename, hostile.content())
    document = await here.read(kept.document)
    job = await here.jobs.get(kept.document.job_id)
    assert (document.state, document.reason_code) == (
        "failed" if hostile.reason_code else "ready",
        hostile.reason_code,
    ), (hostile.filename, document.reason)
    assert hostile.told in (document.reason or "")
    assert (job.attempts, job.error) == (1, document.reason), hostile.filename


async def _neighbour(here: Library) -> Library:
    organization, workspace = await here.database.write(lambda tx: settle(tx, "theirs"))
    return replace(here, principal=replace(here.principal, organization_id=organization), workspace_id=workspace)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(_PARTS))
async def test_every_hostile_file_ends_and_anothers_good_one_is_read_after_each(
    sqlite_database: SqliteDatabase, clock: MovableClock, part: int
) -> None:
    here = await library(sqlite_database, clock, limits=ExtractLimits(chunks=50))
    theirs = await _neighbour(here)
    async with here.working():
        for number, hostile in enumerate(FILES[part::_PARTS]):
            await _ends(here, hostile)
            good = await theirs.upload(f"{number}.md", f"# Zoo {number}\n\nThe giraffe is fed at noon.".encode())
            assert (await theirs.read(good.document)).state == "ready", hostile.filename


@pytest.mark.slow
async def test_hostile_files_end_alike_on_both_stores(database: Database, clock: MovableClock) -> None:
    here = await library(database, clock, limits=ExtractLimits(chunks=50))
    async with here.working():
        for hostile in FILES:
            if hostile.filename in _FEW:
                await _ends(here, hostile)


@pytest.mark.slow
@pytest.mark.parametrize("hostile", SLOW_FILES, ids=lambda hostile: hostile.filename)
async def test_what_would_take_hours_is_ended_by_the_clock(
    sqlite_database: SqliteDatabase, clock: MovableClock, hostile: Hostile
) -> None:
    # So much memory that a fast machine can't fill it before the clock ends it.
    limits = ExtractLimits(cpu_seconds=1, memory_bytes=16 * 1024**3)
    here = await library(sqlite_database, clock, limits=limits)
    async with here.working():
        await _ends(here, hostile)
