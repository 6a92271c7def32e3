"""Client bundles: each client's exact shape, a fresh key each time, and nothing for strangers."""

import io
import json
import tomllib
import zipfile
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
READERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> AsyncIterator[World]:
    yield await new_world(database, clock)


@pytest.fixture
async def sqlite_world(sqlite_database: SqliteDatabase, clock: MovableClock) -> AsyncIterator[World]:
    yield await new_world(sqlite_database, clock)


async def issue(world: World, client: str, **more: Any) -> Bundle:
    wanted = WantedClient(client=client, workspace_id=world.start.workspace_id, **{"url": URL, **more})
    return await world.services.client_bundles.issue(world.owner, wanted)


def content(bundle: Bundle) -> dict[str, str]:
    return {file.path: file.merge("") for file in bundle.files}


def key_of(bundle: Bundle) -> str:
    if bundle.environment:
        return bundle.environment["XEROTIER_API_KEY"]
    (settings, *_) = content(bundle).values()
    found: str = settings.split("Bearer ")[1].split('"')[0].split("\n")[0]
    return found


def documented(client: str, url: str, headers: dict[str, str]) -> dict[str, Any]:
    """The shapes, written out once more."""
    http = {"type": "http", "url": url, "headers": headers}
    shapes: dict[str, dict[str, Any]] = {
        "claude-code": {"mcpServers": {"xerotier": http}},
        "cursor": {"mcpServers": {"xerotier": {"url": url, "headers": headers}}},
        "opencode": {
            "mcp": {
                "xerotier": {
                    "type": "remote",
                    "url": url,
                    "enabled": True,
                    "oauth": False,
                    "timeout": 30000,
                    "headers": headers,
                }
            },
            "instructions": [".xerotier/rules.md"],
        },
        "vscode": {"servers": {"xerotier": http}},
        "claude-desktop": {"mcpServers": {"xerotier": http}},
        "codex": {
            "mcp_servers": {
                "xerotier": {
                    "url": url,
                    "enabled": True,
                    "startup_timeout_sec": 30,
                    "tool_timeout_sec": 60,
                    "http_headers": headers,
                }
            }
        },
        "gemini-cli": {"mcpServers": {"xerotier": {"httpUrl": url, "headers": headers, "timeout": 30000}}},
        "goose": {
            "extensions": {
                "xerotier": {
                    "enabled": True,
                    "type": "streamable_http",
                    "name": "xerotier",
                    "description": "Holdfast: this project's memory and tools",
                    "uri": url,
                    "headers": headers,
                    "env_keys": [],
                    "timeout": 300,
                }
            }
        },
        "copilot": {"mcpServers": {"xerotier": {**http, "tools": ["*"]}}},
        "continue": {
            "name": "Xerotier",
            "version": "0.0.1",
            "schema": "v1",
            "mcpServers": [
                {
                    "name": "xerotier",
                    "type": "streamable-http",
                    "url": url,
                    "requestOptions": {"headers": headers},
                }
            ],
        },
        "zed": {"context_servers": {"xerotier": {"url": url, "headers": headers}}},
        "windsurf": {"mcpServers": {"xerotier": {"serverUrl": url, "headers": headers}}},
    }
    return shapes[client]


FILES = {
    "claude-code": [".mcp.json", ".claude/CLAUDE.md", ".gitignore"],
    "cursor": [".cursor/mcp.json", ".cursor/rules/xerotier.mdc", ".gitignore"],
    "opencode": ["opencode.json", ".xerotier/rules.md", ".gitignore"],
    "vscode": [".vscode/mcp.json", ".github/copilot-instructions.md", ".gitignore"],
    "claude-desktop": ["claude_desktop_config.json"],
    "codex": [".codex/config.toml", ".gitignore"],
    "gemini-cli": [".gemini/settings.json", "GEMINI.md", ".gitignore"],
    "goose": ["config.yaml", ".goosehints"],
    "copilot": [".github/mcp.json", ".github/copilot-instructions.md", ".gitignore"],
    "continue": [".continue/mcpServers/xerotier.yaml", ".continue/rules/xerotier.md", ".gitignore"],
    "zed": [".zed/settings.json", ".rules", ".gitignore"],
    "windsurf": ["mcp_config.json", "memories/global_rules.md"],
}


@pytest.mark.contract("XM-20")
@pytest.mark.parametrize("client", list(CLIENTS))
async def test_the_files_have_the_documented_paths_and_the_exact_shape(sqlite_world: World, client: str) -> None:
    world = sqlite_world
    bundle = await issue(world, client)
    files = content(bundle)
    assert list(files) == FILES[client]
    settings = READERS[CLIENTS[client].format](files[CLIENTS[client].path])
    headers = {"Authorization": f"Bearer {key_of(bundle)}", "X-Xerotier-Workspace": world.start.workspace_id}
    rules = settings.pop("developer_instructions", None)
    assert settings == documented(client, f"{URL}/{world.start.project_id}/v1/mcp", headers)
    principal = await world.services.keys.authenticate(key_of(bundle))
    assert principal.workspace_ids == frozenset({world.start.workspace_id}) and sorted(principal.scopes) == [
        "inference"
    ]
    texts = [rules or "", *files.values(), bundle.readme]
    if client != "claude-desktop":
        assert any("xerotier.memory.recall" in text for text in texts)
    if ".gitignore" in files:
        assert CLIENTS[client].path in files[".gitignore"].splitlines()
    assert CLIENTS[client].path in bundle.readme and bundle.key_name in bundle.readme
    assert key_of(bundle) not in bundle.readme + repr(bundle)


async def test_cursor_rules_always_apply_and_codex_text_is_as_documented(sqlite_world: World) -> None:
    cursor = content(await issue(sqlite_world, "cursor"))[".cursor/rules/xerotier.mdc"]
    assert yaml.safe_load(cursor.split("---")[1])["alwaysApply"] is True
    codex = content(await issue(sqlite_world, "codex"))[".codex/config.toml"]
    assert codex.startswith("# Xerotier MCP server configuration for OpenAI Codex.\n")
    assert "\n[mcp_servers.xerotier]\nurl = " in codex and '\nhttp_headers = {"Authorization" = "Bearer xero_' in codex


async def test_rules_name_only_tools_of_the_tier(sqlite_world: World) -> None:
    core = content(await issue(sqlite_world, "claude-code", tier="core"))[".claude/CLAUDE.md"]
    full = content(await issue(sqlite_world, "claude-code", tier="intel"))[".claude/CLAUDE.md"]
    assert "xerotier.intelligence" not in core and "xerotier.memory.save" in core
    assert "xerotier.intelligence.track_decision" in full


@pytest.mark.parametrize("client", list(CLIENTS))
async def test_with_an_environment_variable_no_file_holds_the_key(sqlite_world: World, client: str) -> None:
    if CLIENTS[client].variable is None:
        before = await sqlite_world.services.keys.list(sqlite_world.owner)
        with pytest.raises(Invalid):
            await issue(sqlite_world, client, in_environment=True)
        assert await sqlite_world.services.keys.list(sqlite_world.owner) == before
        return
    bundle = await issue(sqlite_world, client, in_environment=True)
    files = content(bundle)
    assert key_of(bundle) not in str(files) + bundle.readme and ".gitignore" not in files
    assert not any(file.has_key for file in bundle.files)
    assert "XEROTIER_API_KEY" in files[CLIENTS[client].path]
    await sqlite_world.services.keys.authenticate(key_of(bundle))


async def test_codex_takes_the_variables_name_and_changes_between_the_two(sqlite_world: World) -> None:
    plain, in_environment = await issue(sqlite_world, "codex"), await issue(sqlite_world, "codex", in_environment=True)
    text = plain.files[0].merge("")
    changed = tomllib.loads(in_environment.files[0].merge(text))["mcp_servers"]["xerotier"]
    assert changed["bearer_token_env_var"] == "XEROTIER_API_KEY" and "Authorization" not in changed["http_headers"]
    back = tomllib.loads(plain.files[0].merge(in_environment.files[0].merge(text)))
    assert back == tomllib.loads(text)


@pytest.mark.contract("XM-20")
async def test_each_bundle_stops_the_key_of_the_one_before(world: World) -> None:
    first = await issue(world, "cursor", tier="core")
    other = await issue(world, "codex")
    labelled = await issue(world, "cursor", label="alice")
    second = await issue(world, "cursor", tier="intel")
    with pytest.raises(Unauthenticated):
        await world.services.keys.authenticate(key_of(first))
    assert (await world.services.keys.authenticate(key_of(second))).tier == "intel"
    for kept in (other, labelled):
        await world.services.keys.authenticate(key_of(kept))


async def test_a_draft_changes_no_key_and_shows_none(sqlite_world: World) -> None:
    world = sqlite_world
    bundle = await issue(world, "cursor")
    before = await world.services.keys.list(world.owner)
    wanted = WantedClient(client="cursor", workspace_id=world.start.workspace_id, url=URL)
    draft = await world.services.client_bundles.draft(world.owner, wanted)
    assert await world.services.keys.list(world.owner) == before
    assert draft.files[0].merge("") == bundle.files[0].merge("").replace(key_of(bundle), "xero_…")


async def test_strangers_and_the_unprivileged_get_nothing(world: World) -> None:
    bundles, services = world.services.client_bundles, world.services
    wanted = WantedClient(client="cursor", workspace_id=world.start.workspace_id)
    foreign = await services.identity.create_organization(world.owner, "Other")
    with pytest.raises(NotFound):
        await bundles.issue(local_principal(foreign.id), wanted)
    plain = await services.keys.create(world.owner, NewKey(name="plain", project_id=world.start.project_id))
    with pytest.raises(Forbidden):
        await bundles.issue(await services.keys.authenticate(plain.secret), wanted)
    elsewhere = await services.workspaces.create(world.owner, world.start.project_id, "Elsewhere")
    confined = NewKey(
        name="confined",
        project_id=world.start.project_id,
        scopes=frozenset(SCOPES),
        workspace_ids=frozenset({elsewhere.id}),
    )
    principal = await services.keys.authenticate((await services.keys.create(world.owner, confined)).secret)
    with pytest.raises(NotFound):
        await bundles.issue(principal, wanted)
    assert (await bundles.issue(principal, WantedClient(client="cursor", workspace_id=elsewhere.id))).environment == {}


async def test_what_cannot_be_made_is_refused_before_the_key_changes(sqlite_world: World) -> None:
    world = sqlite_world
    before = await world.services.keys.list(world.owner)
    with pytest.raises(NotFound):
        await issue(world, "emacs")
    for url in ("holdfast.example.com", "ftp://x", "https://", "http://127.0.0.1:0", "https://x?y=1", "http://["):
        with pytest.raises(Invalid):
            await issue(world, "cursor", url=url)
    with pytest.raises(Invalid):
        await issue(world, "cursor", label="x" * 120)
    assert await world.services.keys.list(world.owner) == before


async def test_the_archive_holds_the_files_and_a_readme(sqlite_world: World) -> None:
    bundle = await issue(sqlite_world, "cursor")
    with zipfile.ZipFile(io.BytesIO(archive(bundle))) as packed:
        assert packed.namelist() == [*content(bundle), "xerotier/README.md"]
        assert {name: packed.read(name).decode() for name in content(bundle)} == content(bundle)
        assert packed.getinfo(".cursor/mcp.json").external_attr >> 16 & 0o777 == 0o600


@pytest.mark.contract("XA-12")
@pytest.mark.parametrize("in_environment", [False, True])
async def test_claude_code_is_given_an_endpoint_for_its_model(sqlite_world: World, in_environment: bool) -> None:
    world = sqlite_world
    bundle = await issue(world, "claude-code", router="default", in_environment=in_environment)
    written = content(bundle)
    routed = json.loads(written[".claude/settings.local.json"])
    key = key_of(bundle)

    url = f"{URL}/{world.start.project_id}/default"
    token = {} if in_environment else {"ANTHROPIC_AUTH_TOKEN": key}
    assert routed == {"env": {"ANTHROPIC_BASE_URL": url, **token}}
    exported = {"XEROTIER_API_KEY": key, "ANTHROPIC_AUTH_TOKEN": key}
    assert bundle.environment == (exported if in_environment else {})
    if not in_environment:
        assert {".mcp.json", ".claude/settings.local.json"} <= {
            path.strip("/") for path in written[".gitignore"].split()
        }
    assert "settings.local.json" in bundle.readme and ("ANTHROPIC_AUTH_TOKEN" in bundle.readme) is in_environment


async def test_a_model_that_a_client_cannot_have_is_refused_before_the_key_changes(sqlite_world: World) -> None:
    world = sqlite_world
    before = await world.services.keys.list(world.owner)
    for client, more in (
        ("cursor", {"router": "default"}),
        ("claude-code", {"router": "default", "surface": "keystone"}),
    ):
        with pytest.raises(Invalid) as refused:
            await issue(world, client, **more)
        assert refused.value.fields[0].field == "router"
    with pytest.raises(NotFound):
        await issue(world, "claude-code", router="nowhere")
    assert await world.services.keys.list(world.owner) == before
