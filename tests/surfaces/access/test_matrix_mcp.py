"""The second matrix: every tool, prompt and resource over MCP, in both eras, with every kind of credential."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.access import Access
from holdfast.core.principal import TIERS, Tier
from holdfast.core.resources import BRIEF, DECISIONS, MEMORY
from holdfast.core.settings import Settings
from holdfast.features.repositories import tools as repository_tools
from holdfast.registry.prompts import Prompts
from holdfast.registry.resources import Resource, Resources
from holdfast.server.routes import build_gate
from holdfast.storage.database import Database
from tests.support.access.callers import bearer
from tests.support.access.matrix import Ground, ground, verdict
from tests.support.access.oracle import Credential, Expected, expected
from tests.support.access.tenant import filled
from tests.support.asgi import Answer, ask
from tests.support.references import REFERENCES, counts, fields_of
from tests.support.server import TestServer

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
# What lets anybody in at all, by the contract's own word (XM-19, KS-1).
DOOR = Access("workspace", "inference")
KEYSTONE_DOOR = Access("workspace", ("read", "inference"))
ARGUMENTS = {"onboard": {"topic": "secrets"}, "save-this": {"note": "keep it"}}
# An address of each template that names something of the tenant's, by what of it stands in the open place.
ADDRESSES = {
    "xerotier://memory/{slug}": ("{slug}", "memory"),
    "xerotier://artifact/{id}": ("{id}", "artifact_id"),
    DECISIONS + "{?since,limit}": ("{?since,limit}", ""),
}


def addresses(here: Ground) -> dict[str, Access]:
    """Every resource that is declared, at an address where it is, and who may read it."""
    found = {}
    for each in here.server.services[Resources].all:
        if isinstance(each, Resource):
            found[each.uri] = each.access
        else:
            place, name = ADDRESSES[each.uri_template]
            found[each.uri_template.replace(place, here.ids[name] if name else "?limit=3")] = each.access
    return found


class Caller:
    """Speaks JSON-RPC to a mount with one credential, in one era."""

    def __init__(self, ground: Ground, path: str, credential: Credential, era: str, **headers: str) -> None:
        self._app, self._path, self._era = ground.app, path, era
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **credential.headers,
            **headers,
        }

    async def begin(self) -> Answer:
        """The first request of the era: what the door says."""
        if self._era == MODERN:
            return await self.send("tools/list")
        info = {"name": "matrix", "version": "1"}
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": info}
        answer = await self._post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, {})
        self._headers["MCP-Protocol-Version"] = HANDSHAKE
        if "mcp-session-id" in answer.headers:
            self._headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        return answer

    async def send(self, method: str, params: Mapping[str, Any] = {}) -> Answer:
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
        if self._era != MODERN:
            return await self._post(body, {})
        body["params"]["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "matrix", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        name = params.get("name") or params.get("uri")
        named = {"Mcp-Name": str(name)} if name else {}
        return await self._post(body, {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named})

    async def _post(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
        return await ask(self._app, "POST", self._path, {**self._headers, **headers}, body=json.dumps(body).encode())


def said(want: Expected, answer: Answer) -> str | None:
    """What is wrong with an answer to a call; a refusal is an error that names what is missing."""
    found = answer.json()
    refused = found.get("error", {}).get("message", "")
    if want.status == "ok":
        return f"is refused: {refused}" if refused else None
    if want.status == 404:
        missing = found.get("result", {}).get("_meta", {}).get("holdfast/code") in ("not_found", "unknown_tool")
        return None if missing else f"is not missing: {answer.text[:300]}"
    if not refused:
        return f"is answered: {answer.text[:300]}"
    return None if any(word in refused for word in want.words) else f"names none of {want.words}: {refused}"


def of(access: Access, credential: Credential) -> Expected:
    """What somebody whom the door let in is answered."""
    return expected(access, credential, "GET", names_things=False, in_first=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.contract("XM-10")
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
async def test_tools_prompts_and_resources_let_in_exactly_whom_they_declare(database: Database, era: str) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        path = f"/{here.server.start.project_id}/v1/mcp"
        resources = addresses(here)
        tools = {tool.name: tool.access for tool in here.server.services.gateway.listed("mcp")}
        prompts = {name: prompt.access for name, prompt in here.server.services[Prompts].all.items()}
        workspace = {"X-Xerotier-Workspace": here.server.start.workspace_id}
        for credential in here.credentials:
            caller = Caller(here, path, credential, era, **workspace)
            door = expected(DOOR, credential, "POST", names_things=True, in_first=True)
            problem = verdict(door, await caller.begin())
            if problem is not None:
                wrong.append(f"the door with {credential.name} {problem}")
            if door.status != "ok" or problem is not None:
                continue
            asked: list[tuple[str, dict[str, Any], Access]] = [
                *(("tools/call", {"name": name, "arguments": {}}, access) for name, access in tools.items()),
                *(
                    ("prompts/get", {"name": name, "arguments": ARGUMENTS.get(name, {})}, access)
                    for name, access in prompts.items()
                ),
                *(("resources/read", {"uri": uri}, access) for uri, access in resources.items()),
            ]
            answers = await asyncio.gather(*(caller.send(method, params) for method, params, _ in asked))
            for (method, params, access), answer in zip(asked, answers, strict=True):
                problem = said(of(access, credential), answer)
                if problem is not None:
                    wrong.append(f"{method} {params.get('name') or params.get('uri')} with {credential.name} {problem}")
            wrong += await unlisted(caller, credential, tools, prompts, resources)
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:60])


async def unlisted(
    caller: Caller,
    credential: Credential,
    tools: Mapping[str, Access],
    prompts: Mapping[str, Access],
    resources: Mapping[str, Access],
) -> list[str]:
    """Lists hold what may be used, no more and no less."""
    wrong = []
    for kind, known in (("tools", tools), ("prompts", prompts)):
        found = {each["name"] for each in (await caller.send(f"{kind}/list")).json()["result"][kind]}
        # Which tools of other servers are listed is tested where those are.
        found = {name for name in found if not name.startswith("demo.")} - {"find_tool", "call_tool"}
        allowed = {name for name, access in known.items() if of(access, credential).status == "ok"}
        if found != allowed:
            wrong.append(f"{kind}/list with {credential.name} differs by {sorted(found ^ allowed)}")
    listed = {each["uri"] for each in (await caller.send("resources/list")).json()["result"]["resources"]}
    # A part of a resource is not listed, and a memory is listed by its slug.
    whole = {uri for uri in resources if "?" not in uri and not uri.startswith(MEMORY)}
    may = {uri for uri in whole if of(resources[uri], credential).status == "ok"}
    if whole & listed != may:
        wrong.append(f"resources/list with {credential.name} differs by {sorted(whole & listed ^ may)}")
    return wrong


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.contract("KS-1")
async def test_the_organizations_mount_shows_each_credential_its_own_repositories(database: Database) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        services = here.server.services
        slug = here.ids["slug"]
        tools = repository_tools.tools(services.repositories, services.repository_finding, services.ask)
        arguments: dict[str, dict[str, Any]] = {
            "list_projects": {},
            "get_project_status": {"projectSlug": slug},
            "search_memory": {"projectSlugs": [slug], "query": "secret"},
            "ask": {"projectSlugs": [slug], "question": "Where is the secret?"},
        }
        assert {tool.name for tool in tools} == set(arguments)
        for credential in here.credentials:
            caller = Caller(here, "/api/mcp", credential, MODERN)
            # People's cookies are for pages: agents bring a bearer.
            by_cookie = "Cookie" in credential.headers
            door = (
                Expected(401)
                if by_cookie
                else expected(KEYSTONE_DOOR, credential, "POST", names_things=False, in_first=False)
            )
            problem = verdict(door, await caller.begin())
            if problem is not None:
                wrong.append(f"the door with {credential.name} {problem}")
            if door.status != "ok" or problem is not None:
                continue
            for tool in tools:
                named = tool.name != "list_projects"
                want = expected(tool.access, credential, "GET", names_things=named, in_first=named)
                answer = await caller.send("tools/call", {"name": tool.name, "arguments": arguments[tool.name]})
                problem = said(want, answer)
                if problem is not None:
                    wrong.append(f"{tool.name} with {credential.name} {problem}")
                if not named and (slug in answer.text) != (credential.own_tenant and credential.sees_first):
                    wrong.append(f"list_projects with {credential.name} holds {answer.text[:200]}")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:60])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.contract("XM-10")
@pytest.mark.parametrize("tier", TIERS)
async def test_the_catalog_completion_and_subscriptions_keep_to_the_tier(sqlite_server: TestServer, tier: Tier) -> None:
    server = sqlite_server
    app = build_gate(Settings(data_dir=Path("/nonexistent"), port=0), server.services, server.url)
    minted = await server.mint(name="finder", tier=tier, catalog_search=True)
    here = Ground(server, app, {}, [])
    holder = Credential("finder", "key", bearer(minted), tier=tier, of_project=True)
    workspace = {"X-Xerotier-Workspace": server.start.workspace_id}
    path = f"/{server.start.project_id}/v1/mcp"
    finder = Caller(here, path, holder, HANDSHAKE, **workspace)
    await finder.begin()
    tools = server.services.gateway.listed("mcp")
    allowed = {tool.name for tool in tools if of(tool.access, holder).status == "ok"}
    found: set[str] = set()
    for tool in tools:
        query = {"name": "find_tool", "arguments": {"query": tool.name, "limit": 20}}
        answer = (await finder.send("tools/call", query)).json()["result"]
        found |= {each["name"] for each in answer["structuredContent"]["tools"]}
        call = {"name": "call_tool", "arguments": {"name": tool.name, "arguments": {}}}
        assert said(of(tool.access, holder), await finder.send("tools/call", call)) is None, tool.name
    assert found == allowed
    fixed = {each.uri: each.access for each in server.services[Resources].all if isinstance(each, Resource)}
    assert {BRIEF, DECISIONS} == set(fixed)
    for uri, access in fixed.items():
        refused = "error" in (await finder.send("resources/subscribe", {"uri": uri})).json()
        assert refused == (of(access, holder).status != "ok"), uri
    for reference, argument, value in (
        ({"type": "ref/prompt", "name": "onboard"}, "topic", ""),
        ({"type": "ref/resource", "uri": DECISIONS + "{?since,limit}"}, "since", "7"),
    ):
        params = {"ref": reference, "argument": {"name": argument, "value": value}}
        values = (await finder.send("completion/complete", params)).json()["result"]["completion"]["values"]
        if tier not in ("intel", "all"):
            assert values == []
    await app.on_stop[-1]()


# A request of each tool that names things, made of one's own: what a foreign id is put into.
EXAMPLES: dict[str, dict[str, Any]] = {
    "xerotier.memory.save": {"content": "Bees fly at noon over the roof garden"},
    "xerotier.artifact.create": {"identifier": "bees", "title": "Bees", "type": "text/plain", "content": "x"},
    "xerotier.artifact.update": {"content": "changed"},
    "xerotier.artifact.read": {},
    "xerotier.exec.poll": {},
    "xerotier.exec.cancel": {},
    "xerotier.artifact.list": {},
    "xerotier.session.init": {},
    "xerotier.intelligence.timeline": {},
    "xerotier.intelligence.graph": {},
    "xerotier.intelligence.relate": {"relation": "supports"},
    "xerotier.intelligence.track_decision": {"title": "Keep bees"},
    "xerotier.intelligence.track_milestone": {"title": "Bees kept"},
}


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_another_tenants_ids_are_not_found_in_the_arguments_of_tools(database: Database) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        other = await here.server.another_tenant("Thieves")
        thief = Credential(
            "thief", "key", bearer(await here.server.mint(owner=other.owner, project_id=other.project_id))
        )
        workspace = {"X-Xerotier-Workspace": other.workspace_id}
        caller = Caller(here, f"/{other.project_id}/v1/mcp", thief, MODERN, **workspace)
        database_now = here.server.services.database
        for tool in here.server.services.gateway.listed("mcp"):
            for field in fields_of(tool.input):
                if field not in REFERENCES:
                    continue
                arguments = {**EXAMPLES[tool.name], field: filled(REFERENCES[field], here.ids)}
                if tool.name == "xerotier.intelligence.relate":
                    arguments |= {end: filled(REFERENCES[end], here.ids) for end in ("from", "to")}
                if (tool.name, field) == ("xerotier.intelligence.track_decision", "supersedes"):
                    arguments[field] = here.ids["decision_id"]
                if field == "chat_id" and tool.name in ("xerotier.artifact.update", "xerotier.artifact.read"):
                    arguments["identifier"] = "a"
                before = await database_now.read(counts)
                answer = await caller.send("tools/call", {"name": tool.name, "arguments": arguments})
                code = answer.json().get("result", {}).get("_meta", {}).get("holdfast/code")
                if code != "not_found":
                    wrong.append(f"{tool.name} {field} is answered {code}: {answer.text[:200]}")
                if await database_now.read(counts) != before:
                    wrong.append(f"{tool.name} {field} changed something")
    assert not wrong, "\n".join(wrong)
