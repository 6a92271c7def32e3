"""Owns the proof that a session outlives kill -9 of Holdfast where its runner can, and else fails with all it left."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.features.agents.definitions.model import NewAgent
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.sessions.model import AgentSession, NewSession
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.identity.service import local_principal
from holdfast.storage.database import Database
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.services import background, first_start
from tests.surfaces.agents.conftest import speaking
from tests.surfaces.agents.doomed import services_on

_WORK = (
    "first = not os.path.exists('begun')",
    "open('begun', 'a').write('x')",
    "say('first' if first else 'again as ' + str(start['resume']))",
    "time.sleep(600) if first else over(open('begun').read())",
)


def _address(database: Database) -> tuple[str, str]:
    if isinstance(database, SqliteDatabase):
        return "sqlite", str(database.path)
    assert isinstance(database, PostgresDatabase)
    return "postgresql", database.url


@pytest.mark.slow
@pytest.mark.contract("XA-6")
@pytest.mark.parametrize("resumable", [True, False])
async def test_a_session_in_the_middle_is_resumed_after_a_kill_or_fails_with_the_reason(
    database: Database, tmp_path: Path, resumable: bool
) -> None:
    services = services_on(database, tmp_path)
    start = await first_start(services)
    owner = local_principal(start.organization_id)
    lines = (*(["tell(type='can_resume', token='t1')"] if resumable else []), *_WORK)
    new = NewAgent(name="Doomed", runner="command", command=speaking(*lines))
    agent = await services[AgentDefinitions].create(owner, start.workspace_id, new)
    sessions = services[AgentSessions]
    made = await sessions.start(owner, start.workspace_id, agent.id, NewSession("Go."))

    async def told() -> list[str]:
        events = await sessions.timeline(owner, made.id, limit=500)
        return [str(each.data["text"]) for each in events if each.kind == "text"]

    command = [sys.executable, "-m", "tests.surfaces.agents.doomed", *_address(database), str(tmp_path)]
    process = subprocess.Popen(command)
    try:
        async with asyncio.timeout(60):
            while await told() != ["first"]:
                assert process.poll() is None
                await asyncio.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    async with background(services), asyncio.timeout(60):
        ended: AgentSession = await sessions.get(owner, made.id)
        while not ended.is_over:
            await asyncio.sleep(0.05)
            ended = await sessions.get(owner, made.id)
    if resumable:
        assert ended.state == "completed", ended.error
        assert await told() == ["first", "again as t1"]
        assert (ended.result or {})["summary"] == "xx"
    else:
        assert ended.state == "failed" and (ended.error or {})["code"] == "interrupted"
        assert await told() == ["first"]
        assert [each["path"] for each in (ended.result or {})["files"]] == ["begun"]
    await services.git.close()
