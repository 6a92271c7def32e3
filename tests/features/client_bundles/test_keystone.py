"""Keystone bundles: the documented entry for every client, an organization's key, beside a workspace's own entry."""

import json
import tomllib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from holdfast.core.errors import Forbidden, Invalid, NotFound, Unauthenticated
from holdfast.core.principal import SCOPES
from holdfast.features.client_bundles.model import Bundle, WantedClient
from holdfast.features.client_bundles.service import CLIENTS, archive
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.service import local_principal
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.world import World, new_world

URL = "https://holdfast.example.com"
ENDPOINT = f"{URL}/api/mcp"
READERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> AsyncIterator[World]:
    yield await new_world(database, clock)


@pytest.fixture
async def sqlite_world(sqlite_database: SqliteDatabase, clock: MovableClock) -> AsyncIterator[World]:
    yield await new_world(sqlite_database, clock)


async def issue(world: World, client: str, **more: Any) -> Bundle:
    wanted = WantedClient(client=client, surface="keystone", **{"url": URL, **more})
    return await world.services.client_bundles.issue(world.owner, wanted)


def content(bundle: Bundle) -> dict[str, str]:
    return {file.path: file.merge("") for file in bundle.files}


def key_of(bundle: Bundle) -> str:
    if bundle.environment:
        return bundle.environment["KEYSTONE_API_KEY"]
    (settings, *_) = content(bundle).values()
    return "ks_live_" + settings.split("ks_live_")[1][:64]


SERVERS = {
    "claude-code": "mcpServers",
    "cursor": "mcpServers",
    "opencode": "mcp",
    "vscode": "servers",
    "claude-desktop": "mcpServers",
    "codex": "mcp_servers",
    "gemini-cli": "mcpServers",
    "goose": "extensions",
    "copilot": "mcpServers",
    "zed": "context_servers",
    "windsurf": "mcpServers",
}
"""Where each client keeps its servers by name; Continue has a list."""


@pytest.mark.contract("KS-1")
@pytest.mark.parametrize("client", list(CLIENTS))
async def test_every_client_gets_an_entry_for_the_organizations_endpoint(sqlite_world: World, client: str) -> None:
    bundle = await issue(sqlite_world, client)
    files = content(bundle)
    settings = READERS[bundle.client.format](files[bundle.client.path])
    if client == "continue":
        (server,) = settings["mcpServers"]
        assert server["name"] == "keystone" and bundle.client.path == ".continue/mcpServers/keystone.yaml"
    else:
        server = settings[SERVERS[client]]["keystone"]
    text = json.dumps(server)
    assert ENDPOINT in text and f"Bearer {key_of(bundle)}" in text and "Workspace" not in text
    principal = await sqlite_world.services.keys.authenticate(key_of(bundle))
    assert (principal.project_id, principal.workspace_ids, sorted(principal.scopes)) == (None, None, ["inference"])
    told = "\n".join([*files.values(), settings.get("developer_instructions", "")])
    if client != "claude-desktop":
        assert all(tool in told for tool in ("list_projects", "`ask`", "search_memory", "get_project_status"))
    assert "xerotier" not in told.lower() + bundle.readme.lower()
    assert bundle.key_name in bundle.readme and f"setup {client} --surface keystone" in bundle.readme
    assert key_of(bundle) not in bundle.readme + repr(bundle)


async def test_the_documented_snippet_is_written_to_the_letter(sqlite_world: World) -> None:
    bundle = await issue(sqlite_world, "claude-code")
    assert json.loads(content(bundle)[".mcp.json"]) == {
        "mcpServers": {
            "keystone": {
                "type": "http",
                "url": ENDPOINT,
                "headers": {"Authorization": f"Bearer {key_of(bundle)}"},
            }
        }
    }
    assert bundle.key_name == "keystone:claude-code"
    whole = await issue(sqlite_world, "claude-code", url=ENDPOINT)
    assert ENDPOINT in content(whole)[".mcp.json"] and f"{ENDPOINT}/api" not in content(whole)[".mcp.json"]


@pytest.mark.parametrize("client", list(CLIENTS))
async def test_both_surfaces_live_in_the_same_files(sqlite_world: World, client: str) -> None:
    workspace_id = sqlite_world.start.workspace_id
    wanted = WantedClient(client=client, workspace_id=workspace_id, url=URL)
    xerotier = await sqlite_world.services.client_bundles.issue(sqlite_world.owner, wanted)
    keystone = await issue(sqlite_world, client)
    before = {file.path: file.merge("") for file in xerotier.files}
    after = dict(before)
    for file in keystone.files:
        after[file.path] = file.merge(after.get(file.path, ""))
    for file in (*xerotier.files, *keystone.files):
        assert file.merge(after[file.path]) == after[file.path], "a second run changes nothing"
    text = "\n".join(after.values())
    assert ENDPOINT in text and "/v1/mcp" in text
    if client != "claude-desktop":
        assert "<!-- xerotier:begin -->" in text and "<!-- keystone:begin -->" in text


async def test_with_an_environment_variable_no_file_holds_the_key(sqlite_world: World) -> None:
    for client in CLIENTS:
        if CLIENTS[client].variable is None:
            with pytest.raises(Invalid):
                await issue(sqlite_world, client, in_environment=True)
            continue
        bundle = await issue(sqlite_world, client, in_environment=True)
        assert key_of(bundle) not in str(content(bundle)) + bundle.readme
        assert "KEYSTONE_API_KEY" in content(bundle)[bundle.client.path] and "KEYSTONE_API_KEY" in bundle.readme


async def test_each_bundle_stops_the_key_of_the_one_before(world: World) -> None:
    first, labelled, second = [await issue(world, "cursor", label=label) for label in ("", "alice", "")]
    with pytest.raises(Unauthenticated):
        await world.services.keys.authenticate(key_of(first))
    for kept in (labelled, second):
        await world.services.keys.authenticate(key_of(kept))


async def test_a_draft_changes_no_key_and_shows_none(sqlite_world: World) -> None:
    world = sqlite_world
    bundle = await issue(world, "cursor")
    before = await world.services.keys.list(world.owner)
    draft = await world.services.client_bundles.draft(
        world.owner, WantedClient(client="cursor", surface="keystone", url=URL)
    )
    assert await world.services.keys.list(world.owner) == before
    assert draft.files[0].merge("") == bundle.files[0].merge("").replace(key_of(bundle), "ks_live_…")
    assert b"keystone/README.md" in archive(bundle)


async def test_only_whoever_sees_the_organization_gets_its_key(world: World) -> None:
    bundles, services = world.services.client_bundles, world.services
    everything = NewKey(name="all", project_id=world.start.project_id, scopes=frozenset(SCOPES))
    principal = await services.keys.authenticate((await services.keys.create(world.owner, everything)).secret)
    with pytest.raises(Forbidden, match="one project"):
        await bundles.issue(principal, WantedClient(client="cursor", surface="keystone", url=URL))
    whole = NewKey(name="whole", kind="organization")
    unprivileged = await services.keys.authenticate((await services.keys.create(world.owner, whole)).secret)
    with pytest.raises(Forbidden):
        await bundles.issue(unprivileged, WantedClient(client="cursor", surface="keystone", url=URL))
    foreign = await services.identity.create_organization(world.owner, "Other")
    wanted = WantedClient(client="cursor", surface="keystone", workspace_id=world.start.workspace_id, url=URL)
    with pytest.raises(NotFound):
        await bundles.issue(local_principal(foreign.id), wanted)
    with pytest.raises(Invalid):
        await bundles.issue(world.owner, WantedClient(client="cursor", url=URL))
