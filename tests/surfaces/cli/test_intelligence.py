"""Owns the proof of project intelligence on the command line."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast.core.clock import SystemClock
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.features.identity.service import local_principal
from holdfast.main import cli
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.cli.frame import NOT_FOUND, ProgramEntry
from tests.fakes.embedder import WordEmbedder
from tests.support.services import Services, build_services, first_start


class Cli:
    """Runs commands on one data directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(cli, [*words], obj=ProgramEntry(self._opens, _never), catch_exceptions=False)

    def json(self, *words: str) -> Any:
        result = self.run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    @asynccontextmanager
    async def _opens(self, data_dir: Path | None, begins: bool) -> AsyncIterator[tuple[Services, Principal]]:
        database = SqliteDatabase(self._path)
        try:
            settings = Settings(data_dir=self._path.parent)
            services = build_services(settings, database, SystemClock(), WordEmbedder())
            start = await first_start(services)
            yield services, local_principal(start.organization_id)
        finally:
            await database.close()


def _never(settings: Settings, announce: Callable[[Any], None]) -> None:
    raise AssertionError("no command here starts a server")


@pytest.fixture
def holdfast(sqlite_path: Path) -> Cli:
    return Cli(sqlite_path)


def test_a_project_is_kept_from_the_command_line(holdfast: Cli) -> None:
    old = holdfast.json("decisions", "add", "Deploy by hand")
    new = holdfast.json(
        "decisions",
        "add",
        "Deploy with Nomad",
        "--rationale",
        "Rolling",
        "--alternative",
        "K8s",
        "--supersedes",
        old["id"],
    )
    held = holdfast.json("decisions", "add", "Which region?", "--blocking")
    assert holdfast.json("decisions", "show", old["id"])["superseded_by"] == new["id"]
    assert [each["id"] for each in holdfast.json("decisions", "list", "--blocking")] == [held["id"]]
    assert holdfast.json("decisions", "search", "rolling")[0]["id"] == new["id"]
    edited = holdfast.json("decisions", "edit", held["id"], "--status", "accepted", "--not-blocking")
    assert (edited["status"], edited["blocking"]) == ("accepted", False)

    reached = holdfast.json("milestones", "add", "Nomad live", "--type", "release", "--decision", new["id"])
    assert reached["decisions"] == [new["id"]]
    assert holdfast.json("timeline", "--type", "release")[0]["id"] == reached["id"]
    assert holdfast.json("milestones", "list", "--decision", old["id"]) == []
    changed = holdfast.json("milestones", "edit", reached["id"], "--title", "Nomad serves")
    assert holdfast.json("milestones", "show", reached["id"]) == changed

    tie = holdfast.json("graph", "relate", f"decision:{held['id']}", "affects", f"milestone:{reached['id']}")
    shown = holdfast.json("graph", "show", "--centre", held["id"], "--depth", "1")
    assert {node["id"] for node in shown["nodes"]} == {held["id"], reached["id"]}
    assert "-->|affects|" in holdfast.run("graph", "show", "--mermaid").stdout
    assert holdfast.json("graph", "relations", "--entity", held["id"])[0]["id"] == tie["id"]
    assert holdfast.json("graph", "unrelate", tie["id"])["deleted"]

    assert "Nomad serves" in holdfast.run("brief").stdout
    assert holdfast.json("brief", "--tokens", "300", "--focus", "nomad")["tokens"] <= 300
    assert holdfast.json("analyze", "rolling")["sources"][0]["id"] == new["id"]
    assert holdfast.json("milestones", "delete", reached["id"])["deleted"]


def test_people_get_lines_and_clear_errors(holdfast: Cli) -> None:
    assert "Tracked dec_" in holdfast.run("decisions", "add", "Use queues").stdout
    assert "Use queues" in holdfast.run("decisions", "list").stdout
    missing = holdfast.run("decisions", "show", "dec_none")
    assert (missing.exit_code, "No decision 'dec_none' here." in missing.stderr) == (NOT_FOUND, True)
    wrong = holdfast.run("graph", "relate", "dec_1", "blocks", "decision:dec_2")
    assert wrong.exit_code == 1 and "TYPE:ID" in wrong.stderr
    assert holdfast.run("timeline").stdout.strip() == "Nothing here yet."


def test_commands_take_slugs_where_they_take_ids(holdfast: Cli) -> None:
    place = holdfast.json("workspaces", "create", "--project", "default", "--name", "Field office")
    here = ("--workspace", place["slug"])
    kept = holdfast.json("memory", "save", "The barn door needs oil every month.", *here)
    decided = holdfast.json("decisions", "add", "Oil the barn door", *here)
    holdfast.json("graph", "relate", f"memory:{kept['slug']}", "explains", f"decision:{decided['id']}", *here)
    assert holdfast.json("memory", "get", kept["slug"], *here)["id"] == kept["memory_id"]
    drawn = holdfast.json("graph", "show", "--centre", kept["slug"], *here)
    assert {node["id"] for node in drawn["nodes"]} == {kept["memory_id"], decided["id"]}
    assert len(holdfast.json("graph", "relations", "--entity", kept["slug"], *here)) == 1
    key = holdfast.json("keys", "create", "--name", "k", "--project", "default", *here)
    assert key["workspace_ids"] == [place["workspace_id"]]
    assert len(holdfast.json("workspaces", "list", "--project", "default")) == 2
