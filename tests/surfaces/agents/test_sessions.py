"""Owns the proof that sessions are stopped, told, limited and confined, over HTTP, with agents in real sandboxes."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from holdfast.features.identity.keys import store as key_store
from holdfast.features.repositories.model import NewRepository
from holdfast.storage.database import Database
from tests.fakes.llm.script import Script
from tests.surfaces.agents.conftest import Agency, agency, speaking

pytestmark = pytest.mark.slow

ASK = """
import urllib.request, urllib.error
def ask(path, key=None, base="http://127.0.0.1:4711", **body):
    request = urllib.request.Request(base + path, json.dumps(body).encode() if body else None)
    request.add_header("Authorization", "Bearer " + (key or start["model_key"]))
    request.add_header("Content-Type", "application/json")
    try:
        return urllib.request.urlopen(request, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return type(error).__name__
here = start["model_url"].removeprefix("http://127.0.0.1:4711")
chat = dict(model="scripted-1", stream=True, messages=[dict(role="user", content="Hi")])
"""


@pytest.mark.contract("XA-11")
async def test_a_session_that_is_stopped_leaves_no_process_and_keeps_what_it_told(house: Agency) -> None:
    agent = await house.define(command=speaking("say('working')", "time.sleep(600)"))
    session = await house.start(agent)
    await house.until_told(session, "text")
    answer = await house.client.post(f"/api/sessions/{session}/stop")
    assert answer.status_code == 200, answer.text
    found = await house.until(session)
    assert (found["state"], found["error"]["code"]) == ("cancelled", "cancelled")
    assert (
        session not in (await asyncio.to_thread(subprocess.run, ["ps", "axww"], capture_output=True, text=True)).stdout
    )
    assert not (house.data_dir / "sessions" / session).exists()
    assert await house.told(session, "text")


@pytest.mark.contract("XA-11")
async def test_what_a_person_says_reaches_the_agent_in_the_middle_of_its_work(house: Agency) -> None:
    agent = await house.define(command=speaking("say('ready')", "say(heard()['text'])", "over()"))
    session = await house.start(agent)
    await house.until_told(session, "text")
    answer = await house.client.post(f"/api/sessions/{session}/messages", json={"text": "Look at the tests."})
    assert answer.status_code == 200, answer.text
    await house.until(session)
    assert [each["data"]["text"] for each in await house.told(session, "text")] == ["ready", "Look at the tests."]
    late = await house.client.post(f"/api/sessions/{session}/messages", json={"text": "Too late."})
    assert (late.status_code, late.json()["error"]["code"]) == (409, "session_over")


@pytest.mark.contract("XA-6")
async def test_the_models_door_opens_for_its_own_endpoint_and_key_alone(house: Agency) -> None:
    lines = (
        ASK,
        "say(ask(here + '/v1/chat/completions', **chat))",
        "say(ask(here + '/v1/chat/completions', key='xero_wrong', **chat))",
        "say(ask(here.replace('scripted', 'default') + '/v1/chat/completions', **chat))",
        "say(ask(here + '/v1/files'))",
        "say(ask('/api/session'))",
        f"say(ask('/healthz', base={house.server.url!r}))",
        "over(start['model_key'])",
    )
    agent = await house.define(command=speaking(*lines))
    session = await house.start(agent)
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    said = [each["data"]["text"] for each in await house.told(session, "text")]
    assert said == ["200", "401", "404", "404", "404", "URLError"]
    # The key is nobody's to read, and is none anywhere else.
    assert found["result"]["summary"] == "[the session's model key]"
    assert "hfs_" not in str(await house.told(session))
    kept = await house.server.services.database.read(
        lambda tx: key_store.page(tx, house.server.start.organization_id, None, "", 100)
    )
    assert not [each for each in kept if each.name.startswith("session ")]


@pytest.mark.contract("XA-6")
@pytest.mark.parametrize(
    ("limits", "line", "named"),
    [
        ({"tokens": 10}, ASK + "say(ask(here + '/v1/chat/completions', **chat)); time.sleep(600)", "tokens"),
        ({"memory_mb": 128}, "held = [bytearray(1 << 20) for _ in range(1024)]; time.sleep(600)", "memory_mb"),
        (
            {"disk_mb": 1},
            "[open(f'f{n}', 'wb').write(os.urandom(900_000)) for n in range(8)]; time.sleep(600)",
            "disk_mb",
        ),
    ],
)
async def test_a_limit_that_is_reached_ends_the_session_and_is_named(
    house: Agency, limits: dict[str, int], line: str, named: str
) -> None:
    agent = await house.define(command=speaking(line), limits=limits)
    found = await house.until(await house.start(agent))
    assert (found["state"], found["error"]["code"]) == ("failed", "limit_reached"), found["error"]
    assert found["error"]["limit"] == named


async def test_an_agent_that_says_nothing_is_ended(database: Database, tmp_path: Path) -> None:
    async with agency(database, tmp_path, Script([]), agent_quiet_seconds=1) as house:
        agent = await house.define(command=speaking("time.sleep(600)"))
        found = await house.until(await house.start(agent))
    assert (found["state"], found["error"].get("limit")) == ("failed", "quiet"), found["error"]


async def test_an_agent_whose_process_ends_in_the_middle_fails_with_its_last_words(house: Agency) -> None:
    agent = await house.define(command=speaking("sys.stderr.write('no luck today')", "sys.exit(3)"))
    found = await house.until(await house.start(agent))
    assert found["state"] == "failed"
    assert "no luck today" in found["error"]["message"]


@pytest.mark.contract("XA-6")
async def test_work_in_a_repository_comes_back_as_a_branch_and_a_patch(house: Agency, tmp_path: Path) -> None:
    await work_in_a_repository(house, tmp_path / "origin")


async def work_in_a_repository(house: Agency, origin: Path) -> None:
    await repository(house, origin)
    lines = (
        "open('new.txt', 'w').write('made here\\n')",
        "subprocess.run(['git', 'add', '-A'], check=True)",
        "subprocess.run(['git', 'commit', '-qm', 'Make a file'], check=True)",
        "open('left.txt', 'w').write('not committed\\n')",
        "os.makedirs('.git/hooks', exist_ok=True)",
        "open('.git/hooks/pre-commit', 'w').write('#!/bin/sh\\nexit 1\\n')",
        "os.chmod('.git/hooks/pre-commit', 0o755)",
        "over()",
    )
    agent = await house.define(command=speaking(*lines), repository="origin")
    session = await house.start(agent)
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    result = found["result"]
    assert result["branch"] == f"holdfast/{session}", (result, await house.told(session))
    assert result["base_commit"] == found["base_commit"]
    assert sorted(each["path"] for each in result["files"]) == ["left.txt", "new.txt"]
    assert result["commits"][-1]["subject"] == "Make a file"
    patch = await house.client.get(f"/api/workspaces/{house.workspace}/artifacts/{result['patch_artifact']}")
    assert "+made here" in patch.json()["content"] and "+not committed" in patch.json()["content"]


async def repository(house: Agency, path: Path) -> str:
    def git(*words: str) -> str:
        options = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        done = subprocess.run(["git", *options, *words], cwd=path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    path.mkdir()
    git("init", "-q", "-b", "main")
    (path / "README.md").write_text("hello\n")
    git("add", "-A")
    git("commit", "-qm", "Begin")
    services = house.server.services
    added = await services.repositories.add(
        house.server.owner, house.workspace, NewRepository(location=str(path), slug="origin")
    )
    async with asyncio.timeout(60):
        while (await services.repositories.get(house.server.owner, added.slug)).state != "ready":
            await asyncio.sleep(0.05)
    return git("rev-parse", "HEAD")
