"""Owns the proof that kill -9 of any part in a session ends or resumes it as documented, and only once."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.features.agents.definitions.model import NewAgent
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.sessions.model import NewSession
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.identity.service import local_principal
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.embedder import WordEmbedder
from tests.kubernetes.node.conftest import (
    PATIENCE_SECONDS,
    SETTINGS,
    kill,
    kubectl,
    session_pods,
    start,
    until_no_session_pod,
)
from tests.support.features.audit import MASTER_KEY
from tests.support.services import background, build_services, first_start
from tests.surfaces.agents.conftest import Agency, speaking
from tests.surfaces.agents.test_kill import _WORK


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd", "kubelet"])
async def test_a_session_outlives_a_part_of_the_cluster(house: Agency, part: str) -> None:
    lines = ("say('begun')", "time.sleep(12)", "open('made', 'w').write('once')", "over('It went on.')")
    agent = await house.define(command=speaking(*lines))
    session = await house.start(agent)
    await house.until_told(session, "text")
    kill(part)
    await asyncio.sleep(1)
    start(part)
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    assert found["result"]["summary"] == "It went on."
    assert [each["path"] for each in found["result"]["files"]] == ["made"]
    await until_no_session_pod()


@pytest.mark.contract("XA-6")
@pytest.mark.parametrize("pod_is_left", [True, False])
async def test_after_kill_9_of_holdfast_a_session_goes_on_in_a_new_pod_or_fails_where_its_pod_is_gone_too(
    sqlite_database: SqliteDatabase, tmp_path: Path, pod_is_left: bool
) -> None:
    settings = Settings(data_dir=tmp_path, secrets_master_key=MASTER_KEY, **SETTINGS)
    services = build_services(settings, sqlite_database, SystemClock(), WordEmbedder())
    first = await first_start(services)
    owner = local_principal(first.organization_id)
    command = speaking("tell(type='can_resume', token='t1')", *_WORK)
    new = NewAgent(name="Doomed", runner="command", command=command)
    agent = await services[AgentDefinitions].create(owner, first.workspace_id, new)
    sessions = services[AgentSessions]
    made = await sessions.start(owner, first.workspace_id, agent.id, NewSession("Go."))

    async def told() -> list[str]:
        events = await sessions.timeline(owner, made.id, limit=500)
        return [str(each.data["text"]) for each in events if each.kind == "text"]

    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kubernetes.node.doomed", str(sqlite_database.path), str(tmp_path)]
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await told() != ["first"]:
                assert process.poll() is None
                await asyncio.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (pod,) = session_pods()
    if not pod_is_left:
        about = pod["metadata"]
        kubectl("-n", about["namespace"], "delete", "pod", about["name"], "--force", "--grace-period=0")
    async with background(services), asyncio.timeout(PATIENCE_SECONDS):
        while not (ended := await sessions.get(owner, made.id)).is_over:
            assert len(session_pods()) <= 1
            await asyncio.sleep(0.3)
    if pod_is_left:
        assert ended.state == "completed", ended.error
        # What the first wrote came back from its pod, and went into the second.
        assert await told() == ["first", "again as t1"]
        assert (ended.result or {})["summary"] == "xx"
    else:
        assert ended.state == "failed" and (ended.error or {})["code"] == "interrupted", ended.error
        assert await told() == ["first"]
    await until_no_session_pod()
    await services.git.close()
