"""Every tool that a model can call, called by each of its consumers: nothing runs outside the gateway."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from holdfast.core.errors import ApprovalRequired
from holdfast.core.principal import Principal
from holdfast.core.text.schema import input_schema
from holdfast.core.tools.gateway import Intent
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.model import CallEvent, LoopRequest
from holdfast.engines.llm.offered import turning_away
from holdfast.features.ask.live_tools import live_call, live_tools
from holdfast.features.ask.sources import Ledger
from holdfast.features.audit.model import AuditFilter
from holdfast.features.chat.model import Served
from holdfast.features.chat.turn.selection import RESEARCH
from holdfast.features.identity.model import NewKey
from holdfast.features.repositories.model import Repository
from tests.support.features.chats import ScriptedModel, call
from tests.support.server import TestServer

MODERN = "2026-07-28"
REFUSAL = "A person has to agree first."
# What a schema alone does not tell.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "xerotier.artifact.update": {"identifier": "plan.md"},
    "xerotier.artifact.create": {"identifier": "plan.md"},
    "xerotier.artifact.read": {"identifier": "plan.md"},
    "xerotier.research.fetch_url": {"url": "https://example.com/"},
    "fetch_url": {"url": "https://example.com/"},
    "code_search": {"query": "tide"},
    "gitlab_code_search": {"repository": "sea/tides"},
}


class Policy:
    """Refuses every call and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Intent] = []

    async def __call__(self, intent: Intent) -> None:
        self.asked.append(intent)
        raise ApprovalRequired(REFUSAL)


def minimal(schema: Mapping[str, Any]) -> Any:
    """The least that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return minimal(schema["anyOf"][0])
    kind = schema.get("type")
    if kind == "object":
        return {name: minimal(schema["properties"][name]) for name in schema.get("required", ())}
    if kind == "array":
        return [minimal(schema["items"])] * max(1, schema.get("minItems", 1))
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return False if kind == "boolean" else "something"


def arguments(name: str, model: Any) -> dict[str, Any]:
    return {**minimal(input_schema(model)), **ARGUMENTS.get(name, {})}


@pytest.fixture
async def policy(sqlite_server: TestServer) -> AsyncIterator[Policy]:
    refusing = Policy()
    sqlite_server.services.gateway.decide = refusing
    yield refusing


async def over_mcp(server: TestServer, path: str, names: Mapping[str, dict[str, Any]], key: str) -> dict[str, str]:
    """What each call over a mount is answered."""
    answers = {}
    async with server.client(key, **{"X-Xerotier-Workspace": server.start.workspace_id}) as client:
        for number, (name, given) in enumerate(names.items()):
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "walk", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"name": name, "arguments": given, "_meta": meta}
            headers = {
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": MODERN,
                "Mcp-Method": "tools/call",
                "Mcp-Name": name,
            }
            body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            found = (await client.post(path, json=body, headers=headers)).json()
            answers[name] = found["result"]["content"][0]["text"] if "result" in found else found["error"]["message"]
    return answers


async def in_a_chat(server: TestServer, names: Mapping[str, dict[str, Any]], who: Principal) -> dict[str, str]:
    """What each call in a turn of a chat is answered."""
    calls = [call(name, f"call_{number}", **given) for number, (name, given) in enumerate(names.items())]
    served = Served("default", ScriptedModel(calls, "Done."), frozenset(), lambda tally: 0.0)
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Do all of it."}],
        "web_search_options": {"x_tools": list(RESEARCH)},
        "tools": [{"type": "file_search"}],
    }
    start = server.start
    turn = server.services.chat_turns.turn(who, start.project_id, start.workspace_id, served, body, "c1")
    return answered([event async for event in turn])


async def by_ask(server: TestServer, names: Mapping[str, dict[str, Any]], who: Principal) -> dict[str, str]:
    """What each look of a question is answered, in the loop that `ask` runs."""
    start, gateway = server.start, server.services.gateway
    repository = Repository(
        id="repo_1",
        organization_id=start.organization_id,
        project_id=start.project_id,
        workspace_id=start.workspace_id,
        slug="ledger",
        name="Ledger",
        location="/nowhere",
        is_local=True,
        created_by="usr_1",
        created_by_name="",
        created_at=0,
        updated_at=0,
    )
    circumstances = live_call(who, [repository], Ledger())
    calls = [call(name, f"call_{number}", **given) for number, (name, given) in enumerate(names.items())]
    tools = live_tools(gateway, circumstances)
    request = LoopRequest({"messages": []}, tools, 2, turning_away(gateway, circumstances))
    return answered([event async for event in Loop().run(ScriptedModel(calls, "Done."), request)])


def answered(events: Sequence[object]) -> dict[str, str]:
    calls = [event for event in events if isinstance(event, CallEvent)]
    return {event.name: json.loads(event.outcome.text)["error"] for event in calls}


async def walk(server: TestServer) -> dict[str, dict[str, str]]:
    """Every tool of every consumer, called once: what each was answered."""
    gateway, owner, start = server.services.gateway, server.owner, server.start
    key = (
        await server.services.keys.create(
            owner, NewKey(name="searching", project_id=start.project_id, catalog_search=True)
        )
    ).secret
    tools = {
        consumer: {tool.name: arguments(tool.name, tool.input) for tool in gateway.listed(consumer)}
        for consumer in ("mcp", "keystone", "catalog")
    }
    aliases = {
        consumer: {alias.name: arguments(alias.name, alias.input) for alias in gateway.aliases(consumer)}
        for consumer in ("chat", "ask")
    }
    assert {consumer: len(found) for consumer, found in (*tools.items(), *aliases.items())} == {
        "mcp": 29,
        "keystone": 4,
        "catalog": 1,
        "chat": 11,
        "ask": 5,
    }
    mount = f"/{start.project_id}/v1/mcp"
    return {
        "mcp": await over_mcp(server, mount, tools["mcp"], server.key),
        "keystone": await over_mcp(server, "/api/mcp", tools["keystone"], server.key),
        "catalog": await over_mcp(server, mount, tools["catalog"], key),
        "chat": await in_a_chat(server, aliases["chat"], owner),
        "ask": await by_ask(server, aliases["ask"], owner),
    }


async def test_a_policy_that_refuses_everything_stops_every_tool_of_every_consumer(
    sqlite_server: TestServer, policy: Policy
) -> None:
    answers = await walk(sqlite_server)
    ran = [(consumer, name, text) for consumer, found in answers.items() for name, text in found.items()]
    assert [each for each in ran if each[2] != REFUSAL] == []
    assert len(policy.asked) == len(ran)
    seen = {(intent.call.consumer, intent.tool.name) for intent in policy.asked}
    # The same tool, whoever calls it: a rule for one holds for all.
    for consumer in ("mcp", "chat"):
        assert (consumer, "xerotier.memory.save") in seen
        assert (consumer, "xerotier.artifact.create") in seen
    saved = next(
        intent
        for intent in policy.asked
        if intent.call.consumer == "chat" and intent.tool.name == "xerotier.memory.save"
    )
    assert (saved.call.principal.actor, saved.arguments["content"]) == (sqlite_server.owner.actor, "something")


async def test_denials_and_usage_look_the_same_from_each_consumer(sqlite_server: TestServer, policy: Policy) -> None:
    answers = await walk(sqlite_server)
    services, owner = sqlite_server.services, sqlite_server.owner
    page = await services.audit.list(owner, AuditFilter(action="tool.call"), limit=200)
    denied = {event.resource_id for event in page.items}
    assert denied == {name for found in answers.values() for name in found}
    shapes = {(event.resource, event.outcome, event.workspace_id, tuple(event.detail.items())) for event in page.items}
    assert shapes <= {
        ("tool", "denied", workspace_id, (("reason", REFUSAL),))
        for workspace_id in (sqlite_server.start.workspace_id, None)
    }
    rows = await services.usage.report(owner, group_by=("source",))
    assert {row.source: row.amount for row in rows if row.kind == "tool_calls"} == {
        "mcp": len(answers["mcp"]) + len(answers["keystone"]) + len(answers["catalog"]),
        "chat": len(answers["chat"]),
        "ask": len(answers["ask"]),
    }


async def test_what_a_key_may_not_call_is_denied_alike_over_mcp_and_in_a_chat(sqlite_server: TestServer) -> None:
    services, start = sqlite_server.services, sqlite_server.start
    minted = await services.keys.create(
        sqlite_server.owner,
        NewKey(name="core", project_id=start.project_id, tier="core", scopes=frozenset({"inference"})),
    )
    principal = await services.keys.authenticate(minted.secret)
    given = {"identifier": "a", "title": "A", "type": "text/markdown", "content": "A"}
    over = await over_mcp(
        sqlite_server, f"/{start.project_id}/v1/mcp", {"xerotier.artifact.create": given}, minted.secret
    )
    chat = await in_a_chat(sqlite_server, {"create_artifact": given}, principal)
    needs = "is not for this credential. This needs the tier 'intel' or 'all'; the key has the tier 'core'."
    assert over == {"xerotier.artifact.create": f"The tool xerotier.artifact.create {needs}"}
    # For the model it does not exist; for the audit trail it was refused.
    assert chat["create_artifact"].startswith("No tool 'create_artifact' exists.")
    page = await services.audit.list(sqlite_server.owner, AuditFilter(action="tool.call"), limit=50)
    told = {event.resource_id: (event.actor, event.workspace_id, event.detail["reason"]) for event in page.items}
    assert told == {
        name: (principal.actor, start.workspace_id, f"The tool {name} {needs}")
        for name in ("xerotier.artifact.create", "create_artifact")
    }
    rows = await services.usage.report(sqlite_server.owner, group_by=("source",))
    assert {row.source: row.amount for row in rows if row.kind == "tool_calls"} == {"mcp": 1, "chat": 1}
