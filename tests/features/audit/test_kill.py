"""The audit trail outlives the process that writes it: kill -9 at any moment, nothing acknowledged is lost."""

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.features.audit import audit_trail
from tests.support.stores.doomed import open_store


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_killing_the_writer_again_and_again_loses_no_event_and_keeps_the_chain(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = str(request.getfixturevalue("sqlite_path" if store == "sqlite" else "postgres_url"))
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    for turn in range(1, 4):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.stores.doomed", "audit", store, address, str(acknowledged),
            cwd=Path(__file__).parents[3],
        )  # fmt: skip
        async with asyncio.timeout(90):
            while len(acknowledged.read_text().splitlines()) < turn * 150:
                assert process.returncode is None
                await asyncio.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        # A line cut short by the kill was acknowledged too, but cannot be told from the next one's.
        text = acknowledged.read_text()
        acknowledged.write_text(text[: text.rfind("\n") + 1])
    database = open_store(store, address)
    audit = audit_trail(database, directory=tmp_path)
    assert (tmp_path / "audit.heads").stat().st_size
    assert (await audit.verify("org_1")).intact
    await audit.close()
    found = await audit.verify("org_1")
    rows = await database.read(lambda tx: tx.all("SELECT resource_id, number FROM audit_event"))
    assert found.intact and found.unsealed == 0 and found.events == len(rows)
    kept = Counter(str(row["resource_id"]) for row in rows)
    assert not Counter(acknowledged.read_text().split()) - kept
    await database.close()
