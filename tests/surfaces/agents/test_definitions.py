"""Owns the proof that agents are defined by authors, attached from the catalog only, and validated field by field."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.core.errors import Forbidden, Invalid
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.agents.definitions.attachments import AgentAttachments
from holdfast.features.agents.definitions.model import NewAgent, NewAttachment
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.catalog.manifest import manifest_of
from holdfast.features.catalog.model import NewEntry
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.secrets.service import Secrets
from tests.support.server import TestServer

MANIFEST = {
    "env": {
        "LINEAR_API_KEY": {"kind": "secret", "label": "API key", "required": True},
        "LINEAR_WORKSPACE_ID": {"kind": "value", "regex": "[a-z0-9-]+"},
        "LINEAR_REGION": {"kind": "value", "enum": ["eu", "us"]},
    },
    "tool_scopes": {"create_issue": "linear.write"},
}
RIGHT = {"LINEAR_API_KEY": "${LINEAR_API_KEY}", "LINEAR_WORKSPACE_ID": "x1-org"}


class Authoring:
    """An agent, the server `linear` in the catalog, and a key that manages."""

    def __init__(self, server: TestServer) -> None:
        self.server = server
        self.space = f"/api/workspaces/{server.start.workspace_id}"
        self.client = server.client()
        self.agent: dict[str, Any] = {}

    async def attach(self, given: Any, *, below: str = "") -> Any:
        return await self.client.put(f"{below}/agents/{self.agent['id']}/mcp-attachments", json=given)

    async def events(self, action: str) -> list[dict[str, Any]]:
        answer = await self.client.get("/api/audit", params={"action": action})
        assert answer.status_code == 200, answer.text
        return [each for each in answer.json()["items"] if each["action"] == action]


@pytest.fixture
async def authoring(server: TestServer) -> AsyncIterator[Authoring]:
    made = Authoring(server)
    await server.services[Secrets].set(server.owner, server.start.workspace_id, "LINEAR_API_KEY", "canary-4711")
    entry = NewEntry(
        name="linear",
        shape="command",
        command="/usr/bin/true",
        manifest=manifest_of(MANIFEST),
        env=RIGHT,
        allow=("api.linear.app:443",),
    )
    await server.services[ServerCatalog].register(server.owner, server.start.workspace_id, entry)
    async with made.client:
        answer = await made.client.post(f"{made.space}/agents", json={"name": "Triage"})
        assert answer.status_code == 201, answer.text
        made.agent = answer.json()
        yield made


@pytest.mark.contract("XA-5")
@pytest.mark.parametrize("below", ["", "/api"])
async def test_one_attachment_as_documented_is_kept_and_told_without_values(authoring: Authoring, below: str) -> None:
    answer = await authoring.attach({"name": "linear", "env": RIGHT}, below=below)
    assert answer.status_code == 200, answer.text
    assert [each["name"] for each in answer.json()["attachments"]] == ["linear"]
    assert answer.json()["version"] == 2
    changed = await authoring.attach({"name": "linear", "env": {**RIGHT, "LINEAR_WORKSPACE_ID": "other"}}, below=below)
    assert changed.status_code == 200
    assert (await authoring.attach([], below=below)).json()["attachments"] == []
    assert [each["detail"]["fields"] for each in await authoring.events("agent.mcp.attached")] == [sorted(RIGHT)]
    updated = await authoring.events("agent.mcp.env_updated")
    assert [each["detail"]["fields"] for each in updated] == [["LINEAR_WORKSPACE_ID"]]
    assert len(await authoring.events("agent.mcp.detached")) == 1
    assert "x1-org" not in str(await authoring.events("agent.mcp.attached"))


@pytest.mark.contract("XA-5")
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "unknown", "env": {}}, "name"),
        ({"name": "linear", "env": {"LINEAR_API_KEY": "plain"}}, "env.LINEAR_API_KEY"),
        ({"name": "linear", "env": {"LINEAR_API_KEY": "x-${LINEAR_API_KEY}"}}, "env.LINEAR_API_KEY"),
        ({"name": "linear", "env": {}}, "env.LINEAR_API_KEY"),
        ({"name": "linear", "env": {"LINEAR_API_KEY": "${NO_SUCH}"}}, "env.LINEAR_API_KEY"),
        ({"name": "linear", "env": {**RIGHT, "LINEAR_WORKSPACE_ID": "Not It"}}, "env.LINEAR_WORKSPACE_ID"),
        ({"name": "linear", "env": {**RIGHT, "LINEAR_REGION": "mars"}}, "env.LINEAR_REGION"),
        ([{"name": "linear", "env": RIGHT}, {"name": "linear", "env": RIGHT}], "[1].name"),
        ({"env": {}}, "name"),
        ([{"name": "linear", "env": RIGHT}, {"env": {}}], "[1].name"),
    ],
)
async def test_what_is_wrong_with_an_attachment_is_named_by_its_field(
    authoring: Authoring, given: Any, field: str
) -> None:
    answer = await authoring.attach(given)
    assert answer.status_code == 422, answer.text
    assert [each["field"] for each in answer.json()["error"]["fields"]] == [field]
    shown = (await authoring.client.get(f"{authoring.space}/agents/triage")).json()
    assert (shown["attachments"], shown["version"]) == ([], 1)


@pytest.mark.contract("XA-5")
async def test_a_cleared_secret_is_named_when_a_session_is_to_start(authoring: Authoring) -> None:
    assert (await authoring.attach({"name": "linear", "env": RIGHT})).status_code == 200
    assert (await authoring.client.delete(f"{authoring.space}/secrets/LINEAR_API_KEY")).is_success
    answer = await authoring.client.post(f"/api/agents/{authoring.agent['id']}/sessions", json={"prompt": "Go."})
    assert answer.status_code == 409, answer.text
    fields = {each["field"] for each in answer.json()["error"]["fields"]}
    assert "attachments.linear.env.LINEAR_API_KEY" in fields
    assert (await authoring.client.get(f"{authoring.space}/sessions")).json()["items"] == []


async def test_a_runner_that_is_not_installed_is_named(authoring: Authoring) -> None:
    body = {"name": "Coder", "runner": "claude-code"}
    made = (await authoring.client.post(f"{authoring.space}/agents", json=body)).json()
    answer = await authoring.client.post(f"/api/agents/{made['id']}/sessions", json={"prompt": "Go."})
    assert answer.status_code == 409, answer.text
    (wrong,) = answer.json()["error"]["fields"]
    assert wrong["field"] == "runner" and "holdfast agents install claude-code" in wrong["message"]


async def test_every_version_is_kept_and_a_slug_is_used_once(authoring: Authoring) -> None:
    one = f"{authoring.space}/agents/triage"
    for number in (1, 2):
        body = {"name": "Triage", "instructions": f"Version {number}."}
        assert (await authoring.client.put(one, json=body)).status_code == 200
    versions = (await authoring.client.get(f"{one}/versions")).json()["items"]
    assert [(each["version"], each["definition"]["instructions"]) for each in versions] == [
        (3, "Version 2."),
        (2, "Version 1."),
        (1, ""),
    ]
    taken = await authoring.client.post(f"{authoring.space}/agents", json={"name": "Triage"})
    assert taken.status_code == 409
    assert (await authoring.client.delete(one)).status_code == 204
    assert (await authoring.client.get(one)).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "A", "slug": "Not A Slug"}, "slug"),
        ({"name": "A", "runner": "command"}, "command"),
        ({"name": "A", "command": "true"}, "command"),
        ({"name": "A", "endpoint": "nowhere"}, "endpoint"),
        ({"name": "A", "repository": "nothing"}, "repository"),
        ({"name": "A", "limits": {"minutes": 0}}, "limits.minutes"),
        ({"name": "A", "env": {"PATH": "/evil"}}, "env.PATH"),
        ({"name": "A", "env": {"TOKEN": "${LINEAR_API_KEY}"}}, "env.TOKEN"),
        ({"name": "A", "env": {"TOKEN": "x${LINEAR_API_KEY}"}}, "env.TOKEN"),
    ],
)
async def test_what_is_wrong_with_a_definition_is_named_by_its_field(
    authoring: Authoring, body: dict[str, Any], field: str
) -> None:
    answer = await authoring.client.post(f"{authoring.space}/agents", json=body)
    assert answer.status_code == 422, answer.text
    assert field in [each["field"] for each in answer.json()["error"]["fields"]]


@pytest.mark.parametrize(("name", "slug"), [("2nd reader", "agent-2nd-reader"), ("Ünder", "under"), ("山", "agent")])
async def test_a_name_gives_a_slug_whatever_it_begins_with(authoring: Authoring, name: str, slug: str) -> None:
    made = await authoring.client.post(f"{authoring.space}/agents", json={"name": name})
    assert (made.status_code, made.json().get("slug")) == (201, slug), made.text


async def test_an_agents_own_environment_has_a_secret_only_where_an_admin_granted_it(authoring: Authoring) -> None:
    one, body = f"{authoring.space}/agents/triage", {"name": "Triage", "env": {"TOKEN": "${LINEAR_API_KEY}"}}
    assert (await authoring.client.put(one, json=body)).status_code == 422
    granted = await authoring.client.put(f"/api/agents/{authoring.agent['id']}/secrets/LINEAR_API_KEY")
    assert granted.status_code == 200, granted.text
    assert [each["name"] for each in granted.json()["secrets"]] == ["LINEAR_API_KEY"]
    assert (await authoring.client.put(one, json=body)).status_code == 200
    assert [each["detail"]["name"] for each in await authoring.events("agent.secret.granted")] == ["LINEAR_API_KEY"]
    taken = await authoring.client.delete(f"/api/agents/{authoring.agent['id']}/secrets/LINEAR_API_KEY")
    assert taken.status_code == 204
    answer = await authoring.client.post(f"/api/agents/{authoring.agent['id']}/sessions", json={"prompt": "Go."})
    assert [each["field"] for each in answer.json()["error"]["fields"]] == ["env.TOKEN"]


async def test_a_member_attaches_what_an_admin_prepared_and_no_other_secret(authoring: Authoring) -> None:
    services, start = authoring.server.services, authoring.server.start
    await services[Secrets].set(authoring.server.owner, start.workspace_id, "OTHER", "another canary")
    user = await services.identity.create_user(authoring.server.owner, email="m@example.com", name="Mel")
    member = Principal(start.organization_id, user.id, "session", True, frozenset(SCOPES), name="Mel")
    made = await services[AgentDefinitions].create(member, start.workspace_id, NewAgent(name="Mine"))
    attachments = services[AgentAttachments]
    attached = await attachments.put(member, made.id, [NewAttachment("linear", RIGHT)], whole=False)
    assert [each.name for each in attached.attachments] == ["linear"]
    wrong = NewAttachment("linear", {**RIGHT, "LINEAR_API_KEY": "${OTHER}"})
    with pytest.raises(Forbidden, match="takes an admin"):
        await attachments.put(member, made.id, [wrong], whole=False)
    with pytest.raises(Forbidden):
        await services[AgentDefinitions].grant_secret(member, made.id, "LINEAR_API_KEY")


async def test_only_an_admin_gives_a_server_variables_that_its_manifest_does_not_declare(authoring: Authoring) -> None:
    services, start = authoring.server.services, authoring.server.start
    user = await services.identity.create_user(authoring.server.owner, email="m@example.com", name="Mel")
    member = Principal(start.organization_id, user.id, "session", True, frozenset(SCOPES), name="Mel")
    attachments, id = services[AgentAttachments], authoring.agent["id"]
    wanted = NewAttachment("linear", {**RIGHT, "NODE_OPTIONS": "--import=data:text/javascript,steal()"})

    with pytest.raises(Invalid) as refused:
        await attachments.put(member, id, [wanted], whole=True)
    answer = await authoring.attach({"name": "linear", "env": dict(wanted.env)})
    saved_again = await attachments.put(member, id, [wanted], whole=True)
    with pytest.raises(Invalid):
        changed = NewAttachment("linear", {**RIGHT, "NODE_OPTIONS": "--inspect"})
        await attachments.put(member, id, [changed], whole=False)

    assert [each.field for each in refused.value.fields] == ["[0].env.NODE_OPTIONS"]
    assert "LINEAR_WORKSPACE_ID" in refused.value.fields[0].message
    assert (answer.status_code, saved_again.version) == (200, 2)
