"""The pages of agents and sessions: defined, attached, watched, answered and decided by who may."""

import html
from collections.abc import AsyncIterator

import pytest

from holdfast.features.agents.definitions.model import NewAgent
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.agents.sessions.service import AgentSessions
from holdfast.features.cases.model import NewCase
from holdfast.features.cases.service import CaseService
from holdfast.features.catalog.model import EnvRule, NewEntry, ServerManifest
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.execution.policies.grants import Grants
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.dashboard import people, seed_sessions
from tests.support.server import TestServer, serving

AGENTS = "/w/default/agents"
SESSIONS = "/w/default/sessions"
FORM = {"name": "Mender", "instructions": "Mend what is broken.", "runner": "builtin", "endpoint": "default"}


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database) as running:
        yield running


@pytest.mark.contract("XA-11")
async def test_an_agent_is_defined_changed_and_removed_by_forms(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        assert "No agent is defined" in (await owner.get(AGENTS)).text
        made = await owner.post(AGENTS, data=FORM)
        assert made.status_code == 303
        page = made.headers["location"]
        assert "Mend what is broken." in (await owner.get(page)).text
        changed = await owner.post(page, data=FORM | {"instructions": "Mend gates only.", "limits.minutes": "5"})
        assert changed.status_code == 303
        (agent,) = await server.services[AgentDefinitions].list(server.owner, server.start.workspace_id)
        assert (agent.version, agent.spec.instructions, agent.spec.limits.minutes) == (2, "Mend gates only.", 5)
        assert (await owner.post(f"{page}/remove")).status_code == 303
        assert "No agent is defined" in (await owner.get(AGENTS)).text


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("endpoint", "nowhere", "wrong-endpoint"),
        ("repository", "nowhere", "wrong-repository"),
        ("limits.minutes", "soon", "wrong-limits.minutes"),
        ("env", "no equals sign", "wrong-env"),
        ("env", "TOKEN=${TOKEN}", "env.TOKEN"),
    ],
)
async def test_what_is_wrong_with_an_agent_is_said_beside_its_field(
    server: TestServer, field: str, value: str, told: str
) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        refused = await owner.post(AGENTS, data=FORM | {field: value})
    assert refused.status_code == 422 and told in refused.text
    # What was typed is still there.
    assert "Mend what is broken." in refused.text and html.escape(value) in refused.text
    assert not await server.services[AgentDefinitions].list(server.owner, server.start.workspace_id)


@pytest.mark.contract("XA-5")
async def test_a_server_is_attached_with_the_fields_of_its_manifest(server: TestServer) -> None:
    services, workspace = server.services, server.start.workspace_id
    rules = {"LINEAR_KEY": EnvRule(kind="secret", label="API key", required=True), "TEAM": EnvRule(enum=("a", "b"))}
    entry = NewEntry(name="linear", shape="command", command="/bin/cat", manifest=ServerManifest(env=rules))
    await services[ServerCatalog].register(server.owner, workspace, entry)
    agent = await services[AgentDefinitions].create(server.owner, workspace, NewAgent(name="Mender"))
    page = f"{AGENTS}/{agent.id}"
    async with await server.browser(server.start.owner_id) as owner:
        asked = (await owner.get(f"{page}?attach=linear")).text
        assert "API key" in asked and 'name="env.LINEAR_KEY"' in asked and 'name="env.TEAM"' in asked
        form = {"name": "linear", "env.TEAM": "a"}
        for value, remedy in (("plain", "refer to one"), ("a-${LINEAR_KEY}", "bare"), ("${LINEAR_KEY}", "LINEAR_KEY")):
            refused = await owner.post(f"{page}/attach", data=form | {"env.LINEAR_KEY": value})
            assert refused.status_code == 422 and 'id="wrong-env.LINEAR_KEY"' in refused.text, remedy
        secret = f"/api/workspaces/{workspace}/secrets/LINEAR_KEY"
        async with server.client() as client:
            assert (await client.put(secret, json={"value": "s3cret"})).status_code == 200
        attached = await owner.post(f"{page}/attach", data=form | {"env.LINEAR_KEY": "${LINEAR_KEY}"})
        assert attached.status_code == 303, attached.text
        shown = (await owner.get(page)).text
        assert "LINEAR_KEY" in shown and "s3cret" not in shown
        assert (await owner.post(f"{page}/detach", data={"name": "linear"})).status_code == 303
    assert (await services[AgentDefinitions].get(server.owner, workspace, agent.id)).attachments == ()


@pytest.mark.contract("XA-11")
async def test_a_failed_session_shows_its_failing_step_first(server: TestServer) -> None:
    _, failed = await seed_sessions(server)
    async with await server.browser(server.start.owner_id) as owner:
        page = (await owner.get(f"{SESSIONS}/{failed.id}")).text
        listed = (await owner.get(f"{SESSIONS}?state=failed")).text
        home = (await owner.get("/")).text
        elsewhere = await owner.get(f"/sessions/{failed.id}")
    why, timeline = page.index("What went wrong"), page.index('id="timeline"')
    assert why < timeline and "It used more than 2,000,000 tokens." in page[why:timeline]
    assert "The gate is locked." in page[why:timeline]
    # Pieces of one paragraph are one, a call stands with its end, and nobody's words are markup.
    assert "I look at the <strong>gate</strong> first." in page and "No rule to make target" in page
    assert "gate.py" in page and "<b>roof</b>" not in page
    assert failed.id in listed and failed.id in home
    assert elsewhere.status_code == 303 and elsewhere.headers["location"] == f"{SESSIONS}/{failed.id}"


@pytest.mark.contract("XA-7")
async def test_a_right_that_an_agent_asks_for_is_given_by_an_admin_alone(server: TestServer) -> None:
    waiting, _ = await seed_sessions(server)
    ids = await people(server)
    page = f"{SESSIONS}/{waiting.id}"
    (question,) = await server.services[AgentSessions].questions(server.owner, waiting.id)
    decide = f"{page}/questions/{question.id}/decide"
    async with await server.browser(ids["member"]) as member:
        shown = (await member.get(page)).text
        assert "An admin of this workspace decides." in shown and "Allow once" not in shown
        assert (await member.post(decide, data={"decision": "once"})).status_code == 403
    async with await server.browser(ids["workspace admin"]) as admin:
        assert "linear.write" in (await admin.get(page)).text
        assert (await admin.post(decide, data={"decision": "forever"})).status_code == 422
        assert (await admin.post(decide, data={"decision": "session"})).status_code == 303
        assert (await admin.post(decide, data={"decision": "session"})).status_code == 409
    (grant,) = await server.services[Grants].list(server.owner, server.start.workspace_id)
    assert (grant.subject_id, grant.scope, grant.session_id) == (waiting.agent_id, "session", waiting.id)
    assert grant.details == {"scope": "linear.write"}


async def test_an_agent_is_set_to_work_on_a_case_from_its_page(server: TestServer) -> None:
    services, workspace = server.services, server.start.workspace_id
    case = await services[CaseService].add(server.owner, workspace, NewCase(title="Mend the gate"))
    page = f"/w/default/cases/{case.id}"
    async with await server.browser(server.start.owner_id) as owner:
        assert "Run an agent" not in (await owner.get(page)).text
        new = NewAgent(name="Mender", runner="command", command="/bin/true")
        agent = await services[AgentDefinitions].create(server.owner, workspace, new)
        assert "Run an agent" in (await owner.get(page)).text
        begun = await owner.post(f"{page}/run", data={"agent": agent.id, "prompt": "Mend it."})
        assert begun.status_code == 303, begun.text
        session = await services[AgentSessions].get(server.owner, begun.headers["location"].rpartition("/")[2])
        assert (session.case_id, session.agent_id, session.prompt) == (case.id, agent.id, "Mend it.")
        assert session.id in (await owner.get(page)).text


async def test_a_session_of_another_workspace_is_not_found_below_this_one(server: TestServer) -> None:
    waiting, _ = await seed_sessions(server)
    other = await server.services.workspaces.create(server.owner, server.start.project_id, "Other")
    async with await server.browser(server.start.owner_id) as owner:
        assert (await owner.get(f"/w/{other.slug}/sessions/{waiting.id}")).status_code == 404
        assert (await owner.post(f"/w/{other.slug}/sessions/{waiting.id}/stop")).status_code == 404
