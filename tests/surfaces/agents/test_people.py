"""Owns the proof that agents ask people, get rights from signed-in people alone, and start each other within limits."""

from typing import Any

import httpx
import pytest

from tests.surfaces.agents.conftest import Agency, speaking

pytestmark = pytest.mark.slow

CALL = """
def call(tool, **arguments):
    entry = start["servers"]["x1agent"]
    if not hasattr(call, "server"):
        words = [entry["command"], *entry["args"]]
        call.server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        call.number = 1
        info = dict(name="test", version="1")
        ask("initialize", dict(protocolVersion="2025-06-18", capabilities={}, clientInfo=info))
        send(dict(jsonrpc="2.0", method="notifications/initialized"))
    return ask("tools/call", dict(name=tool, arguments=arguments))
def send(message):
    call.server.stdin.write(json.dumps(message).encode() + b"\\n"); call.server.stdin.flush()
def ask(method, params):
    call.number += 1
    send(dict(jsonrpc="2.0", id=call.number, method=method, params=params))
    while True:
        answer = json.loads(call.server.stdout.readline())
        if answer.get("id") == call.number: break
    if "error" in answer: return "error: " + answer["error"]["message"]
    given = answer["result"].get("content", [])
    return " ".join(each.get("text", "") for each in given)
"""


async def _browser(house: Agency) -> httpx.AsyncClient:
    return await house.server.browser(house.server.start.owner_id)


@pytest.mark.contract("XA-11")
async def test_a_question_waits_for_a_person_and_the_answer_goes_on(house: Agency) -> None:
    line = "say(call('request_input', question='Which colour?', request_id='c1', options=['red', 'blue']))"
    agent = await house.define(command=speaking(CALL, line, "over()"))
    session = await house.start(agent)
    found = await house.until(session, "waiting")
    (asked,) = found["questions"]
    assert (asked["question"], asked["options"]) == ("Which colour?", ["red", "blue"])
    waiting = (await house.client.get(f"/api/workspaces/{house.workspace}/session-questions")).json()["items"]
    assert [each["question"]["id"] for each in waiting] == [asked["id"]]
    path = f"/api/sessions/{session}/questions/{asked['id']}"
    assert (await house.client.post(path, json={"answer": "green"})).status_code == 422
    assert (await house.client.post(path, json={"answer": "blue"})).status_code == 200
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    assert "blue" in (await house.told(session, "text"))[0]["data"]["text"]
    assert (await house.client.post(path, json={"answer": "red"})).status_code == 409


GRANT = (
    "request_grant', request_id='g1', grant_type='spawn', details={'agent': other}, scope='session', "
    "justification='Help'"
)


@pytest.mark.contract("XA-11")
@pytest.mark.parametrize("way", ["grants", "question"])
async def test_a_session_starts_another_once_a_signed_in_person_let_it(house: Agency, way: str) -> None:
    child = await house.define("Child", command=speaking("say('I am ' + start['prompt'])", "over()"))
    lines = (
        CALL,
        f"other = {child['id']!r}",
        "say(call('spawn_session', child_agent_id=other, prompt='the child'))",
        f"say(call('{GRANT}))",
        "say(call('spawn_session', child_agent_id=other, prompt='the child'))",
        "heard()",
        "over()",
    )
    agent = await house.define("Parent", command=speaking(*lines))
    session = await house.start(agent)
    found = await house.until(session, "waiting")
    (asked,) = found["questions"]
    assert asked["kind"] == "grant" and asked["details"]["grant_type"] == "spawn"
    path = f"/api/sessions/{session}/questions/{asked['id']}"
    grant: dict[str, Any] = {
        "workspace": house.workspace,
        "subject": {"type": "agent", "id": "parent"},
        "grant_type": "spawn",
        "details": {"agent": "child"},
        "scope": "session",
        "session_id": session,
    }
    assert (await house.client.post(path, json={"decision": "granted"})).status_code == 403
    assert (await house.client.post("/grants", json=grant)).status_code == 403
    async with await _browser(house) as person:
        given = (
            await person.post("/grants", json=grant)
            if way == "grants"
            else await person.post(path, json={"decision": "granted"})
        )
        assert given.is_success, given.text
    spawned = await house.until_told(session, "spawned")
    under = await house.get(spawned["data"]["session_id"])
    assert (under["parent_id"], under["depth"]) == (session, 1)
    ended = await house.until(under["session_id"])
    assert ended["state"] == "completed", ended["error"]
    await house.client.post(f"/api/sessions/{session}/messages", json={"text": "Enough."})
    found = await house.until(session)
    assert found["state"] == "completed", found["error"]
    said = [each["data"]["text"] for each in await house.told(session, "text")]
    assert "granted" in said[1] and "request_grant" in said[0]
    assert [each["session_id"] for each in found["tree"]] == [session, under["session_id"]]
    async with await _browser(house) as person:
        page = (await person.get(f"/w/default/sessions/{session}")).text
    # A person reads there that the first call was refused, which right was asked for, and that it was given.
    assert "was refused at the gate" in page and f"agent {child['id']}" in page and "<div>granted</div>" in page


async def test_a_right_that_is_denied_is_told_to_the_agent(house: Agency) -> None:
    lines = (CALL, "other = 'nobody'", f"say(call('{GRANT}))", "over()")
    agent = await house.define(command=speaking(*lines))
    session = await house.start(agent)
    (asked,) = (await house.until(session, "waiting"))["questions"]
    async with await _browser(house) as person:
        path = f"/api/sessions/{session}/questions/{asked['id']}"
        assert (await person.post(path, json={"decision": "denied", "note": "Not today."})).status_code == 200
    assert (await house.until(session))["state"] == "completed"
    assert "Not today." in (await house.told(session, "text"))[0]["data"]["text"]


async def test_a_child_ends_with_its_parent(house: Agency) -> None:
    child = await house.define("Child", command=speaking("say('here')", "time.sleep(600)"))
    lines = (
        CALL,
        f"call('spawn_session', child_agent_id={child['id']!r}, prompt='work')",
        "heard()",
        "over()",
    )
    agent = await house.define("Parent", command=speaking(*lines))
    grant = {
        "workspace": house.workspace,
        "subject": {"type": "agent", "id": agent["id"]},
        "grant_type": "spawn",
        "details": {"agent": child["id"]},
        "scope": "persistent",
    }
    async with await _browser(house) as person:
        assert (await person.post("/grants", json=grant)).status_code == 201
    session = await house.start(agent)
    under = (await house.until_told(session, "spawned"))["data"]["session_id"]
    await house.until_told(under, "text")
    await house.client.post(f"/api/sessions/{session}/messages", json={"text": "Enough."})
    assert (await house.until(session))["state"] == "completed"
    ended = await house.until(under)
    assert ended["state"] == "cancelled" and session in ended["error"]["message"]


async def test_end_session_completes_with_its_summary(house: Agency) -> None:
    agent = await house.define(command=speaking(CALL, "call('end_session', summary='All green.')", "time.sleep(600)"))
    found = await house.until(await house.start(agent))
    assert (found["state"], found["result"]["summary"]) == ("completed", "All green."), found["error"]
