"""Owns the proof that files nobody can read in time fail plainly, and hold up nobody else's."""

from dataclasses import replace

import pytest

from holdfast.engines.extract.model import ExtractLimits
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.library import library, settle


async def test_a_file_that_cannot_be_read_fails_its_job_with_the_reason_at_the_first_attempt(
    database: Database, clock: MovableClock
) -> None:
    here = await library(database, clock, limits=ExtractLimits(wall_seconds=0.01))
    document = await here.add("big.md", b"# Heading\n\nwords and more words\n\n" * 20_000)
    job = await here.jobs.get(document.job_id)
    assert (document.state, document.reason_code) == ("failed", "too_slow")
    assert document.reason is not None and "split the file" in document.reason
    assert (job.state, job.attempts, job.error) == ("failed", 1, document.reason)


@pytest.mark.slow
async def test_hostile_pages_of_one_workspace_are_read_and_anothers_file_with_them(
    database: Database, clock: MovableClock
) -> None:
    here = await library(database, clock)
    organization, workspace = await database.write(lambda tx: settle(tx, "theirs"))
    theirs = replace(here, principal=replace(here.principal, organization_id=organization), workspace_id=workspace)
    hostile = [
        await here.upload(f"{number}.html", b"<p>%d</p>" % number + b"<div>" * 200_000 + b"treasure")
        for number in range(4)
    ]
    good = await theirs.upload("zoo.md", b"# Zoo\n\nThe giraffe is fed at noon.\n")
    async with here.working():
        read = await theirs.read(good.document)
        assert read.state == "ready"
        for kept in hostile:
            page = await here.read(kept.document)
            assert (page.state, page.reason) == ("ready", None)
    found = await here.documents.search(here.principal, here.workspace_id, "treasure")
    assert found and "treasure" in found[0].text
