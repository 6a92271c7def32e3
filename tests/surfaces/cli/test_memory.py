"""Proves memories, search, import and export on the command line."""

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
from holdfast.surfaces.cli.frame import FAILED, NOT_FOUND, ProgramEntry
from tests.fakes.embedder import WordEmbedder
from tests.support.services import Services, build_services, first_start


class Cli:
    """Runs commands on one data directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, *words: str, input: str | None = None) -> Result:
        entry = ProgramEntry(self._opens, _never)
        return CliRunner().invoke(cli, [*words], obj=entry, catch_exceptions=False, input=input)

    def json(self, *words: str, input: str | None = None) -> Any:
        result = self.run(*words, "--json", input=input)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    @asynccontextmanager
    async def _opens(self, data_dir: Path | None, begins: bool) -> AsyncIterator[tuple[Services, Principal]]:
        database = SqliteDatabase(self._path)
        try:
            services = build_services(Settings(data_dir=self._path.parent), database, SystemClock(), WordEmbedder())
            start = await first_start(services)
            yield services, local_principal(start.organization_id)
        finally:
            await database.close()


def _never(settings: Settings, announce: Callable[[Any], None]) -> None:
    raise AssertionError("no command here starts a server")


@pytest.fixture
def holdfast(sqlite_path: Path) -> Cli:
    return Cli(sqlite_path)


def test_a_memory_lives_through_every_command(holdfast: Cli) -> None:
    saved = holdfast.json("memory", "save", "The cache is Redis", "--tag", "infra", "--occurred-at", "2025-01-01")
    assert (saved["status"], saved["slug"]) == ("saved", "the-cache-is-redis")
    assert holdfast.json("memory", "save", "-", input="the cache is Redis.\n")["status"] == "duplicate"
    assert holdfast.json("memory", "get", "the-cache-is-redis")["trust"] == "person"
    assert holdfast.json("memory", "edit", saved["memory_id"], "--content", "The cache is Valkey")["content"] == (
        "The cache is Valkey"
    )
    assert [each["content"] for each in holdfast.json("memory", "history", saved["slug"])] == ["The cache is Redis"]
    new = holdfast.json("memory", "supersede", saved["slug"], "The cache moved to Dragonfly")
    assert [each["id"] for each in holdfast.json("memory", "recall", "cache")] == [new["memory_id"]]
    then = holdfast.json("memory", "recall", "cache", "--as-of", "2025-06-01")
    assert [each["slug"] for each in then] == ["the-cache-is-redis"]
    for command in (("search",), ("memory", "search")):
        found = holdfast.json(*command, "dragonfly", "--types", "memory")
        assert [each["id"] for each in found] == [new["memory_id"]]
    explained = holdfast.json("search", "dragonfly", "--explain")[0]["explanation"]
    assert explained["words"] > 0 and explained["total"] >= explained["words"]
    assert "words" in holdfast.run("search", "dragonfly", "--explain").output
    assert holdfast.run("doctor", "--search").output.count("each with its vector") == 1
    assert holdfast.json("memory", "retract", new["slug"], "--note", "rolled back")["status"] == "retracted"
    assert holdfast.json("memory", "list") == []
    assert len(holdfast.json("memory", "list", "--status", "any")) == 2
    assert holdfast.json("memory", "forget", new["slug"])["forgotten"] is True
    assert holdfast.run("memory", "get", new["slug"]).exit_code == NOT_FOUND


def test_a_refused_memory_fails_with_its_reason_only(holdfast: Cli) -> None:
    secret = "sk-ant-" + "api03-abcdEFGH1234ijkl"
    result = holdfast.run("memory", "save", f"The key is {secret}")
    assert result.exit_code == 1
    assert "Anthropic" in result.stderr
    assert secret not in result.output


def test_an_export_is_imported_into_another_workspace_and_exported_alike(holdfast: Cli, tmp_path: Path) -> None:
    old = holdfast.json("memory", "save", "The office is in Berlin")
    holdfast.json("memory", "supersede", old["slug"], "The office moved to Munich")
    project = holdfast.json("projects", "list")[0]["project_id"]
    other = holdfast.json("workspaces", "create", "--project", project, "--name", "Other")["workspace_id"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert holdfast.json("export", str(first), "--workspace", "default")["memory"] == 2
    assert holdfast.json("import", str(first), "--workspace", other)["created"] == {"memory": 2}
    holdfast.json("export", str(second), "--workspace", other)
    files = [
        {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.md")}
        for root in (first, second)
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 2
    refused = holdfast.run("export", str(first), "--workspace", other)
    assert (refused.exit_code, "--replace" in refused.stderr) == (1, True)
    said = holdfast.run("import", str(first), "--workspace", other).stdout
    assert said == "Imported nothing new; 0 updated, 2 known already.\n"


def test_an_import_that_brought_nothing_fails_for_scripts(holdfast: Cli, tmp_path: Path) -> None:
    broken = tmp_path / "memory.jsonl"
    broken.write_text('{"type": "entity", "name":')
    failed = holdfast.run("import", str(broken), "--json")
    assert failed.exit_code == FAILED
    assert json.loads(failed.stdout)["problems"][0]["reason"] == "line 1 is not JSON"
    assert holdfast.run("import", str(broken)).exit_code == FAILED
