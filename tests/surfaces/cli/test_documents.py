"""Proves documents and artifacts on the command line."""

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

    def run(self, *words: str | Path, input: str | None = None) -> Result:
        entry = ProgramEntry(self._opens, _never)
        return CliRunner().invoke(cli, [str(word) for word in words], obj=entry, catch_exceptions=False, input=input)

    def json(self, *words: str | Path) -> Any:
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


def test_documents_are_added_read_shown_and_deleted(holdfast: Cli, tmp_path: Path) -> None:
    zoo, other = tmp_path / "zoo.md", tmp_path / "other.txt"
    zoo.write_text("# Zoo\n\nThe giraffe is fed at noon.\n")
    other.write_text("other")

    added = holdfast.json("docs", "add", zoo, "--wait")
    waiting = holdfast.json("docs", "add", zoo, other)

    assert (added["state"], added["chunks"], added["created"]) == ("ready", 1, True)
    assert [(each["filename"], each["state"], each["created"]) for each in waiting] == [
        ("zoo.md", "ready", False),
        ("other.txt", "queued", True),
    ]
    assert {each["filename"] for each in holdfast.json("docs", "list")} == {"zoo.md", "other.txt"}
    assert "giraffe" in holdfast.run("docs", "show", added["id"], "--text").output
    assert holdfast.json("docs", "show", added["id"])["title"] == "Zoo"
    assert holdfast.json("docs", "delete", added["id"]) == {"id": added["id"], "deleted": True}
    assert holdfast.run("docs", "show", added["id"]).exit_code == NOT_FOUND


def test_a_file_that_cannot_be_read_fails_the_command(holdfast: Cli, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pdf"
    bad.write_bytes(b"%PDF-1.7 nothing")
    result = holdfast.run("docs", "add", bad, "--wait")
    assert result.exit_code == FAILED
    assert "damaged" in result.output
    missing = holdfast.run("docs", "add", tmp_path / "missing.txt")
    assert missing.exit_code == FAILED
    assert "cannot be read" in missing.output


def test_one_bad_file_of_several_holds_up_no_other_and_is_named_with_its_reason(holdfast: Cli, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first.md", "picture.png", "missing.txt", "empty.txt", "last.md")]
    files[0].write_text("# First\n\nThe giraffe is fed at noon.\n")
    files[1].write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    files[3].write_text("")
    files[4].write_text("# Last\n\nThe zebra is fed at dusk.\n")

    result = holdfast.run("docs", "add", *files, "--wait", "--json")

    assert result.exit_code == FAILED
    rows = {Path(row["filename"]).name: row for row in json.loads(result.stdout)}
    assert [rows[name]["state"] for name in ("first.md", "last.md")] == ["ready", "ready"]
    for name in ("picture.png", "missing.txt", "empty.txt"):
        assert rows[name]["state"] == "refused" and rows[name]["id"] is None
        assert f"{name} was not added: {rows[name]['reason']}" in result.stderr
    assert (
        "No such file" in rows["missing.txt"]["reason"] and rows["picture.png"]["reason_code"] == "unsupported_format"
    )
    assert {each["filename"] for each in holdfast.json("docs", "list")} == {"first.md", "last.md"}


def test_what_would_be_wrong_with_every_file_ends_the_command(holdfast: Cli, tmp_path: Path) -> None:
    file = tmp_path / "first.md"
    file.write_text("# First\n")
    result = holdfast.run("docs", "add", file, "--chat", "not a chat!", "--json")
    assert result.exit_code == FAILED and result.stdout == "" and "chat_id" in result.stderr


def test_artifacts_are_kept_from_the_command_line(holdfast: Cli, tmp_path: Path) -> None:
    file = tmp_path / "fib.py"
    file.write_text("one\n")
    made = holdfast.json("artifacts", "create", "fib.py", file, "--title", "Fibonacci")
    assert (made["type"], made["version"], made["title"]) == ("text/x-python", 1, "Fibonacci")

    updated = holdfast.run("artifacts", "update", "fib.py", "-", input="two\n")
    assert "version 2" in updated.output
    assert holdfast.run("artifacts", "show", "fib.py").output == "two\n"
    assert holdfast.json("artifacts", "show", made["id"], "--version", "1")["content"] == "one\n"
    assert [each["version"] for each in holdfast.json("artifacts", "versions", "fib.py")] == [2, 1]
    assert "-one\n+two" in holdfast.run("artifacts", "diff", "fib.py").output
    assert [each["identifier"] for each in holdfast.json("artifacts", "list")] == ["fib.py"]
    stale = holdfast.run("artifacts", "update", "fib.py", file, "--expect", "1")
    assert stale.exit_code == FAILED and "version 2" in stale.output
    assert holdfast.json("artifacts", "delete", "fib.py")["deleted"] is True
    assert holdfast.run("artifacts", "show", "fib.py").exit_code == NOT_FOUND
