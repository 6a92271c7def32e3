"""Entries: who registers them, what is checked of manifest and environment, and snippets that people paste."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Forbidden, Invalid
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.features.audit.model import AuditFilter
from holdfast.features.catalog.manifest import manifest_of
from holdfast.features.catalog.model import NewEntry
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.connections import ServerStarts
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.catalog.snippets.importing import SnippetImport
from holdfast.features.identity.service import local_principal
from holdfast.features.secrets.references import ReferenceBroken
from holdfast.storage.database import Database
from tests.fakes.embedder import WordEmbedder
from tests.fakes.mcp.inside import InsideServers
from tests.support.clock import MovableClock
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.services import Services, background, build_services, first_start

TOKEN = "lin_api_0123456789abcdef"


@dataclass
class Shelf:
    services: Services
    inside: InsideServers
    owner: Principal
    workspace: str

    async def register(self, **spec: Any) -> Any:
        new = NewEntry(**{"name": "linear", "shape": "command", "command": "/usr/bin/true", **spec})
        return await self.services[ServerCatalog].register(self.owner, self.workspace, new)

    async def wrong(self, **spec: Any) -> set[str]:
        with pytest.raises(Invalid) as refused:
            await self.register(**spec)
        return {each.field for each in refused.value.fields}


@pytest.fixture
async def shelf(database: Database, clock: MovableClock) -> AsyncIterator[Shelf]:
    inside = InsideServers()
    settings = Settings(data_dir=NOWHERE, secrets_master_key=MASTER_KEY)
    services = build_services(settings, database, clock, WordEmbedder(), instead=inside.instead())
    async with background(services):
        start = await first_start(services)
        yield Shelf(services, inside, local_principal(start.organization_id), start.workspace_id)


MANIFEST = manifest_of(
    {
        "env": {
            "LINEAR_API_KEY": {"kind": "secret", "label": "API key", "required": True},
            "REGION": {"kind": "value", "enum": ["eu", "us"]},
            "TEAM": {"kind": "value", "regex": "[A-Z]{3}"},
        },
        "tool_scopes": {"create_issue": "linear.write"},
    }
)


@pytest.mark.contract("XA-2")
async def test_what_a_manifest_requires_may_be_left_to_agents_and_is_asked_for_at_a_start(shelf: Shelf) -> None:
    entry = await shelf.register(manifest=MANIFEST)
    with pytest.raises(Invalid) as refused:
        await shelf.services[ServerStarts].of(shelf.owner, entry.id)
    assert {each.field for each in refused.value.fields} == {"env.LINEAR_API_KEY"}


@pytest.mark.contract("XA-2")
@pytest.mark.contract("XA-4")
async def test_every_wrong_field_of_an_entry_is_named(shelf: Shelf) -> None:
    assert await shelf.wrong(name="Linear!") == {"name"}
    assert await shelf.wrong(command=None) == {"command"}
    assert await shelf.wrong(url="https://x.example/mcp") == {"url"}
    env = {"LINEAR_API_KEY": "plain", "REGION": "moon", "TEAM": "abc"}
    assert await shelf.wrong(manifest=MANIFEST, env=env) == {"env.LINEAR_API_KEY", "env.REGION", "env.TEAM"}
    assert await shelf.wrong(manifest=MANIFEST, env={"LINEAR_API_KEY": "prefix-${X}"}) == {"env.LINEAR_API_KEY"}
    assert await shelf.wrong(manifest=MANIFEST, env={"LINEAR_API_KEY": "${MISSING}"}) == {"env.LINEAR_API_KEY"}
    assert await shelf.wrong(env={"URL": "postgres://u:${PG}@host"}) == {"env.URL"}
    assert await shelf.wrong(args=("--token=${X}",)) == {"args[0]"}
    assert await shelf.wrong(allow=("api.linear.app",)) == {"network.allow[0]"}
    with pytest.raises(Invalid) as refused:
        manifest_of({"env": {"A": {"kind": "magic", "regex": "(a+)+"}}, "tools": {}})
    assert {each.field for each in refused.value.fields} == {
        "manifest.env.A.kind",
        "manifest.env.A.regex",
        "manifest.tools",
    }


@pytest.mark.contract("XA-4")
async def test_a_reference_is_checked_when_saved_and_again_at_the_start(shelf: Shelf) -> None:
    secrets = shelf.services.secrets
    await secrets.set(shelf.owner, shelf.workspace, "LINEAR_API_KEY", TOKEN)
    env = {"LINEAR_API_KEY": "${LINEAR_API_KEY}", "REGION": "eu"}
    entry = await shelf.register(manifest=MANIFEST, env=env)
    assert TOKEN not in repr(entry)
    await shelf.services[ToolPins].probe(shelf.owner, shelf.workspace, "linear")
    assert shelf.inside.starts[-1].env == {"LINEAR_API_KEY": TOKEN, "REGION": "eu"}
    assert TOKEN not in repr(shelf.inside.starts[-1])
    await secrets.clear(shelf.owner, shelf.workspace, "LINEAR_API_KEY")
    with pytest.raises(ReferenceBroken, match="LINEAR_API_KEY"):
        await shelf.services[ToolPins].probe(shelf.owner, shelf.workspace, "linear")


@pytest.mark.contract("XA-4")
async def test_a_secret_goes_to_a_server_that_reaches_only_the_secrets_hosts(shelf: Shelf) -> None:
    await shelf.services.secrets.set(shelf.owner, shelf.workspace, "KEY", TOKEN, ["api.linear.app"])
    assert await shelf.wrong(env={"KEY": "${KEY}"}, allow=("api.linear.app:443", "evil.example:443")) == {"env.KEY"}
    await shelf.register(env={"KEY": "${KEY}"}, allow=("api.linear.app:443",))


@pytest.mark.contract("XA-2")
async def test_only_an_admin_registers_and_every_change_is_audited(shelf: Shelf) -> None:
    member = await shelf.services.identity.create_user(shelf.owner, email="m@example.com", name="M", role="member")
    who = Principal(shelf.owner.organization_id, member.id, "session", True, frozenset({"management"}), role="member")
    catalog = shelf.services[ServerCatalog]
    with pytest.raises(Forbidden):
        await catalog.register(who, shelf.workspace, NewEntry(name="a", shape="command", command="/usr/bin/true"))
    await shelf.register()
    with pytest.raises(Conflict):
        await shelf.register()
    entry = await catalog.get(shelf.owner, shelf.workspace, "linear")
    await catalog.change(shelf.owner, shelf.workspace, "linear", entry.spec)
    await catalog.remove(shelf.owner, shelf.workspace, "linear")
    found = await shelf.services.audit.list(shelf.owner, AuditFilter(action="workspace.mcp"))
    assert [event.action for event in reversed(found.items)] == [
        f"workspace.mcp.{action}" for action in ("registered", "updated", "removed")
    ]


async def test_a_file_of_this_machine_is_named_only_from_this_machine(shelf: Shelf, tmp_path: Any) -> None:
    program = tmp_path / "server.py"
    program.write_text("")
    key = Principal(shelf.owner.organization_id, "key_x", "key", False, frozenset({"management"}))
    new = NewEntry(name="own", shape="command", command="/usr/bin/python3", args=(str(program),))
    with pytest.raises(Invalid, match="cannot be registered") as refused:
        await shelf.services[ServerCatalog].register(key, shelf.workspace, new)
    assert [each.field for each in refused.value.fields] == ["args[0]"]
    made = await shelf.services[ServerCatalog].register(shelf.owner, shelf.workspace, new)
    assert made.spec.paths == (str(program),)


async def test_an_image_of_this_machine_is_told_its_environment_by_any_admin(shelf: Shelf, tmp_path: Any) -> None:
    """What it needs is read from it after it was registered; that is then filled in on its page."""
    image, other = f"oci:{tmp_path / 'one'}", f"oci:{tmp_path / 'other'}"
    for each in (image, other):
        (tmp_path / each.rpartition("/")[2]).mkdir()
    catalog = shelf.services[ServerCatalog]
    key = Principal(shelf.owner.organization_id, "key_x", "key", False, frozenset({"management"}))
    new = NewEntry(name="own", shape="image", image=image)
    with pytest.raises(Invalid, match="cannot be registered"):
        await catalog.register(key, shelf.workspace, new)
    await catalog.register(shelf.owner, shelf.workspace, new)
    changed = await catalog.change(key, shelf.workspace, "own", replace(new, env={"REGION": "eu"}))
    assert (changed.spec.env, changed.spec.image) == ({"REGION": "eu"}, image)
    with pytest.raises(Invalid, match="cannot be registered") as refused:
        await catalog.change(key, shelf.workspace, "own", replace(new, image=other))
    assert [each.field for each in refused.value.fields] == ["image"]


CLAUDE = {
    "mcpServers": {
        "linear": {
            "command": "npx",
            "args": ["-y", "linear-mcp@1.2.0"],
            "env": {"LINEAR_API_KEY": TOKEN, "REGION": "eu"},
        },
        "notion": {
            "type": "http",
            "url": "https://mcp.notion.example/mcp",
            "headers": {"Authorization": f"Bearer {TOKEN}"},
        },
        "later": {"command": "uvx", "args": ["mcp-server-x"], "env": {"API_TOKEN": "<your token>"}},
    }
}
VSCODE = {
    "inputs": [{"id": "key", "type": "promptString", "password": True}],
    "servers": {"ci": {"command": "/usr/bin/true", "env": {"CI_TOKEN": "${input:key}", "LEVEL": "2"}}},
}
REGISTRY = {
    "name": "io.github.someone/weather",
    "packages": [
        {
            "registryType": "npm",
            "identifier": "@someone/weather",
            "version": "1.0.2",
            "environmentVariables": [
                {"name": "WEATHER_KEY", "description": "Key", "isRequired": True, "isSecret": True},
                {"name": "UNITS", "default": "metric", "choices": ["metric", "imperial"]},
            ],
        }
    ],
}


@pytest.mark.contract("XA-2")
async def test_a_pasted_snippet_becomes_entries_and_its_credentials_secrets(shelf: Shelf) -> None:
    made = await shelf.services[SnippetImport].run(shelf.owner, shelf.workspace, CLAUDE)
    linear, notion, later = made.servers
    assert linear.spec.env == {"REGION": "eu", "LINEAR_API_KEY": "${LINEAR_API_KEY}"}
    assert linear.spec.manifest.env["LINEAR_API_KEY"].kind == "secret" and linear.install == "installing"
    assert notion.spec.shape == "remote" and notion.spec.headers == {"Authorization": "${AUTHORIZATION}"}
    assert not later.spec.enabled and later.spec.manifest.env["API_TOKEN"].required
    assert [(each.name, each.is_set) for each in made.secrets] == [
        ("LINEAR_API_KEY", True),
        ("AUTHORIZATION", True),
        ("API_TOKEN", False),
    ]
    dump = await shelf.services.database.read(lambda tx: [dict(row) for row in tx.all("SELECT * FROM mcp_server")])
    audit = await shelf.services.audit.list(shelf.owner)
    assert TOKEN not in str(dump) and TOKEN not in str([event.detail for event in audit.items])


@pytest.mark.contract("XA-2")
async def test_the_snippets_of_vs_code_and_of_a_registry_are_read_too(shelf: Shelf) -> None:
    (ci,) = (await shelf.services[SnippetImport].run(shelf.owner, shelf.workspace, VSCODE)).servers
    assert (ci.name, ci.spec.env, ci.spec.enabled) == ("ci", {"LEVEL": "2"}, False)
    (weather,) = (await shelf.services[SnippetImport].run(shelf.owner, shelf.workspace, REGISTRY)).servers
    assert (weather.name, weather.spec.command) == ("weather", "npx")
    assert weather.spec.args == ("-y", "@someone/weather@1.0.2") and weather.spec.env == {"UNITS": "metric"}
    assert weather.spec.manifest.env["WEATHER_KEY"].required and not weather.spec.enabled


@pytest.mark.contract("XA-2")
async def test_what_a_snippets_command_stands_for_is_registered(shelf: Shelf) -> None:
    servers = {
        "memory": {"command": "cmd", "args": ["/c", "npx", "-y", "@modelcontextprotocol/server-memory"]},
        "github": {
            "command": "docker",
            "args": ["run", "-i", "--rm", "-e", "GITHUB_TOKEN", "-e", "LEVEL=2", "oci:/srv/github", "stdio"],
            "env": {"GITHUB_TOKEN": "<your token>"},
        },
        "linear": {
            "command": "npx",
            "args": ["-y", "mcp-remote", "https://mcp.example/mcp", "--header", "Authorization: Bearer ${AUTH}"],
            "env": {"AUTH": TOKEN},
        },
        "clickhouse": {
            "command": "uv",
            "args": ["run", "--with", "mcp-clickhouse", "--python", "3.10", "mcp-clickhouse"],
            "env": {"CLICKHOUSE_HOST": "<clickhouse-host>"},
        },
    }
    made = await shelf.services[SnippetImport].run(shelf.owner, shelf.workspace, {"mcpServers": servers})
    memory, github, linear, clickhouse = (each.spec for each in made.servers)
    assert (memory.command, memory.args) == ("npx", ("-y", "@modelcontextprotocol/server-memory"))
    assert (github.shape, github.image, github.args) == ("image", "oci:/srv/github", ("stdio",))
    assert github.env == {"LEVEL": "2"} and github.manifest.env["GITHUB_TOKEN"].kind == "secret"
    assert (linear.shape, linear.url) == ("remote", "https://mcp.example/mcp")
    assert linear.headers == {"Authorization": "${AUTHORIZATION}"}
    assert made.servers[3].install == "installing" and not clickhouse.enabled
    assert [(each.name, each.is_set) for each in made.secrets] == [("GITHUB_TOKEN", False), ("AUTHORIZATION", True)]
    assert [(each.server, each.variable) for each in made.values] == [("clickhouse", "CLICKHOUSE_HOST")]


async def test_everything_wrong_in_a_snippet_is_named_at_once_by_its_server(shelf: Shelf) -> None:
    servers = {
        "vault": {"command": "npx", "args": ["-y", "mcp-obsidian", "${input:vault}"]},
        "db": {"command": "npx", "args": ["-y", "some-db", "--project-ref=<project-ref>"]},
        "figma": {"command": "npx", "args": ["-y", "figma-mcp", "--figma-api-key=YOUR-KEY"]},
        "docs": {"command": "npx", "args": ["-y", "docs-mcp", "--api-key", "YOUR_API_KEY"]},
        "git": {"command": "docker", "args": ["run", "-v", "/a:/a", "mcp/git"]},
        "fine": {"command": "/usr/bin/true"},
    }
    with pytest.raises(Invalid) as refused:
        await shelf.services[SnippetImport].run(shelf.owner, shelf.workspace, {"mcpServers": servers})
    assert {each.field: each.message.split(";")[0] for each in refused.value.fields} == {
        "mcpServers.vault.args[2]": "put your own value in place of ${input:vault}, which only your editor or you know",
        "mcpServers.db.args[2]": "put your own value in place of <project-ref>, which only your editor or you know",
        "mcpServers.figma.args[2]": "a credential in an argument shows in the list of processes",
        "mcpServers.docs.args[3]": "a credential in an argument shows in the list of processes",
        "mcpServers.git.args": "-v: folders of this machine are not shown to an image",
    }
    with pytest.raises(Invalid) as refused:
        given = {"mcpServers": {"one": {"command": "/usr/bin/true"}, "two": {"url": "file:///etc/passwd"}}}
        await shelf.services[SnippetImport].run(shelf.owner, shelf.workspace, given)
    assert [each.field for each in refused.value.fields] == ["mcpServers.two.url"]
    assert await shelf.services[ServerCatalog].list(shelf.owner, shelf.workspace) == []


async def test_an_import_that_fails_leaves_nothing(shelf: Shelf) -> None:
    broken = {"mcpServers": {"good": {"command": "/usr/bin/true", "env": {"A_TOKEN": TOKEN}}, "bad": {"args": []}}}
    with pytest.raises(Invalid):
        await shelf.services[SnippetImport].run(shelf.owner, shelf.workspace, broken)
    with pytest.raises(Invalid) as refused:
        given = {"mcpServers": {"db": {"command": "x", "args": ["postgres://u:hunter2hunter2@h/db"]}}}
        await shelf.services[SnippetImport].run(shelf.owner, shelf.workspace, given)
    assert refused.value.fields[0].field == "mcpServers.db.args[0]"
    assert await shelf.services[ServerCatalog].list(shelf.owner, shelf.workspace) == []
    assert await shelf.services.secrets.list(shelf.owner, shelf.workspace) == []
