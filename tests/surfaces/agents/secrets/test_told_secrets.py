"""A secret that an agent was granted itself is read in nothing that it tells, makes, keeps or leaves behind."""

import base64
import shlex
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.features.secrets.service import Secrets
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.http.telemetry import logs
from tests.fakes.llm.script import Script
from tests.surfaces.agents.conftest import Agency, agency, speaking
from tests.surfaces.agents.test_people import CALL
from tests.surfaces.agents.test_sessions import repository

pytestmark = pytest.mark.slow

VALUE = 'gr4nted+ "canary" 91'
FORMS = (VALUE, quote(VALUE, safe=""), base64.b64encode(VALUE.encode()).decode().rstrip("="), VALUE.encode().hex())
# It tells its own secret by every way that it has, in every form that is known, in pieces too.
GOSSIP = """
import base64, urllib.parse
value = os.environ["TOKEN"]
forms = [value, base64.b64encode(value.encode()).decode(), urllib.parse.quote(value, safe=""), value.encode().hex()]
every = " and ".join(forms)
tell(type="said", text="it is " + value[:7], whole=False)
time.sleep(0.3)
tell(type="said", text=value[7:] + ", so it is", whole=True)
for piece in (value[:5], value[5:]):
    tell(type="thought", text=piece)
    time.sleep(0.3)
tell(type="tool_started", call_id="c1", name="look", arguments=dict(at=every))
tell(type="tool_ended", call_id="c1", ok=True, text=every)
call("emit_status", status="writing", detail=every)
call("emit_error", message=every, recoverable=True)
call("emit_artifact", artifact_type="summary", title="Forms " + value, content=every)
open("shared.txt", "w").write(every)
call("share", path="shared.txt")
call("post_message", channel="dashboard", text=every)
call("graph_write", record_type="note", data=dict(name="n", said=every))
call("vector_upsert", id="one", text="kept " + every)
call("vector_upsert", id="two", vector=[1.0, 0.5], metadata=dict(said=every), collection="given")
call("message_caller", summary=value, body=every)
open(value + ".txt", "w").write("a name")
open("plain.txt", "w").write("\\n".join(forms))
subprocess.run(["git", "init", "-q", "."]) if not os.path.exists(".git") else None
subprocess.run(["git", "add", "-A"], check=True)
subprocess.run(["git", "commit", "-qm", "Keep " + value], check=True)
sys.stderr.write(every)
tell(type="can_resume", token=value)
call(value)
ask(value, {})
import urllib.error, urllib.request
for method, path in (("GET", "/v1/" + forms[2]), ("GET", "/v1/models/" + forms[3]), ("M" + forms[3], "/v1/models")):
    headers = {"Authorization": "Bearer " + start["model_key"], "X-Request-Id": forms[3], "User-Agent": value}
    try: urllib.request.urlopen(urllib.request.Request(start["model_url"] + path, method=method, headers=headers))
    except urllib.error.HTTPError as refused: assert refused.code in (400, 404), refused
"""


async def _gossiping(house: Agency, ending: str, **more: str) -> dict[str, Any]:
    services = house.server.services
    await services[Secrets].set(house.server.owner, house.workspace, "GIVEN", VALUE)
    agent = await house.define(command=speaking(CALL, GOSSIP, ending), **more)
    granted = await house.client.put(f"/api/agents/{agent['id']}/secrets/GIVEN")
    assert granted.is_success, granted.text
    body = {"name": "Helper", "endpoint": "scripted", "runner": "command", "command": agent["command"]}
    changed = await house.client.put(
        f"/api/workspaces/{house.workspace}/agents/{agent['id']}", json={**body, **more, "env": {"TOKEN": "${GIVEN}"}}
    )
    assert changed.is_success, changed.text
    return agent


async def _artifacts(house: Agency) -> str:
    listed = (await house.client.get(f"/api/workspaces/{house.workspace}/artifacts")).json()["items"]
    assert len(listed) >= 3
    base = f"/api/workspaces/{house.workspace}/artifacts"
    return "".join([(await house.client.get(f"{base}/{each['id']}")).text for each in listed]) + str(listed)


@pytest.mark.contract("XA-5")
@pytest.mark.contract("XA-6")
@pytest.mark.parametrize("ending", ["over('I know ' + every)", "call('end_session', summary=every)", "sys.exit(3)"])
async def test_a_granted_secret_is_masked_in_everything_that_its_agent_tells(
    sqlite_database: SqliteDatabase,
    sqlite_path: Path,
    tmp_path: Path,
    ending: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = StringIO()
    monkeypatch.setattr(logs, "_access_stream", requests)
    caplog.set_level("INFO")
    async with agency(sqlite_database, tmp_path / "data", Script([])) as house:
        agent = await _gossiping(house, ending)
        session = await house.start(agent)
        found = await house.until(session)
        events = await house.told(session)
        shown = str(events) + str(found) + await _artifacts(house)
        shown += (await house.client.get("/api/audit", params={"limit": 200})).text
    kinds = {each["kind"] for each in events}
    assert kinds >= {"text", "thought", "tool_started", "status", "error", "artifact", "shared", "posted", "memory"}
    assert [form for form in FORMS if form in shown] == []
    assert "/v1/models/*" in requests.getvalue()
    logged = requests.getvalue() + str([vars(record) for record in caplog.records])
    assert [form for form in FORMS if form in logged] == []
    said = "".join(each["data"]["text"] for each in events if each["kind"] == "text")
    assert said.startswith("it is [secret GIVEN], so it is")
    assert "".join(each["data"]["text"] for each in events if each["kind"] == "thought") == "[secret GIVEN]"
    assert "[secret GIVEN].txt" in [each["path"] for each in found["result"]["files"]]
    assert found["result"]["secrets_in_work"] == ["[secret GIVEN]"]
    # Neither in the store nor in a file, but for the worktree that the agent itself wrote and that goes with it.
    kept = [path for place in (sqlite_path.parent, tmp_path) for path in place.rglob("*") if path.is_file()]
    held = [str(path) for path in kept if any(form.encode() in path.read_bytes() for form in FORMS)]
    assert [path for path in held if f"/sessions/{session}/" not in path] == []


@pytest.mark.contract("XA-6")
async def test_a_granted_secret_is_masked_in_the_last_words_of_a_program_that_never_greeted_us(house: Agency) -> None:
    await house.server.services[Secrets].set(house.server.owner, house.workspace, "GIVEN", VALUE)
    command = shlex.join(["/bin/sh", "-c", 'echo "no greeting, but $TOKEN"'])
    agent = await house.define(command=command)
    granted = await house.client.put(f"/api/agents/{agent['id']}/secrets/GIVEN")
    assert granted.is_success, granted.text
    body = {"name": "Helper", "endpoint": "scripted", "runner": "command", "command": command}
    path = f"/api/workspaces/{house.workspace}/agents/{agent['id']}"
    changed = await house.client.put(path, json={**body, "env": {"TOKEN": "${GIVEN}"}})
    assert changed.is_success, changed.text
    found = await house.until(await house.start(agent))
    assert found["error"]["code"] == "runner_failed"
    assert found["error"]["message"].endswith("Its last words: no greeting, but [secret GIVEN]")


@pytest.mark.contract("ZE-3")
async def test_commits_that_hold_a_granted_secret_are_not_taken_over_for_their_case(
    house: Agency, tmp_path: Path
) -> None:
    await repository(house, tmp_path / "origin")
    # It is gone again in the last commit, and still in the history.
    lines = (
        "os.remove('plain.txt'); os.remove('shared.txt'); subprocess.run(['git', 'commit', '-qam', 'Clean'])\nover()"
    )
    agent = await _gossiping(house, lines, repository="origin")
    made = await house.client.post(
        f"/api/workspaces/{house.workspace}/cases", json={"title": "Look", "repository": "origin"}
    )
    case = made.json()["id"]
    found = await house.until(await house.start(agent, case_id=case))
    assert found["state"] == "completed", found["error"]
    back = (await house.client.get(f"/api/workspaces/{house.workspace}/cases/{case}")).json()
    assert (back["head_commit"], back["claim"]) == (None, None)
    assert any("its commits hold [secret GIVEN]" in each["text"] for each in back["comments"])


async def test_what_a_session_saved_is_told_by_its_result_and_marked_with_it(house: Agency) -> None:
    lines = (
        "call('graph_write', record_type='person', data=dict(name='Ada'), collection='people')",
        "call('vector_upsert', id='one', text='Ada wrote the first program')",
        "call('vector_upsert', id='two', vector=[1.0, 0.5], collection='given')",
        "over()",
    )
    agent = await house.define(command=speaking(CALL, *lines))
    session = await house.start(agent)
    result = (await house.until(session))["result"]
    saved = [(each["type"], each["collection"], each["title"]) for each in result["memories"]]
    assert saved == [
        ("record", "people", "person Ada"),
        ("passage", "default", "Ada wrote the first program"),
        ("vector", "given", "two"),
    ]
    assert result["seconds"] > 0 and (result["tokens_in"], result["tokens_out"], result["cost"]) == (0, 0, 0.0)
    marked = await house.server.services.database.read(
        lambda tx: [
            *tx.all("SELECT session_id FROM graph_record", {}),
            *tx.all("SELECT session_id FROM collection_vector", {}),
        ]
    )
    assert [row["session_id"] for row in marked] == [session, session]
