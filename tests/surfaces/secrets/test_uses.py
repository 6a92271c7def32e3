"""Proves that every way to name a secret asks for the same right, whoever calls: a matrix over the API's own fields."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.core.principal import Role
from holdfast.features.identity import store as identity_store
from holdfast.features.identity.service import local_principal
from holdfast.features.workspaces import store as workspace_store
from holdfast.storage.database import Database, Tx
from tests.fakes.eavesdropper import Eavesdropper, eavesdropper
from tests.support.server import TestServer, serving

NAME, VALUE = "TOKEN", "tok-0123456789abcdef"
SOURCE = Path(__file__).parents[3] / "src" / "holdfast"
USERS = {
    "features/agents/definitions/attachments.py": {"is_set"},
    "features/agents/definitions/service.py": {"use", "is_set"},
    "features/agents/sessions/freezing.py": {"value_to_compare", "is_set"},
    "features/agents/x1/channels.py": {"reveal", "value_to_compare", "is_set"},
    "features/endpoints/service.py": {"use", "reveal", "version", "is_set"},
    "features/execution/approvals/announcing.py": {"value_to_compare"},
    "features/execution/settings.py": {"use"},
    "features/repositories/service.py": {"use"},
    "features/repositories/access.py": {"reveal"},
    "features/repositories/hosts/items.py": {"reveal"},
    "features/repositories/hosts/webhooks.py": {"value_to_compare"},
}
"""Who asks the store of secrets for what. A new one belongs here and, where callers name the secret, below."""
NAMED = re.compile(r"(^|_)(secret|key_from|key_secret)$|secret.*name")


def test_only_known_modules_touch_secrets() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        calls = set(re.findall(r"_?secrets\.(use|reveal|value_to_compare|version|is_set|find)\(", path.read_text()))
        if calls and not name.startswith("features/secrets/"):
            found[name] = calls
    assert found == USERS


@pytest.fixture
async def good() -> AsyncIterator[Eavesdropper]:
    async with eavesdropper() as made:
        yield made


@pytest.fixture
async def server(database: Database, good: Eavesdropper, tmp_path: Path) -> AsyncIterator[TestServer]:
    places = (good.place,)
    async with serving(database, data_dir=tmp_path / "data", upstream_allow=places, fetch_allow=places) as running:
        async with running.client() as owner:
            await owner.put(f"{_space(running)}/secrets/{NAME}", json={"value": VALUE, "hosts": [good.place]})
            added = await owner.post(f"{_space(running)}/repositories", json={"location": good.url("/a/b.git")})
            assert added.status_code == 201, added.text
        yield running


def _space(server: TestServer) -> str:
    return f"/api/workspaces/{server.start.workspace_id}"


@asynccontextmanager
async def _signed_in(
    server: TestServer, role: Role, is_workspace_admin: bool = False
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in which a person of this role is signed in."""
    services, start = server.services, server.start

    def work(tx: Tx) -> None:
        identity_store.insert_user(tx, "usr_kim", f"{role}@example.com", "Kim", None, 1)
        identity_store.set_role(tx, start.organization_id, "usr_kim", role, 1)
        if is_workspace_admin:
            workspace_store.add_admin(tx, start.workspace_id, "usr_kim")

    await services.database.write(work)
    signed_in = await services.sign_in.by_link((await services.sign_in.new_link(server.owner, "usr_kim")).secret)
    async with server.stranger() as client:
        client.cookies.set("holdfast_session", signed_in.cookie)
        client.headers["X-CSRF-Token"] = signed_in.session.csrf
        yield client


async def _uses(server: TestServer, client: httpx.AsyncClient, good: Eavesdropper, name: str) -> dict[str, int]:
    """Every operation that takes a secret's name, tried with one: field → status."""
    endpoints = f"/api/projects/{server.start.project_id}/endpoints"
    upstreams = [{"base_url": good.url("/v1"), "model": "m", "key_secret": name}]
    repository = {"location": good.url("/c/d.git"), "key_from": name, "slug": "c"}
    tried = {
        "POST /api/projects/{project_id}/endpoints upstreams.key_secret": await client.post(
            endpoints, json={"name": "made", "upstreams": upstreams}
        ),
        "PUT /api/projects/{project_id}/endpoints/{endpoint} upstreams.key_secret": await client.put(
            f"{endpoints}/put", json={"upstreams": upstreams}
        ),
        "POST /api/workspaces/{workspace_id}/repositories key_from": await client.post(
            f"{_space(server)}/repositories", json=repository
        ),
        "PUT /api/workspaces/{workspace_id}/repositories/{slug}/webhook secret": await client.put(
            f"{_space(server)}/repositories/b/webhook", json={"secret": name}
        ),
        "PUT /api/workspaces/{workspace_id}/execution-settings webhook_secret": await client.put(
            f"{_space(server)}/execution-settings", json={"webhook_url": good.url("/hook"), "webhook_secret": name}
        ),
    }
    return {field: answer.status_code for field, answer in tried.items()}


async def test_the_matrix_has_every_field_that_names_a_secret(server: TestServer, good: Eavesdropper) -> None:
    async with server.client() as owner:
        document = (await owner.get("/api/openapi.json")).json()
        tried = await _uses(server, owner, good, NAME)
    found = {
        f"{method.upper()} {path} {field}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, Mapping) and "requestBody" in operation
        for field in _fields(document, operation["requestBody"]["content"].popitem()[1].get("schema", {}))
        if NAMED.search(field.rpartition(".")[2])
    }
    assert found == set(tried)
    assert set(tried.values()) <= {200, 201}, tried


async def test_no_tool_of_an_agent_names_a_secret(server: TestServer) -> None:
    """Agents act with whatever key they have: naming a secret is for people and for what manages."""
    for tool in server.services.gateway.listed("mcp"):
        schema = tool.input.model_json_schema(ref_template="#/components/schemas/{model}")
        document = {"components": {"schemas": schema.get("$defs", {})}}
        assert not [field for field in _fields(document, schema) if NAMED.search(field.rpartition(".")[2])], tool.name


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any], prefix: str = "", depth: int = 6) -> set[str]:
    """The paths of every field that a body may have."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    found: set[str] = set()
    if depth:
        for name, inner in schema.get("properties", {}).items():
            found |= {f"{prefix}{name}"} | _fields(document, inner, f"{prefix}{name}.", depth - 1)
        for inner in (schema.get("items", {}), *schema.get("anyOf", ()), *schema.get("allOf", ())):
            found |= _fields(document, inner, prefix, depth - 1) if isinstance(inner, Mapping) else set()
    return found


@pytest.mark.parametrize("scopes", [("read",), ("inference",), ("read", "inference")])
async def test_keys_that_do_not_manage_use_no_secret(server: TestServer, good: Eavesdropper, scopes: Any) -> None:
    key = await server.mint(*scopes)
    async with server.client(key.secret) as client:
        assert set((await _uses(server, client, good, NAME)).values()) == {403}
        assert set((await _uses(server, client, good, "NO_SUCH")).values()) == {403}


@pytest.mark.parametrize(("role", "is_workspace_admin"), [("member", False), ("member", True), ("admin", False)])
async def test_people_use_a_secret_as_admins_of_its_workspace(
    server: TestServer, good: Eavesdropper, role: Role, is_workspace_admin: bool
) -> None:
    async with _signed_in(server, role, is_workspace_admin) as client:
        tried = await _uses(server, client, good, NAME)
        names = await client.get(f"{_space(server)}/secrets")
    endpoints = {field: status for field, status in tried.items() if "endpoint" in field}
    others = {field: status for field, status in tried.items() if field not in endpoints}
    assert names.status_code == 200
    # An endpoint is the project's: its own rule asks for more than the workspace's admin.
    assert set(endpoints.values()) <= ({200, 201} if role == "admin" else {403}), tried
    assert set(others.values()) <= ({200, 201} if role == "admin" or is_workspace_admin else {403}), tried


async def test_a_secret_says_which_person_changed_it(server: TestServer) -> None:
    async with _signed_in(server, "admin") as client:
        made = await client.put(f"{_space(server)}/secrets/MINE", json={"value": VALUE})
        listed = await client.get(f"{_space(server)}/secrets")
    assert (made.status_code, made.json()["updated_by"]) == (200, "admin@example.com")
    assert listed.json()["items"][0] == made.json()


async def test_another_tenants_secret_is_not_there(server: TestServer, good: Eavesdropper) -> None:
    other = await server.another_tenant()
    owner = local_principal(other.organization_id)
    key = await server.mint(owner=owner, project_id=other.project_id)
    async with server.client(key.secret) as client:
        tried = await _uses(server, client, good, NAME)
    assert set(tried.values()) == {404}
