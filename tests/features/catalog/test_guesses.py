"""What a server expects is guessed from its README and its complaints, shown as a guess, and an admin corrects it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.errors import Invalid
from holdfast.engines.mcp_client.base import ServerFailed
from holdfast.engines.runtime.packages import InstalledPackage
from holdfast.engines.runtime.readme import readme_of
from holdfast.features.catalog.guessing import guessed, names_in_complaints, names_in_readme
from holdfast.features.catalog.model import EnvRule, NewEntry, ServerManifest
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving

README = """# Weather
Run it:
```json
{"mcpServers": {"weather": {"command": "npx", "env": {"WEATHER_API_KEY": "<your key>", "REGION": "eu"}}}}
```
or `docker run -e WEATHER_UNITS -e NODE_ENV=production weather`, or
```sh
export WEATHER_CACHE_DIR=/tmp
```
## Environment variables
| `WEATHER_TIMEOUT_MS` | how long |
## Errors
`ERR_MODULE_NOT_FOUND`, `SOME_OTHER_THING`
"""


def test_a_readme_names_variables_and_not_everything_in_capitals() -> None:
    assert names_in_readme(README) == [
        "WEATHER_API_KEY",
        "REGION",
        "WEATHER_UNITS",
        "WEATHER_CACHE_DIR",
        "WEATHER_TIMEOUT_MS",
    ]


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("Error: BRAVE_API_KEY environment variable is required", ["BRAVE_API_KEY"]),
        ("KeyError: 'LINEAR_API_KEY'", ["LINEAR_API_KEY"]),
        ("Missing: SLACK_BOT_TOKEN and SLACK_TEAM_ID", ["SLACK_BOT_TOKEN", "SLACK_TEAM_ID"]),
        ("please set GITHUB_TOKEN", ["GITHUB_TOKEN"]),
        ("Server MY_SERVER is running on stdio", []),
        ("code: 'ERR_MODULE_NOT_FOUND' required by", []),
    ],
)
def test_a_complaint_names_what_is_missing(said: str, names: list[str]) -> None:
    assert names_in_complaints(f"starting\n{said}\n") == names


def test_a_guess_neither_replaces_what_somebody_said_nor_demands_anything() -> None:
    known = ServerManifest({"A_KEY": EnvRule(kind="value", required=True)})
    made = guessed(known, {"B_KEY": "x"}, ["A_KEY", "B_KEY", "C_TOKEN", "D_NAME"])
    assert made.env == {
        "A_KEY": EnvRule(kind="value", required=True),
        "C_TOKEN": EnvRule(kind="secret", guessed=True),
        "D_NAME": EnvRule(kind="value", guessed=True),
    }


def test_a_packages_readme_is_read_and_a_link_out_of_it_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "node_modules" / "weather"
    folder.mkdir(parents=True)
    package = InstalledPackage("npm", "weather", "1", "sha256-x", {}, tmp_path, ("node",))
    (tmp_path / "private").write_text("private")
    (folder / "README").symlink_to(tmp_path / "private")
    assert readme_of(package) == ""
    (folder / "readme.md").write_text(README)
    assert readme_of(package) == README
    described = tmp_path / "site" / "weather-1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: weather\nVersion: 1\n\n{README}")
    assert names_in_readme(readme_of(replace(package, ecosystem="pypi"))) == names_in_readme(README)


@pytest.fixture
async def server(sqlite_database: SqliteDatabase, tmp_path: Path) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, data_dir=tmp_path) as running:
        yield running


@pytest.mark.slow
@pytest.mark.contract("XA-2")
async def test_the_first_run_says_what_is_missing_and_an_admin_corrects_the_guess(server: TestServer) -> None:
    catalog, workspace = server.services[ServerCatalog], server.start.workspace_id
    script = 'echo "WEATHER_API_KEY and WEATHER_REGION must be set" >&2; exit 1'
    new = NewEntry(name="weather", shape="command", command="/bin/sh", args=("-c", script))
    await catalog.register(server.owner, workspace, new)
    with pytest.raises(ServerFailed, match="It seems to want WEATHER_API_KEY, WEATHER_REGION: give that in env"):
        await server.services[ToolPins].probe(server.owner, workspace, "weather")
    spec = (await catalog.get(server.owner, workspace, "weather")).spec
    assert {name: (rule.kind, rule.guessed, rule.required) for name, rule in spec.manifest.env.items()} == {
        "WEATHER_API_KEY": ("secret", True, False),
        "WEATHER_REGION": ("value", True, False),
    }
    api = f"/api/workspaces/{workspace}/mcp-servers/weather"
    page = "/w/default/settings/mcp-servers/weather"
    async with await server.browser(server.start.owner_id) as owner:
        shown = (await owner.get(api)).json()["manifest"]["env"]
        assert shown["WEATHER_API_KEY"]["guessed"] is True and shown["WEATHER_API_KEY"]["kind"] == "secret"
        assert (await owner.get(page)).text.count("<span>guessed</span>") == 2
        with pytest.raises(Invalid) as refused:
            await catalog.change(server.owner, workspace, "weather", replace(spec, env={"WEATHER_API_KEY": "public"}))
        assert "say kind value for it in the manifest" in refused.value.fields[0].message
        form = {"shape": "command", "command": "/bin/sh", "args": f"-c\n{script}", "env": "WEATHER_API_KEY=public"}
        corrected = '{"env": {"WEATHER_API_KEY": {"kind": "value"}}}'
        wrong = await owner.post(page, data=form | {"manifest": '{"env": {"A": {"kind": "odd"}}}'})
        assert wrong.status_code == 422 and "manifest.env.A.kind" in wrong.text
        assert (await owner.post(page, data=form | {"manifest": "{nothing"})).status_code == 422
        assert (await owner.post(page, data=form | {"manifest": corrected})).status_code == 303
    kept = (await catalog.get(server.owner, workspace, "weather")).spec
    assert kept.manifest.env == {"WEATHER_API_KEY": EnvRule()} and kept.env == {"WEATHER_API_KEY": "public"}
