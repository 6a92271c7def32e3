"""Connecting clients from the command line and over REST."""

import asyncio
import io
import json
import zipfile
from pathlib import Path

import pytest
from click.testing import Result

from holdfast.core.clock import SystemClock
from holdfast.core.errors import Unauthenticated
from holdfast.features.client_bundles.service import CLIENTS
from holdfast.features.identity.model import NewKey
from holdfast.storage.lock import DataDirectoryLock
from holdfast.surfaces.cli.frame import FAILED, NOT_FOUND
from tests.support.cli import OperatorCli
from tests.support.server import TestServer
from tests.support.services import open_local


class Cli(OperatorCli):
    """Commands that connect a client, and whether the key that they gave opens anything."""

    def setup(self, client: str, *words: str | Path, code: int = 0) -> Result:
        result = self.run("mcp", "setup", client, *words, "--data-dir", self.settings.data_dir)
        assert result.exit_code == code, result.output
        return result

    def works(self, key: str) -> bool:
        try:
            self.ask(lambda services, _: services.keys.authenticate(key))
        except Unauthenticated:
            return False
        return True


@pytest.fixture
def holdfast(sqlite_path: Path) -> Cli:
    return Cli(sqlite_path.parent, public_url="https://team.example.com")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def key_in(path: Path) -> str:
    found: str = json.loads(path.read_text())["mcpServers"]["xerotier"]["headers"]["Authorization"]
    return found.removeprefix("Bearer ")


def test_printing_gives_the_settings_alone_on_standard_output(holdfast: Cli) -> None:
    for words in ((), ("--print",)):
        result = holdfast.setup("cursor", *words)
        server = json.loads(result.stdout)["mcpServers"]["xerotier"]
        assert server["url"].startswith("https://team.example.com/proj_") and server["url"].endswith("/v1/mcp")
        assert ".cursor/rules/xerotier.mdc" in result.stderr and ".gitignore" in result.stderr
    whole = json.loads(holdfast.setup("codex", "--json", "--url", "http://127.0.0.1:9").stdout)
    assert [file["path"] for file in whole["files"]] == [".codex/config.toml", ".gitignore"]
    assert "http://127.0.0.1:9/proj_" in whole["files"][0]["content"] and "README" not in whole["files"]


def test_the_settings_point_to_where_the_server_really_runs(holdfast: Cli) -> None:
    lock = DataDirectoryLock(holdfast.settings.data_dir)
    lock.tell("http://127.0.0.1:4711")
    running = json.loads(holdfast.setup("cursor").stdout)["mcpServers"]["xerotier"]["url"]
    lock.release()
    stopped = json.loads(holdfast.setup("cursor").stdout)["mcpServers"]["xerotier"]["url"]
    assert running.startswith("http://127.0.0.1:4711/proj_")
    assert stopped.startswith("https://team.example.com/proj_")


def test_a_name_that_two_projects_use_is_not_guessed(holdfast: Cli) -> None:
    async def make() -> list[str]:
        async with open_local(holdfast.settings) as (services, principal):
            projects = [await services.identity.create_project(principal, name) for name in ("One", "Two")]
            return [(await services.workspaces.create(principal, project.id, "Shared")).id for project in projects]

    ids = asyncio.run(make())
    refused = holdfast.setup("cursor", "--workspace", "shared", code=FAILED)
    assert all(each in refused.stderr for each in ids)
    holdfast.setup("cursor", "--workspace", ids[1])


@pytest.mark.parametrize("words", [(), ("--print",), ("--json",), ("--env",), ("--surface", "keystone")])
def test_printing_makes_no_key_and_stops_none_unless_that_is_asked(
    holdfast: Cli, project: Path, words: tuple[str, ...]
) -> None:
    holdfast.setup("cursor", "--write", project)
    in_use = key_in(project / ".cursor/mcp.json")
    before = holdfast.json("keys", "list")
    printed = holdfast.setup("cursor", *words)
    assert holdfast.json("keys", "list") == before and holdfast.works(in_use)
    if "--json" in words:
        assert json.loads(printed.stdout)["key_made"] is False
    else:
        assert "No key was made" in printed.stderr and "--new-key" in printed.stderr
    fresh = holdfast.setup("cursor", "--new-key")
    key = json.loads(fresh.stdout)["mcpServers"]["xerotier"]["headers"]["Authorization"].removeprefix("Bearer ")
    assert holdfast.works(key) and not holdfast.works(in_use) and "No key was made" not in fresh.stderr


@pytest.mark.contract("XM-20")
def test_writing_merges_shows_the_diff_and_rotates_the_key(holdfast: Cli, project: Path) -> None:
    settings = project / ".mcp.json"
    settings.write_text('{\n  // mine\n  "mcpServers": {"other": {"command": "x"}},\n}\n')
    (project / ".claude").mkdir()
    (project / ".claude/CLAUDE.md").write_text("# House rules\n")
    first = holdfast.setup("claude-code", "--write", project)
    assert "+++ .mcp.json" in first.stderr and "xero_…" in first.stderr and "Wrote .mcp.json" in first.stdout
    text = settings.read_text()
    assert "// mine" in text and '"other": {"command": "x"}' in text
    settings.write_text(text.replace("// mine", "").replace(",\n}", "\n}"))
    old = key_in(settings)
    assert old not in first.output and holdfast.works(old)
    assert (project / ".claude/CLAUDE.md").read_text().startswith("# House rules\n\n<!-- xerotier:begin -->")
    before = {path: path.read_text() for path in project.rglob("*") if path.is_file()}
    second = holdfast.setup("claude-code", "--write", project)
    assert "Nothing changes but the key." in second.stderr
    new = key_in(settings)
    assert {path: path.read_text().replace(new, old) for path in before} == before
    assert not holdfast.works(old) and holdfast.works(new)


def test_with_env_the_key_is_only_on_standard_output(holdfast: Cli, project: Path) -> None:
    result = holdfast.setup("claude-code", "--write", project, "--env")
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("export XEROTIER_API_KEY=")]
    key = line.split("=", 1)[1]
    assert holdfast.works(key) and key not in result.stderr
    assert key_in(project / ".mcp.json") == "${XEROTIER_API_KEY}"
    assert all(key not in path.read_text() for path in project.rglob("*") if path.is_file())
    holdfast.setup("claude-desktop", "--env", code=FAILED)


def test_a_broken_file_is_named_and_neither_file_nor_key_changes(holdfast: Cli, project: Path) -> None:
    holdfast.setup("claude-code", "--write", project)
    key = key_in(project / ".mcp.json")
    (project / ".mcp.json").write_text("{ oops")
    (project / ".gitignore").unlink()
    failed = holdfast.setup("claude-code", "--write", project, code=FAILED)
    assert "Nothing was written" in failed.stderr and "line 1, column 3" in failed.stderr
    assert (project / ".mcp.json").read_text() == "{ oops" and not (project / ".gitignore").exists()
    assert holdfast.works(key)


def test_saying_no_changes_nothing(holdfast: Cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holdfast.setup("cursor", "--write", project)
    key = key_in(project / ".cursor/mcp.json")
    (project / ".gitignore").write_text("")
    monkeypatch.setattr("holdfast.surfaces.cli.printing.is_asked", lambda: True)
    refused = holdfast.run("mcp", "setup", "cursor", "--write", project, given="n\n")
    assert refused.exit_code == FAILED and "key is as it was" in refused.stderr
    assert (project / ".gitignore").read_text() == "" and holdfast.works(key)
    agreed = holdfast.run("mcp", "setup", "cursor", "--write", project, given="y\n")
    assert agreed.exit_code == 0 and not holdfast.works(key)
    holdfast.setup("cursor", "--write", project, "--yes")


@pytest.mark.slow
def test_every_client_can_be_written_twice(holdfast: Cli, project: Path) -> None:
    for client in CLIENTS:
        for _ in range(2):
            holdfast.setup(client, "--write", project / client, "--tier", "core")
        path = project / client / CLIENTS[client].path
        assert path.stat().st_mode & 0o777 == 0o600 and "xero_" in path.read_text()


def test_wrong_words_are_answered_with_one_line(holdfast: Cli) -> None:
    assert "Invalid value" in holdfast.setup("emacs", code=2).output
    holdfast.setup("cursor", "--workspace", "nowhere", code=NOT_FOUND)
    assert "url" in holdfast.setup("cursor", "--url", "nowhere", code=FAILED).stderr


@pytest.mark.contract("XM-20")
async def test_a_download_is_a_zip_that_works_until_the_next(server: TestServer) -> None:
    path = f"/api/workspaces/{server.start.workspace_id}/client-bundles"
    keys = []
    async with server.client() as client:
        for _ in range(2):
            answer = await client.post(f"{path}/claude-code", json={"tier": "core"})
            assert answer.status_code == 200 and answer.headers["content-type"] == "application/zip"
            assert answer.headers["cache-control"] == "no-store"
            with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
                names = packed.namelist()
                settings = json.loads(packed.read(".mcp.json"))["mcpServers"]["xerotier"]
            assert names == [".mcp.json", ".claude/CLAUDE.md", ".gitignore", "xerotier/README.md"]
            assert settings["url"] == f"{server.url}/{server.start.project_id}/v1/mcp"
            keys.append(settings["headers"]["Authorization"].removeprefix("Bearer "))
        assert (await client.post(f"{path}/emacs")).status_code == 404
        assert (await client.post(f"{path}/zed", json={"env": True})).status_code == 422
        assert (await client.post(f"{path}/zed", json={"tier": "most"})).status_code == 422
    with pytest.raises(Unauthenticated):
        await server.services.keys.authenticate(keys[0])
    assert (await server.services.keys.authenticate(keys[1])).tier == "core"


async def test_a_download_takes_management_and_ones_own_workspace(server: TestServer) -> None:
    path = f"/api/workspaces/{server.start.workspace_id}/client-bundles/cursor"
    plain = await server.mint("inference", "read")
    other = await server.another_tenant()
    foreign = await server.mint(owner=other.owner, project_id=other.project_id)
    async with server.client(plain.secret) as client:
        assert (await client.post(path)).status_code == 403
    async with server.client(foreign.secret) as client:
        assert (await client.post(path)).status_code == 404


async def test_a_page_cannot_cause_a_bundle_without_its_csrf_token(server: TestServer) -> None:
    path = f"/api/workspaces/{server.start.workspace_id}/client-bundles/cursor"
    before = (await server.services.keys.list(server.owner, limit=200)).items
    async with server.stranger() as browser:
        assert (await browser.post(path)).status_code == 401
        link = await server.link(server.start.owner_id)
        entered = await browser.post("/sign-in", data={"link": link}, headers={"Origin": server.url})
        assert entered.status_code == 303, entered.text
        fetched = await browser.get(path)
        assert (fetched.status_code, fetched.headers["allow"]) == (405, "POST")
        assert (await browser.post(path)).json()["error"]["code"] == "csrf"
        assert (await server.services.keys.list(server.owner, limit=200)).items == before
        session = await server.services.sign_in.session(browser.cookies["holdfast_session"])
        assert (await browser.post(path, headers={"X-CSRF-Token": session.csrf})).status_code == 200


async def test_a_bundles_key_never_outranks_the_key_that_made_it(sqlite_server: TestServer) -> None:
    server = sqlite_server
    path = f"/api/workspaces/{server.start.workspace_id}/client-bundles/cursor"
    ends = SystemClock().now() + 3_600_000
    small = await server.mint("management", "inference", tier="core", expires_at=ends, name="small")
    manages = await server.mint("management", name="manages")
    async with server.client(small.secret) as client:
        made = await client.post(path)
        assert made.status_code == 200, made.text
        wider = await client.post(path, json={"tier": "intel"})
        assert (wider.status_code, wider.json()["error"]["fields"][0]["field"]) == (403, "tier")
    async with server.client(manages.secret) as client:
        refused = await client.post(path)
        assert refused.status_code == 403 and "scopes: you lack inference" in refused.json()["error"]["message"]
    with zipfile.ZipFile(io.BytesIO(made.content)) as packed:
        found = json.loads(packed.read(".cursor/mcp.json"))["mcpServers"]["xerotier"]
    bearer = await server.services.keys.authenticate(found["headers"]["Authorization"].removeprefix("Bearer "))
    assert (bearer.tier, bearer.expires_at, bearer.scopes) == ("core", ends, frozenset({"inference"}))


async def test_a_confined_keys_bundle_stops_no_namesake_beyond_it(sqlite_server: TestServer) -> None:
    server = sqlite_server
    path = f"/api/workspaces/{server.start.workspace_id}/client-bundles/cursor"
    wide = await server.mint(name="mcp:cursor:default")
    confined = await server.mint(name="confined", workspace_ids=frozenset({server.start.workspace_id}))
    async with server.client(confined.secret) as client:
        refused = await client.post(path)
        assert refused.status_code == 403 and "not yours to stop" in refused.json()["error"]["message"]
        assert (await client.post(path, json={"label": "own"})).status_code == 200
    await server.services.keys.authenticate(wide.secret)


@pytest.mark.contract("KS-1")
def test_keystone_is_set_up_beside_the_workspace_and_needs_none(holdfast: Cli, project: Path) -> None:
    async def make() -> None:
        async with open_local(holdfast.settings) as (services, principal):
            project = await services.identity.create_project(principal, "One")
            await services.workspaces.create(principal, project.id, "Second")

    asyncio.run(make())
    holdfast.setup("claude-code", "--write", project, "--workspace", "default")
    result = holdfast.setup("claude-code", "--write", project, "--surface", "keystone")
    assert "ks_live_…" in result.stderr and "list_projects" in result.stderr
    servers = json.loads((project / ".mcp.json").read_text())["mcpServers"]
    assert set(servers) == {"xerotier", "keystone"}
    assert servers["keystone"]["url"] == "https://team.example.com/api/mcp"
    key = servers["keystone"]["headers"]["Authorization"].removeprefix("Bearer ")
    assert holdfast.works(key) and key not in result.output
    again = holdfast.setup("claude-code", "--write", project, "--surface", "keystone")
    assert "Nothing changes but the key." in again.stderr and not holdfast.works(key)
    shown = json.loads(holdfast.setup("codex", "--surface", "keystone", "--json").stdout)
    assert shown["surface"] == "keystone" and "[mcp_servers.keystone]" in shown["files"][0]["content"]
    holdfast.setup("codex", "--surface", "keystone", "--workspace", "nowhere", code=NOT_FOUND)


async def test_a_keystone_bundle_is_downloaded_by_whoever_sees_the_organization(server: TestServer) -> None:
    path = f"/api/workspaces/{server.start.workspace_id}/client-bundles/claude-code"
    new = NewKey(name="whole", kind="organization", scopes=frozenset({"management", "inference"}))
    minted = await server.services.keys.create(server.owner, new)
    async with server.client(minted.secret) as client:
        answer = await client.post(path, json={"surface": "keystone"})
        assert answer.status_code == 200, answer.text
        assert 'filename="keystone-claude-code.zip"' in answer.headers["content-disposition"]
        with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
            assert packed.namelist() == [".mcp.json", ".claude/CLAUDE.md", ".gitignore", "keystone/README.md"]
            settings = json.loads(packed.read(".mcp.json"))["mcpServers"]["keystone"]
        assert settings["url"] == f"{server.url}/api/mcp"
        assert (await client.post(path, json={"surface": "other"})).status_code == 422
    async with server.client() as client:
        assert (await client.post(path, json={"surface": "keystone"})).status_code == 403
